"""Readouts: linear maps of the last state, of the elementwise maximum over all states, or of all states side by side.

Over all states, a network is a jumping knowledge network (Xu et al., 2018). "All states" are those after each layer:
the initial states are not among them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.graph import State
from tdegnn.nets.node_parts import Readout
from tdegnn.nets.stationary import LastReadout, LinearReadout
from tdegnn.parts import Family


class MaximumReadout(LinearReadout):
    """A linear map of the maximum of each channel over the states after all layers.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
    """

    def __init__(self, channels: int, num_outputs: int) -> None:
        super().__init__(channels, num_outputs)

    def keep(self, kept: State | None, state: State) -> State:
        """Return the maximum so far."""
        return state if kept is None else torch.maximum(kept, state)


class ConcatenatedReadout(LinearReadout):
    """A linear map of the states after all layers, side by side.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
        num_layers: Number of layers.
    """

    def __init__(self, channels: int, num_outputs: int, num_layers: int) -> None:
        super().__init__(channels * num_layers, num_outputs)

    def keep(self, kept: tuple[State, ...] | None, state: State) -> tuple[State, ...]:
        """Return all states so far."""
        return (*(kept or ()), state)

    def join(self, kept: tuple[State, ...]) -> Float[Tensor, "nodes joined"]:
        """Return all states side by side, that of the first layer first."""
        return torch.cat(kept, dim=-1)


READOUTS = Family(
    "readout", Readout, {"last": LastReadout, "max": MaximumReadout, "concatenation": ConcatenatedReadout}
)
