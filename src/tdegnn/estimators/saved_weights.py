"""Weights from a run folder into the networks they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from tdegnn.errors import InputError


def take_weights(network: nn.Module, stored: Mapping[str, Tensor], member: int, path: Path) -> None:
    """Give a network the weights and buffers of one member, whose rows they are; `path` says whose folder it is."""
    own = dict([*network.named_parameters(), *network.named_buffers()])
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if shapes != {name: tuple(tensor.shape[1:]) for name, tensor in stored.items()}:
        raise InputError(f"Expected weights of the settings in {path}, got others. Train again.")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(stored[name][member])
