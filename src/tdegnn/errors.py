"""The two ways this library says no, and the checks that every part needs.

`InputError` is a mistake of the caller: its message says what was expected, what came and what to do.
`TrainingError` is a computation that went wrong on valid input. The command line prints both as one line.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class TdegnnError(Exception):
    """Base of all errors this library raises on purpose."""


class InputError(TdegnnError, ValueError):
    """The input is not what the function expects."""


class DownloadError(InputError):
    """A file could not be had: there is no network, the server has no such file, or what came is not that file."""


class TrainingError(TdegnnError, RuntimeError):
    """Training could not go on, for example because the loss is no longer finite."""


def check_count(minimum: int = 1, **counts: Any) -> None:
    """Raise an `InputError` for the first of `counts` that is no whole number of at least `minimum`."""
    for name, count in counts.items():
        try:
            is_enough = operator.index(count) >= minimum
        except TypeError as error:
            raise InputError(f"Expected {name} to be a whole number, got {count!r}.") from error
        if not is_enough:
            raise InputError(f"Expected {name} to be at least {minimum}, got {count}.")


def check_finite(**numbers: Any) -> None:
    """Raise an `InputError` for the first of `numbers` that is no finite number."""
    for name, number in numbers.items():
        try:
            is_finite = math.isfinite(number)
        except TypeError as error:
            raise InputError(f"Expected {name} to be a number, got {number!r}.") from error
        if not is_finite:
            raise InputError(f"Expected {name} to be finite, got {number}.")


def check_layer(layer: int, num_layers: int) -> None:
    """Raise an `InputError` where a part was not made for so many layers."""
    if not 0 <= layer < num_layers:
        raise InputError(
            f"Expected a layer from 0 to {num_layers - 1}, for which this part was made, got layer {layer}."
        )


def check_fits(state: Tensor, parameter: Tensor, channels: int) -> None:
    """Raise an `InputError` where `state` does not fit a part made for `channels` channels with this parameter."""
    if state.shape[-1] != channels:
        raise InputError(
            f"Expected states of {channels} channels, for which this part was made, got {state.shape[-1]}."
        )
    if (state.dtype, state.device) != (parameter.dtype, parameter.device):
        raise InputError(
            f"Expected states in {parameter.dtype} on {parameter.device}, as the parameters are, got {state.dtype} on "
            f"{state.device}. Convert one of them with .to(...)."
        )
