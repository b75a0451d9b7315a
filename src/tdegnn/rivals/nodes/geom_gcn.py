"""Geom-GCN (Pei et al., 2020): a map of its own for each of nine relations between nodes.

`H_r = D^-1/2 R_r D^-1/2 F W_r` for the nine relations R_r of `latent_space.py`: four quadrants of neighbors in the
graph, four of neighbors in a latent plane, and the node itself. `F[l+1] = relu([H_1, ..., H_9])`, and the scores are
the mean of the H_r in the last layer. D counts what a node receives by all relations together.
"""

from __future__ import annotations

import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import keep
from tdegnn.data.nodes import NodeDataset
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.latent_space import NUM_RELATIONS, relations_of, use_published_relations
from tdegnn.sparse import SparseMatrix


class GeometricNetwork(RivalNodeNetwork):
    """Convolutions by relation. Published: two layers.

    `hidden_channels` are those of one relation, so that a state has nine times as many. Outer dropout applies to the
    features, hidden dropout to the input of the other layers. Edge weights are not used. A node without neighbors has
    the ninth relation, to itself.

    Paper: Eq. 1 and 2. D is that of the released code.

    Deviation: relations are computed from the graph (see `relations_of`), unless those of the released files are given
    (`use_published_relations`). The files make the graph undirected, and list a latent neighbor one way only.
    """

    equation = "F[l+1] = relu([H_1, ..., H_9]), H_r = D^-1/2 R_r D^-1/2 F[l] W_r, R_r = relations in a plane"
    citation = "Pei et al., 2020, Geom-GCN: Geometric Graph Convolutional Networks"

    @classmethod
    def prepare(cls, dataset: NodeDataset) -> None:
        """Use the published relations of benchmarks that have them. Others are computed."""
        use_published_relations(dataset)

    def _make_layers(self) -> None:
        wide = NUM_RELATIONS * self.hidden_channels
        inputs = [self.num_features, *[wide] * (self.num_layers - 1)]
        outputs = self._state_sizes[1:]
        self.maps = nn.ModuleList(RelationalMap(*sizes) for sizes in zip(inputs, outputs, strict=True))

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.maps
        received = _receive(first(drop.input(features)), graph)
        for linear in others:
            state = torch.relu(received.movedim(0, -2).flatten(-2))
            received = _receive(linear(drop.hidden(state)), graph)
        return received.mean(dim=0)


class RelationalMap(nn.Module):
    """A linear map for each relation, without offsets.

    Args:
        num_inputs: Channels of the state.
        num_outputs: Channels per relation.
    """

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(NUM_RELATIONS, num_outputs, num_inputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights of each relation anew."""
        with torch.no_grad():
            for weight in self.weight:
                nn.init.xavier_uniform_(weight)

    def forward(self, state: SparseMatrix | Tensor) -> Float[Tensor, "relations nodes channels"]:
        """Return `F W_r` for each relation."""
        mapped: Tensor = state @ self.weight.flatten(0, 1).T
        by_relation: Tensor = mapped.unflatten(-1, self.weight.shape[:2])
        return by_relation.movedim(-2, 0)


def _receive(
    mapped: Float[Tensor, "relations nodes channels"], graph: Graph
) -> Float[Tensor, "relations nodes channels"]:
    """Return what nodes receive by each relation, as one product."""
    product: Tensor = _relation_blocks(graph, mapped) @ mapped.flatten(0, 1)
    by_relation: Tensor = product.unflatten(0, mapped.shape[:2])
    return by_relation


def _relation_blocks(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return a matrix with `D^-1/2 R_r D^-1/2` as its diagonal blocks."""

    def build() -> SparseMatrix:
        relations = relations_of(graph)
        # At least 1: each node is in relation to itself.
        scale = scipy.sparse.diags_array(sum(relation.sum(axis=1) for relation in relations) ** -0.5)
        blocks = scipy.sparse.block_diag([scale @ relation @ scale for relation in relations], format="csr")
        return SparseMatrix.from_scipy(blocks).to(like.device, like.dtype)

    return keep(graph, "relation blocks", like, build)
