"""Matrices of a graph that operators and rivals are built on, made once per graph and kept as long as it lives.

`D_r^a A' D_c^b` is what a node receives, A', with degrees to any exponents: D_r are its row sums, D_c its column sums.
`P = D^-1/2 (A' + I) D^-1/2` is the convolution of Kipf & Welling (2017), where both ends are scaled by what they
receive, D, as in PyG. `D^-1 A'` is the mean of what a node receives. Random walks go along the edges themselves, A, and
back. The entries of a matrix are also the pattern on which `tdegnn.edge_values` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.graph import Direction, Graph
from tdegnn.sparse import SparseMatrix

Kept = TypeVar("Kept")

_KEPT: WeakKeyDictionary[Graph, dict[tuple[Hashable, torch.device, torch.dtype], Any]] = WeakKeyDictionary()


def keep(graph: Graph, name: Hashable, like: Tensor, build: Callable[[], Kept]) -> Kept:
    """Return what `build` makes, on the first call; later what it made then.

    Args:
        graph: The graph. What is kept lives as long as it does.
        name: What is kept. Device and dtype of `like` are added to it.
        like: A tensor on the device and in the precision for which it is made.
        build: Makes it.
    """
    kept = _KEPT.setdefault(graph, {})
    key = (name, like.device, like.dtype)
    if key not in kept:
        # A tensor made in inference mode cannot take part in a gradient later.
        with torch.inference_mode(False):
            kept[key] = build()
    value: Kept = kept[key]
    return value


def scaled_matrix(
    graph: Graph,
    like: Tensor,
    row_exponent: float = -0.5,
    column_exponent: float = -0.5,
    *,
    direction: Direction | None = None,
    self_loops: bool = False,
) -> SparseMatrix:
    """Return `D_r^a A' D_c^b`, on the device and in the precision of `like`.

    Args:
        graph: The graph.
        like: A tensor on the device and in the precision that are wanted.
        row_exponent: a, the exponent of the row sums of A'. Default: -0.5.
        column_exponent: b, the exponent of the column sums of A'. Default: -0.5.
        direction: Whose states a node receives. If None, that of the graph.
        self_loops: Whether a node receives from itself too. Self-loops that exist keep their weights.
    """
    name = ("scaled", row_exponent, column_exponent, direction, self_loops)

    def build() -> SparseMatrix:
        directed = graph if direction is None else graph.with_direction(direction)
        return _matrix_like(scaled_array(directed, row_exponent, column_exponent, self_loops=self_loops), like)

    return keep(graph, name, like, build)


def scaled_array(
    graph: Graph, row_exponent: float = -0.5, column_exponent: float = -0.5, *, self_loops: bool = False
) -> scipy.sparse.csr_array:
    """Return the matrix of `scaled_matrix` for SciPy, in float64. It is not kept."""
    matrix = _with_self_loops(graph) if self_loops else graph.received.tocsr()
    rows = scipy.sparse.diags_array(_power(graph.sums(matrix, 1), row_exponent))
    columns = scipy.sparse.diags_array(_power(graph.sums(matrix, 0), column_exponent))
    return (rows @ matrix @ columns).tocsr()


def convolution_array(graph: Graph) -> scipy.sparse.csr_array:
    """Return P for SciPy, in float64. It is not kept."""
    looped = _with_self_loops(graph)
    return _scale(looped, graph.sums(looped, 1) ** -0.5)


def pattern_of(graph: Graph, like: Tensor, *, self_loops: bool = False) -> SparseMatrix:
    """Return A' with its weights (and with self-loops, if asked), the pattern for values on edges."""
    return scaled_matrix(graph, like, 0.0, 0.0, self_loops=self_loops)


