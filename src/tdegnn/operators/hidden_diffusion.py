"""Diffusion with hidden channels inside s: `s(F; G) = relu(F W_s - (L F) W_d + b) W_o`.

For physical states, which may have a single channel. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_fits
from tdegnn.graph import Graph, State
from tdegnn.operators.diffusion import PAPER


class HiddenDiffusionOperator(SpatialOperator):
    """The spatial term for physical states, `s(F; G) = relu(F W_s - (L F) W_d + b) W_o`, the same in all layers.

    Only s has hidden channels. So c weighs physical states, and `tdegnn.analysis` can read it. A state may have one
    channel.

    Deviation: the paper's term `(F - h L F) W` (App. B.2) is the case `W_d = h W_s`. With one channel it ties the state
    and its Laplacian to one weight. Then `s = -L F`, the right-hand side of the heat and wave equations, cannot be
    written under `sum c = 1`. With two weights it can.

    Args:
        channels: Channels of a physical state.
        hidden_channels: Hidden channels of s.
    """

    equation = "relu(F W_s - (L F) W_d + b) W_o"
    citation = PAPER

    def __init__(self, channels: int, hidden_channels: int) -> None:
        super().__init__()
        check_count(channels=channels, hidden_channels=hidden_channels)
        self.channels = channels
        self.state_map = nn.Linear(channels, hidden_channels)
        self.difference_map = nn.Linear(channels, hidden_channels, bias=False)
        self.readout = nn.Linear(hidden_channels, channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in (self.state_map, self.difference_map, self.readout):
            linear.reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `relu(F W_s - (L F) W_d + b) W_o`."""
        return self.readout(self.hidden_state(state, graph)), context

    def hidden_state(self, state: State, graph: Graph) -> Float[Tensor, "*batch nodes hidden"]:
        """Return `relu(F W_s - (L F) W_d + b)`."""
        check_fits(state, self.readout.weight, self.channels)
        return torch.relu(self.state_map(state) - self.difference_map(graph.laplacian(state)))
