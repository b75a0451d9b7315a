"""Batch norm of states: each channel is normalized over all nodes, and over the batch."""

from __future__ import annotations

from torch import nn

from tdegnn.graph import State


def normalize(norm: nn.Module, state: State) -> State:
    """Return the state, normalized by a `BatchNorm1d`."""
    # Batch norm takes rows and channels: nodes and batch are both rows.
    normalized: State = norm(state.flatten(0, -2)).view_as(state)
    return normalized
