"""The graph convolutional network of Kipf & Welling (2017), `F[l+1] = relu(P F[l] W_l + b_l)`.

`P = D^-1/2 (A' + I) D^-1/2`; the last layer has no relu. The weights are those of PyG's `GCNConv`; the product with P
is our sparse one, which is the same sum an order of magnitude faster than messages.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, NodeNetwork
from tdegnn.rivals.series.adjacency import convolution_matrix
from tdegnn.sparse import SparseMatrix


class GraphConvolutionalNetwork(NodeNetwork):
    """Graph convolutions one after another.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        hidden_channels: Channels between layers.
        num_layers: Number of convolutions.
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
        self.convolutions = nn.ModuleList(GCNConv(*sizes, normalize=False) for sizes in pairwise(self._state_sizes))
        self.reset_parameters()

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.convolutions
        state = _convolve(first, drop.input(features), graph)
        for convolution in others:
            state = _convolve(convolution, drop.hidden(torch.relu(state)), graph)
        return state


def _convolve(convolution: GCNConv, state: SparseMatrix | Tensor, graph: Graph) -> Float[Tensor, "nodes channels"]:
    """`P (F W) + b`: channels are mapped first, for there are mostly fewer of them afterward."""
    mapped = state @ convolution.lin.weight.T
    received: Tensor = convolution_matrix(graph, mapped) @ mapped + convolution.bias
    return received
