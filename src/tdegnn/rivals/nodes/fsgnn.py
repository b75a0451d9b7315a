"""FSGNN (Maurya et al., 2022): features of several hops, with and without self-loops, and a learned choice of hops.

`H = [X W_0 + b_0, P^k X W_k + b_k, S^k X V_k + d_k]` for k from 1 to K, `scores = relu([a_j unit(H_j)]_j) U`, with
`a = softmax` of one learned number per hop, and each row of each H_j scaled to unit length. `P = D^-1/2 A' D^-1/2`, and
S is the same with self-loops, where D is what nodes receive, on both sides. Edge weights are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix, keep
from tdegnn.errors import check_choice
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features
from tdegnn.operators.unit_length import unit_length
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.hop_weights import HopWeights
from tdegnn.sparse import SparseMatrix


class FeatureSelectionNetwork(RivalNodeNetwork):
    """Features of all hops, each mapped and weighed on its own.

    The layers are the K hops (published: 3, 8, 16 or 32). Outer dropout applies to the input (published: 0), hidden
    dropout to what the readout sees. The numbers behind a are the parameter group `spatial`. As released, a node that
    receives nothing has D = 1, so that others still receive from it; its own rows of P are zero.

    Deviation: the maps of the hops and the readout share a weight decay. In the release each has its own.

    Args:
        is_unit_length: Whether rows are scaled to unit length. Published: not on Film. Default: True.
        hops: Hops beyond X, `"all"` (default), `"without-loops"` or `"with-loops"`. Published: without self-loops on
            Chameleon, with them on Cora.
    """

    equation = "scores = relu([softmax(a)_j unit(H_j)]_j) U, H = [X W_0, P^k X W_k, S^k X V_k] + b, k from 1 to K"
    citation = "Maurya et al., 2022, Simplifying Approach to Node Classification in Graph Neural Networks"

    def _make_layers(self, is_unit_length: bool = True, hops: str = "all") -> None:
        check_choice(HOPS, hops=hops)
        self.is_unit_length, self.matrices = is_unit_length, HOPS[hops]
        num_hops = len(self.matrices) * self.num_layers + 1
        # All maps side by side: first that of X, then those of P^k X, then those of S^k X.
        self.maps = nn.Linear(self.num_features, num_hops * self.hidden_channels)
        self.operator = HopWeights(torch.ones(num_hops))
        self.readout = nn.Linear(num_hops * self.hidden_channels, self.num_outputs)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        # P^k (X W) is (P^k X) W, and has fewer channels.
        mapped = drop.input(features) @ self.maps.weight.T
        own, *others = mapped.split(self.hidden_channels, dim=-1)
        hops = [own]
        for matrix in self.matrices:
            ahead, others = others[: self.num_layers], others[self.num_layers :]
            hops += _propagate_in_turn(matrix(graph, own), ahead)
        biased = torch.stack(hops, dim=-2) + self.maps.bias.unflatten(0, (len(hops), -1))
        scaled = unit_length(biased) if self.is_unit_length else biased
        weighed = torch.softmax(self.operator.weights, dim=0)[:, None] * scaled
        outputs: Tensor = self.readout(drop.hidden(torch.relu(weighed.flatten(-2))))
        return outputs


def _propagate_in_turn(matrix: SparseMatrix, states: Sequence[Tensor]) -> Iterator[Float[Tensor, "nodes channels"]]:
    """Yield the first state propagated once, the second twice, and so on: one product per hop for all that remain."""
    while states:
        joined = matrix @ torch.cat(list(states), dim=-1)
        done, *states = joined.chunk(len(states), dim=-1)
        yield done


def _matrix_without_loops(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return P, on the device and in the precision of `like`."""

    def build() -> SparseMatrix:
        sums = graph.received.sum(axis=1)
        scale = scipy.sparse.diags_array(np.where(sums > 0, sums, 1.0) ** -0.5)
        return SparseMatrix.from_scipy(scale @ graph.received @ scale).to(like.device, like.dtype)

    return keep(graph, "scaled by what both ends receive", like, build)


# P, S, or both, by the name of the hops.
HOPS = {
    "all": (_matrix_without_loops, convolution_matrix),
    "without-loops": (_matrix_without_loops,),
    "with-loops": (convolution_matrix,),
}
