"""Which device to compute on."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from tdegnn.errors import InputError

DeviceName = Literal["auto", "cpu", "cuda"]


def choose_device(name: DeviceName) -> torch.device:
    """`auto` takes a CUDA device where there is one; a device that is asked for and missing is an error."""
    if name not in get_args(DeviceName):
        raise InputError(f"Expected device to be 'auto', 'cpu' or 'cuda', got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device, got a machine (or a torch build) without one. Use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
