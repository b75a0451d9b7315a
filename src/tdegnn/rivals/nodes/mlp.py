"""The multilayer perceptron, `F[l+1] = relu(F[l] W_l + b_l)`, without relu in the last layer: features alone.

It sees no edges. A graph network that is no better has not used the graph.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork


class MultilayerPerceptron(RivalNodeNetwork):
    """Features of a node to its scores, without its neighbors.

    The last of `num_layers` is the readout. Hidden dropout applies to the input of every layer but the first.
    """

    equation = "F[l+1] = relu(F[l] W_l + b_l)"
    citation = "Rosenblatt, 1958, The perceptron: features alone, no edges"

    def _make_layers(self) -> None:
        self.first, *others = [nn.Linear(*sizes) for sizes in pairwise(self._state_sizes)]
        self.others = nn.ModuleList(others)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node. Only the number of nodes of the graph matters."""
        drop = self._start(features, graph)
        state = apply_linear(self.first, drop.input(features))
        for linear in self.others:
            state = linear(drop.hidden(torch.relu(state)))
        return state
