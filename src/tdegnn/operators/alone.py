"""A term without edges: each node by itself, `s(F) = relu(F W_l + b_l)`.

It is what is left of an operator when neighbors do not help, and the control of any claim that they do. The context is
handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_fits, check_layer
from tdegnn.graph import Graph, State


class AloneOperator(SpatialOperator):
    """Each node by itself, `s(F) = relu(F W_l + b_l)`. The graph is not used.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own map.
    """

    equation: ClassVar[str] = "relu(F W_l + b_l)"
    citation: ClassVar[str] = "A perceptron per node, without edges"
    reach = 0

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        self.channels, self.num_layers = channels, num_layers
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in self.maps:
            cast(nn.Linear, linear).reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `relu(F W_l + b_l)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, cast(nn.Linear, self.maps[layer]).weight, self.channels)
        return torch.relu(self.maps[layer](state)), context
