"""Fill what was not observed (NaN) in input windows, from nothing but the same window.

Filling a whole series by interpolation, and cutting windows afterwards, would carry what comes after a window, its
target among it, into the window. Here a gap sees only its own window; a window in which a node has nothing becomes
zero. Meant for scaled values, of which zero is the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

Inputs: TypeAlias = Float[Tensor, "*batch time nodes channels"]
StepIndex: TypeAlias = Int[Tensor, "*batch time nodes channels"]
TIME = -3


def fill_last(values: Inputs) -> Inputs:
    """The last value before the gap, or the first after it where the window begins with the gap."""
    if not values.isnan().any():
        return values
    before, _ = _nearest_observed(values)
    return _zero_the_rest(values.gather(TIME, before))


def fill_linear(values: Inputs) -> Inputs:
    """On the straight line between the values around the gap; constant where the window begins or ends with it."""
    if not values.isnan().any():
        return values
    before, after = _nearest_observed(values)
    # Where a value was observed both are its own step, and the share is zero.
    share = (_steps(values) - before).to(values.dtype) / (after - before).clamp(min=1)
    return _zero_the_rest(torch.lerp(values.gather(TIME, before), values.gather(TIME, after), share))


def fill_zero_with_mask(values: Inputs) -> Float[Tensor, "*batch time nodes twice_the_channels"]:
    """Zero, and for each channel one more that says what was observed (1) and what was not (0)."""
    return torch.cat([_zero_the_rest(values), (~values.isnan()).to(values.dtype)], dim=-1)


# By name, for command lines and saved configurations.
FILLINGS: dict[str, Callable[[Inputs], Inputs]] = {
    "last": fill_last,
    "linear": fill_linear,
    "mask": fill_zero_with_mask,
}


def _nearest_observed(values: Inputs) -> tuple[StepIndex, StepIndex]:
    """The nearest observed steps, up to each step and from it on; the other one where there is none on a side."""
    num_steps, steps, is_observed = values.shape[TIME], _steps(values), ~values.isnan()
    before = torch.where(is_observed, steps, -1).cummax(dim=TIME).values
    after = torch.where(is_observed, steps, num_steps).flip(TIME).cummin(dim=TIME).values.flip(TIME)
    # Where nothing was observed any step will do: it leads to NaN.
    nearest_before = torch.where(before < 0, after, before).clamp(max=num_steps - 1)
    nearest_after = torch.where(after == num_steps, before, after).clamp(min=0)
    return nearest_before, nearest_after


def _steps(values: Inputs) -> Int[Tensor, "time 1 1"]:
    return torch.arange(values.shape[TIME], device=values.device)[:, None, None]


def _zero_the_rest(values: Inputs) -> Inputs:
    return values.masked_fill(values.isnan(), 0.0)