def edge_differences(graph: Graph, like: Tensor) -> tuple[SparseMatrix, SparseMatrix]:
    """Return a matrix (entries, nodes) of the differences `F_j - F_i` for each entry (i, j) of A', and one of sums.

    The second one (nodes, entries) adds up what is on the entries of each row. For equations that need all channels on
    the edges.
    """

    def build() -> tuple[SparseMatrix, SparseMatrix]:
        entries = graph.received.tocoo()
        ones, numbers = np.ones(entries.nnz), np.arange(entries.nnz)
        shape = (entries.nnz, graph.num_nodes)
        receivers, senders = (
            scipy.sparse.csr_array((ones, (numbers, nodes)), shape=shape) for nodes in (entries.row, entries.col)
        )
        return _matrix_like(senders - receivers, like), _matrix_like(receivers.T, like)

    return keep(graph, "edge differences", like, build)


def convolution_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return P, on the device and in the precision of `like`."""
    return keep(graph, "convolution", like, lambda: _matrix_like(convolution_array(graph), like))


def received_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return A', on the device and in the precision of `like`."""
    return scaled_matrix(graph, like, 0.0, 0.0)


def averaging_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return `D^-1 A'`, on the device and in the precision of `like`. Rows of nodes that receive nothing are zero."""
    return scaled_matrix(graph, like, -1.0, 0.0)


def diffusion_matrices(graph: Graph, like: Tensor) -> tuple[SparseMatrix, SparseMatrix]:
    """Return `D_O^-1 A` and `D_I^-1 A^T`: random walks along and against the edges, for any direction of the graph."""
    along, against = (scaled_matrix(graph, like, -1.0, 0.0, direction=direction) for direction in ("out", "in"))
    return along, against


def looped_messages(graph: Graph, like: Tensor) -> Int[Tensor, "2 messages"]:
    """Return the sources and targets of A' + I, on the device of `like`."""
    return keep(graph, "looped", like, lambda: _ends(_with_self_loops(graph), like))


def scaled_messages(graph: Graph, like: Tensor) -> tuple[Int[Tensor, "2 messages"], Float[Tensor, " messages"]]:
    """Return sources and targets of A', and `1 / sqrt(d_i d_j)` for each. A node that receives nothing has d = 1."""

    def build() -> tuple[Tensor, Tensor]:
        pattern = (graph.received != 0).astype(np.float64)
        # At least 1, or it could not send either: many pages of Chameleon are linked to, but link to none.
        degrees = np.maximum(pattern.sum(axis=1), 1.0)
        scaled = _scale(pattern, degrees**-0.5).tocoo()
        return _ends(scaled, like), torch.as_tensor(scaled.data).to(like)

    return keep(graph, "scaled", like, build)


def _with_self_loops(graph: Graph) -> scipy.sparse.csr_array:
    """Return A' + I, where self-loops that exist keep their weights."""
    received = graph.received.tocsr()
    return (received + scipy.sparse.diags_array((received.diagonal() == 0).astype(np.float64))).tocsr()


def _scale(matrix: scipy.sparse.csr_array, scale: Float[np.ndarray, " nodes"]) -> scipy.sparse.csr_array:
    diagonal = scipy.sparse.diags_array(scale)
    return (diagonal @ matrix @ diagonal).tocsr()


def _power(degrees: Float[np.ndarray, " nodes"], exponent: float) -> Float[np.ndarray, " nodes"]:
    """Return degrees to an exponent. A degree of zero stays zero: nothing is divided by it."""
    is_positive = degrees > 0
    return np.where(is_positive, np.where(is_positive, degrees, 1.0) ** exponent, 0.0)


def _matrix_like(matrix: scipy.sparse.sparray, like: Tensor) -> SparseMatrix:
    return SparseMatrix.from_scipy(matrix).to(like.device, like.dtype)


def _ends(matrix: scipy.sparse.sparray, like: Tensor) -> Int[Tensor, "2 messages"]:
    """Return the senders (columns) and the receivers (rows), as PyG expects them."""
    entries = matrix.tocoo()
    return torch.as_tensor(np.stack([entries.col, entries.row]), dtype=torch.int64).to(like.device)
