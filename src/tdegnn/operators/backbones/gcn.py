"""The layer of the graph convolutional network (Kipf & Welling, 2017), `B(F) = relu(P F W_l + b_l)`.

`P = D^-1/2 (A' + I) D^-1/2`, where D is what a node receives, itself included. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.errors import check_count, check_fits, check_layer
from tdegnn.graph import Graph, State
from tdegnn.operators.rate_of import Backbone


class GcnBackbone(Backbone):
    """A graph convolution, `B(F) = relu(P F W_l + b_l)`.

    The weights of edges are used. A node without edges receives its own state. Maps start as in PyG's `GCNConv`.

    Paper: Kipf & Welling (2017), eq. 2. Deviation: the published network has another width in its last layer, which
    has no relu. Here all layers have the same width, and the readout of the network comes after them.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own map.
    """

    equation: ClassVar[str] = "relu(P F W_l + b_l), P = D^-1/2 (A' + I) D^-1/2"
    citation: ClassVar[str] = "Kipf & Welling, 2017, Semi-Supervised Classification with Graph Convolutional Networks"

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        self.channels, self.num_layers = channels, num_layers
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))
        self._start_maps()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        super().reset_parameters()
        self._start_maps()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `relu(P F W_l + b_l)`."""
        return torch.relu(self._convolve(state, graph, layer)), context

    def _convolve(self, state: State, graph: Graph, layer: int) -> State:
        """Return `P F W_l + b_l`."""
        check_layer(layer, self.num_layers)
        linear = cast(nn.Linear, self.maps[layer])
        check_fits(state, linear.weight, self.channels)
        convolved: State = linear(convolution_matrix(graph, state) @ state)
        return convolved

    def _start_maps(self) -> None:
        for linear in self.maps:
            nn.init.xavier_uniform_(cast(nn.Linear, linear).weight)
            nn.init.zeros_(cast(nn.Linear, linear).bias)
