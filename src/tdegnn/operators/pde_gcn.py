"""Diffusion of differences along edges: `s(F; G) = -G^T K_l^T relu(K_l G F)`, the spatial term of PDE-GCN.

Eliasof, Haber, Treister, 2021, PDE-GCN: Novel Architectures for Graph Neural Networks Motivated by Partial Differential
Equations. G is the gradient of the graph, `(G F)_e = w_e (F_i - F_j)`. The rule for c makes the system: PDE-GCN_D is
`euler`, PDE-GCN_H `leapfrog` and PDE-GCN_M `mixed`. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from tdegnn.adjacency import convolution_array, keep
from tdegnn.core.operator import SpatialOperator
from tdegnn.edge_values import rectified_sums
from tdegnn.errors import check_count, check_fits, check_layer
from tdegnn.graph import Graph, State
from tdegnn.sparse import SparseMatrix

# Largest deviation of a map from the identity at the start.
NOISE = 1e-3


class PDEGCNOperator(SpatialOperator):
    """The spatial term of PDE-GCN, `s(F; G) = -G^T K_l^T relu(K_l G F)`.

    `(G F)_e = w_e (F_i - F_j)` for each entry e = (i, j) of A', with `w_e = A'_ij / sqrt(d_i d_j)`, where the degrees d
    are row sums of A' and count a self-loop. Edge weights are used. A node without edges has rate zero. For any K the
    rate never points away from zero, `<F, s> = -|relu(K G F)|^2`.

    Paper: as the code does, the sum is over all entries of A'. If A' is symmetric, each edge is in it once per
    direction, and `relu(z) - relu(-z) = z`: the relu drops out, and the rate is `-(L F) K^T K` with
    `(L F)_i = sum_j w_ij^2 (F_i - F_j)`. It is computed in this form, without channels on edges. Only on a graph that
    is not symmetric does the relu act.

    Deviation: the published hyperbolic update multiplies the rate by h^2, ours by h. No dropout on edges.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own `K_l`.
    """

    equation = "-G^T K_l^T relu(K_l G F), (G F)_e = w_e (F_i - F_j)"
    citation = (
        "Eliasof, Haber, Treister, 2021, PDE-GCN: Novel Architectures for Graph Neural Networks Motivated by Partial "
        "Differential Equations"
    )
    reach = 2  # the weight of an entry in the row of a neighbor depends on the degree of that neighbor

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        self.channels, self.num_layers = channels, num_layers
        self.weight = nn.Parameter(torch.empty(num_layers, channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the maps anew: the identity, and noise between 0 and 0.001."""
        nn.init.uniform_(self.weight, 0.0, NOISE)
        with torch.no_grad():
            self.weight.add_(torch.eye(self.channels, dtype=self.weight.dtype, device=self.weight.device))

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `-G^T K_l^T relu(K_l G F)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.weight, self.channels)
        weight, (matrix, is_laplacian) = self.weight[layer], _differences(graph, state)
        if is_laplacian:
            return -(matrix @ state) @ (weight.mT @ weight), context
        # K acts on nodes, which are fewer than edges: K G F = G (K F).
        return -rectified_sums(matrix, matrix.transposed, state @ weight.mT) @ weight, context

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}"


class _Differences(NamedTuple):
    matrix: SparseMatrix
    is_laplacian: bool


def _differences(graph: Graph, like: Tensor) -> _Differences:
    """Return L if A' is symmetric, else G."""

    def build() -> _Differences:
        weights = convolution_array(graph).tocoo()
        is_edge = weights.row != weights.col
        receivers, senders, values = (each[is_edge] for each in (weights.row, weights.col, weights.data))
        numbers = np.arange(len(values))
        gradient = scipy.sparse.csr_array(
            (
                np.concatenate([values, -values]),
                (np.concatenate([numbers, numbers]), np.concatenate([receivers, senders])),
            ),
            shape=(len(values), graph.num_nodes),
        )
        is_symmetric = (graph.received != graph.received.T).nnz == 0
        # Each edge is in the gradient twice.
        matrix = gradient.T @ gradient / 2 if is_symmetric else gradient
        return _Differences(SparseMatrix.from_scipy(matrix).to(like.device, like.dtype), is_symmetric)

    return keep(graph, "differences", like, build)
