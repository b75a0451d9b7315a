"""H2GCN (Zhu et al., 2020): neighbors and the neighbors of neighbors, apart from each other and from the node itself.

`r_0 = relu(X W)`, `r_k = [P_1 r_(k-1), P_2 r_(k-1)]` for k from 1 to K, `scores = [r_0, ..., r_K] V`. P_1 holds the
nodes that a node receives from, P_2 those exactly two steps away, both without the node itself and each normalized on
its own, `D_r^-1/2 A D_c^-1/2`. There are no other weights and no biases.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import keep, scaled_matrix
from tdegnn.files import check_memory
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.sparse import SparseMatrix

# Bytes per entry of the matrix of nodes up to two steps away while it is made: an index and a truth value, twice.
ENTRY_COST = 16


class TwoHopNetwork(RivalNodeNetwork):
    """Neighborhoods of one and two steps, concatenated round by round.

    The layers are the K rounds (published: 1 or 2); each doubles the channels. Outer dropout applies to the input
    (published: 0), hidden dropout to what the readout sees. P_1 uses edge weights; in P_2 each node counts once. A node
    without neighbors receives zeros.

    Deviation: the release takes graphs as undirected and also tries r_0 without relu. Here the direction is that of the
    graph, where P_1 and P_2 are scaled by what is received and by what is sent, and r_0 always has a relu.
    """

    equation = (
        "r_0 = relu(X W), r_k = [P_1 r_(k-1), P_2 r_(k-1)], scores = [r_0, ..., r_K] V, "
        "P_1 and P_2 = nodes one and two steps away"
    )
    citation = "Zhu et al., 2020, Beyond Homophily in Graph Neural Networks: Current Limitations and Effective Designs"

    def _make_layers(self) -> None:
        # Round k has 2^k times the channels of r_0.
        num_joined = self.hidden_channels * (2 ** (self.num_layers + 1) - 1)
        self.embedding = nn.Linear(self.num_features, self.hidden_channels, bias=False)
        self.readout = nn.Linear(num_joined, self.num_outputs, bias=False)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        rounds = [torch.relu(drop.input(features) @ self.embedding.weight.T)]
        matrices = neighborhood_matrices(graph, rounds[0])
        for _ in range(self.num_layers):
            rounds.append(torch.cat([matrix @ rounds[-1] for matrix in matrices], dim=-1))
        outputs: Tensor = self.readout(drop.hidden(torch.cat(rounds, dim=-1)))
        return outputs


def neighborhood_matrices(graph: Graph, like: Tensor) -> tuple[SparseMatrix, SparseMatrix]:
    """Return P_1 and P_2, on the device and in the precision of `like`."""

    def build() -> tuple[SparseMatrix, SparseMatrix]:
        received = graph.received.tocsr()
        near = received != 0
        num_walks = float(near.sum(axis=0) @ near.sum(axis=1))
        check_memory(min(num_walks, float(graph.num_nodes) ** 2) * ENTRY_COST, "the nodes two steps away")
        two_steps = (near @ near) > near
        one, two = (scaled_matrix(Graph.from_scipy(matrix, "out"), like) for matrix in (received, two_steps))
        return one, two

    return keep(graph, "one and two steps", like, build)
