"""The graph convolutional network (Kipf & Welling, 2017), `F[l+1] = relu(P F[l] W_l + b_l)`.

`P = D^-1/2 (A' + I) D^-1/2`, and the last layer has no relu. The weights are those of PyG's `GCNConv`. The product with
P is our sparse one: the same sum as PyG's messages, ten times faster.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from tdegnn.adjacency import convolution_matrix
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.sparse import SparseMatrix


class GraphConvolutionalNetwork(RivalNodeNetwork):
    """Graph convolutions in sequence. Hidden dropout applies to the input of every layer but the first."""

    equation = "F[l+1] = relu(P F[l] W_l + b_l), P = D^-1/2 (A' + I) D^-1/2"
    citation = "Kipf & Welling, 2017, Semi-supervised classification with graph convolutional networks"

    def _make_layers(self) -> None:
        self.convolutions = nn.ModuleList(GCNConv(*sizes, normalize=False) for sizes in pairwise(self._state_sizes))

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.convolutions
        state = _convolve(first, drop.input(features), graph)
        for convolution in others:
            state = _convolve(convolution, drop.hidden(torch.relu(state)), graph)
        return state


def _convolve(convolution: GCNConv, state: SparseMatrix | Tensor, graph: Graph) -> Float[Tensor, "nodes channels"]:
    """Return `P (F W) + b`. Channels are mapped first, because the result mostly has fewer."""
    mapped = state @ convolution.lin.weight.T
    received: Tensor = convolution_matrix(graph, mapped) @ mapped + convolution.bias
    return received
