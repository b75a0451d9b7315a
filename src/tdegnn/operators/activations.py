"""The nonlinearities that operators take by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tdegnn.errors import InputError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "absolute": torch.abs,
    "identity": lambda state: state,
}


def check_activation(activation: str) -> None:
    """Raise an `InputError` for a name that is none of the activations."""
    if activation not in ACTIVATIONS:
        raise InputError(f"Expected activation to be one of {', '.join(ACTIVATIONS)}, got {activation!r}.")
