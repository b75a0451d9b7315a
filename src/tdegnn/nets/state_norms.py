"""State norms, applied to each new state: unit length (Dir-GNN), or a learned layer norm. By default there is none."""

from __future__ import annotations

from torch import nn

from tdegnn.graph import State
from tdegnn.nets.node_parts import StateNorm
from tdegnn.operators.unit_length import unit_length
from tdegnn.parts import Family


class UnitLength(StateNorm):
    """`F_i / |F_i|`, node by node. A node with zeros only keeps them."""

    def forward(self, state: State) -> State:
        """Return the state with channels of length one at each node."""
        return unit_length(state)


class LayerNorm(nn.LayerNorm, StateNorm):
    """Mean 0 and variance 1 over the channels of each node, then a learned scale and offset per channel.

    All layers share scale and offset, which learn as the embedding does.

    Args:
        channels: Channels of a state.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels)


STATE_NORMS = Family("state_norm", StateNorm, {"unit-length": UnitLength, "layer-norm": LayerNorm})
