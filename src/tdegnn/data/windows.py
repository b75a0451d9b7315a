"""Windows: what a model sees of a series, and the steps that follow. Views, never copies.

`sliding_windows` cuts a series into inputs and targets, oldest first, as forecasting needs them. `splits.py` assigns
steps to subsets, and `SlidingWindows.predicting` selects the windows of a subset. The `fill_` functions
replace what was not observed in a window, looking at nothing outside of it. `one_step_windows` cuts trajectories of a
system into histories, newest first, as the equation needs them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.errors import InputError, check_count


@dataclass(frozen=True, eq=False)
class SlidingWindows:
    """Inputs and the targets that follow them, oldest first: views of one series.

    A change of the series changes the windows. Do not write to the windows: they overlap.

    Attributes:
        inputs: What a model sees.
        targets: What it forecasts.
        first_target_steps: The step of the series that is the first target of each window.
    """

    inputs: Float[Tensor, "windows window nodes channels"]
    targets: Float[Tensor, "windows horizon nodes targets"]
    first_target_steps: range

    def __len__(self) -> int:
        return len(self.first_target_steps)

    @property
    def window(self) -> int:
        """Number of steps that a model sees."""
        return self.inputs.shape[1]

    @property
    def horizon(self) -> int:
        """Number of steps that it forecasts."""
        return self.targets.shape[1]

    @property
    def stride(self) -> int:
        """Number of steps from one window to the next."""
        return self.first_target_steps.step

    def predicting(self, steps: range) -> SlidingWindows:
        """Return the windows whose targets all lie in `steps`. There may be none.

        Their inputs may begin before `steps`: when a forecast is made, the past is known.
        """
        if steps.step != 1:
            raise InputError(f"Expected consecutive steps, got {steps}. Pass a range of step 1.")
        first = bisect_left(self.first_target_steps, steps.start)
        subset = slice(first, max(first, bisect_right(self.first_target_steps, steps.stop - self.horizon)))
        return SlidingWindows(self.inputs[subset], self.targets[subset], self.first_target_steps[subset])


def sliding_windows(
    values: Float[Tensor, "time nodes channels"] | Float[np.ndarray, "time nodes channels"],
    window: int,
    horizon: int = 1,
    stride: int = 1,
) -> SlidingWindows:
    """Cut a series into windows of `window` steps and the `horizon` steps after each.

    Args:
        values: The series, oldest first. A read-only array is copied once, since torch has no read-only tensors.
        window: Number of steps that a model sees.
        horizon: Number of steps that it forecasts.
        stride: Number of steps from one window to the next.
    """
    check_count(window=window, horizon=horizon, stride=stride)
    if not isinstance(values, Tensor):
        values = torch.from_numpy(np.require(values, values.dtype.newbyteorder("="), "W"))
    if values.dim() != 3:
        raise InputError(f"Expected a series of shape (time, nodes, channels), got {tuple(values.shape)}.")
    num_steps = len(values)
    if num_steps < window + horizon:
        raise InputError(
            f"Expected at least {window + horizon} steps for a window of {window} and a horizon of {horizon}, got "
            f"{num_steps}. Take a shorter window, a shorter horizon or a longer series."
        )
    inputs = values[: num_steps - horizon].unfold(0, window, stride).movedim(-1, 1)
    targets = values[window:].unfold(0, horizon, stride).movedim(-1, 1)
    return SlidingWindows(inputs, targets, range(window, num_steps - horizon + 1, stride))


def has_gaps(windows: Float[Tensor, "windows time nodes channels"]) -> bool:
    """Return whether any value is NaN. Of windows that are views of one series, each step is looked at once."""
    stride, rest = divmod(windows.stride(0), max(1, windows.stride(1)))
    is_view = len(windows) > 1 and rest == 0 and 0 < stride <= windows.shape[1]
    steps = (windows[0], windows[1:, -stride:]) if is_view else (windows,)
    # A sum is NaN if any of its terms is, and needs no memory. A mask would.
    return any(bool(each.sum().isnan()) for each in steps)


Inputs: TypeAlias = Float[Tensor, "*batch time nodes channels"]
StepIndex: TypeAlias = Int[Tensor, "*batch time nodes channels"]
TIME = -3


def fill_last(values: Inputs) -> Inputs:
    """Fill a gap with the last value before it, or the first value after it if the window begins with the gap."""
    if not values.isnan().any():
        return values
    before, _ = _nearest_observed(values)
    return _zero_the_rest(values.gather(TIME, before))


def fill_linear(values: Inputs) -> Inputs:
    """Fill a gap by linear interpolation. A gap at an end of the window takes the nearest value."""
    if not values.isnan().any():
        return values
    before, after = _nearest_observed(values)
    # For an observed value, both are its own step, and the share is zero.
    share = (_steps(values) - before).to(values.dtype) / (after - before).clamp(min=1)
    return _zero_the_rest(torch.lerp(values.gather(TIME, before), values.gather(TIME, after), share))


def fill_zero_with_mask(values: Inputs) -> Float[Tensor, "*batch time nodes twice_the_channels"]:
    """Fill gaps with zero, and add one channel per channel: 1 for observed values, 0 for the others."""
    return torch.cat([_zero_the_rest(values), (~values.isnan()).to(values.dtype)], dim=-1)


def _nearest_observed(values: Inputs) -> tuple[StepIndex, StepIndex]:
    """Return the nearest observed steps up to and from each step. If there is none on a side, the other one."""
    num_steps, steps, is_observed = values.shape[TIME], _steps(values), ~values.isnan()
    before = torch.where(is_observed, steps, -1).cummax(dim=TIME).values
    after = torch.where(is_observed, steps, num_steps).flip(TIME).cummin(dim=TIME).values.flip(TIME)
    # If nothing was observed, any step will do: its value is NaN.
    nearest_before = torch.where(before < 0, after, before).clamp(max=num_steps - 1)
    nearest_after = torch.where(after == num_steps, before, after).clamp(min=0)
    return nearest_before, nearest_after


def _steps(values: Inputs) -> Int[Tensor, "time 1 1"]:
    return torch.arange(values.shape[TIME], device=values.device)[:, None, None]


def _zero_the_rest(values: Inputs) -> Inputs:
    return values.masked_fill(values.isnan(), 0.0)


class OneStepWindows(NamedTuple):
    """Histories, newest first, and the states that follow them. (trajectories, windows) are batch axes."""

    history: tuple[Float[Tensor, "trajectories windows nodes channels"], ...]
    target: Float[Tensor, "trajectories windows nodes channels"]


def one_step_windows(states: Float[Tensor, "trajectories time nodes channels"], order: int) -> OneStepWindows:
    """Cut trajectories into every history of `order` states and the state after it."""
    num_steps = states.shape[1]
    if not 1 <= order < num_steps:
        raise InputError(f"Expected an order between 1 and {num_steps - 1}, one less than the steps, got {order}.")
    history = tuple(states[:, order - 1 - p : num_steps - 1 - p] for p in range(order))
    return OneStepWindows(history, states[:, order:])


def backward_difference(windows: OneStepWindows) -> Float[Tensor, "trajectories windows nodes channels"]:
    """Return the o-th backward difference of target and history: what a fit of order o has to explain."""
    order = len(windows.history)
    difference = windows.target.clone()
    for p, state in enumerate(windows.history, start=1):
        difference += (-1) ** p * comb(order, p) * state
    return difference
