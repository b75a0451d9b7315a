"""The multilayer perceptron, `F[l+1] = relu(F[l] W_l + b_l)`, the last layer without relu: what features tell alone.

It sees no edge. A graph network that is not better has not used the graph.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, NodeNetwork, apply_linear


class MultilayerPerceptron(NodeNetwork):
    """Features of a node to its scores, without its neighbors.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        hidden_channels: Channels between layers.
        num_layers: Number of layers, the readout included.
        outer_dropout: Part of the input that is dropped in training.
        hidden_dropout: Part of the input of every other layer that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        *,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        self.first, *others = [nn.Linear(*sizes) for sizes in pairwise(self._state_sizes)]
        self.others = nn.ModuleList(others)
        self.reset_parameters()

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node; of the graph only the number of nodes matters."""
        drop = self._start(features, graph)
        state = apply_linear(self.first, drop.input(features))
        for linear in self.others:
            state = linear(drop.hidden(torch.relu(state)))
        return state
