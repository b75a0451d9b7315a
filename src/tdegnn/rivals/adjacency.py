"""Matrices and messages that the rivals are built on. They are made once per graph and kept as long as the graph lives.

`P = D^-1/2 (A' + I) D^-1/2` is the convolution of Kipf & Welling (2017), where A' is what a node receives and D its row
sums. In a directed graph both ends are scaled by what they receive, as in PyG. `D^-1 A'` is the mean of what a node
receives. Random walks go along the edges themselves, A, and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.graph import Graph
from tdegnn.sparse import SparseMatrix

Kept = TypeVar("Kept")

_KEPT: WeakKeyDictionary[Graph, dict[tuple[str, torch.device, torch.dtype], Any]] = WeakKeyDictionary()


def convolution_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return P, on the device and in the precision of `like`."""
    return _keep(graph, "convolution", like, lambda: _matrix_like(_normalize(_with_self_loops(graph)), like))


def received_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return A', on the device and in the precision of `like`."""
    return _keep(graph, "received", like, lambda: _matrix_like(graph.received, like))


def averaging_matrix(graph: Graph, like: Tensor) -> SparseMatrix:
    """Return `D^-1 A'`, on the device and in the precision of `like`. Rows of nodes that receive nothing are zero."""
    return _keep(graph, "averaging", like, lambda: _matrix_like(_divide_rows(graph.received.tocsr()), like))


def diffusion_matrices(graph: Graph, like: Tensor) -> tuple[SparseMatrix, SparseMatrix]:
    """Return `D_O^-1 A` and `D_I^-1 A^T`: random walks along and against the edges, for any direction of the graph."""

    def build() -> tuple[SparseMatrix, SparseMatrix]:
        edges = graph.with_direction("out").received.tocsr()
        return _matrix_like(_divide_rows(edges), like), _matrix_like(_divide_rows(edges.T.tocsr()), like)

    return _keep(graph, "diffusion", like, build)


def looped_messages(graph: Graph, like: Tensor) -> Int[Tensor, "2 messages"]:
    """Return the sources and targets of A' + I, on the device of `like`."""
    return _keep(graph, "looped", like, lambda: _ends(_with_self_loops(graph), like))


def scaled_messages(graph: Graph, like: Tensor) -> tuple[Int[Tensor, "2 messages"], Float[Tensor, " messages"]]:
    """Return sources and targets of A', and `1 / sqrt(d_i d_j)` for each. A node that receives nothing has d = 1."""

    def build() -> tuple[Tensor, Tensor]:
        pattern = (graph.received != 0).astype(np.float64)
        # At least 1, or it could not send either: many pages of Chameleon are linked to, but link to none.
        degrees = np.maximum(pattern.sum(axis=1), 1.0)
        scaled = _scale(pattern, degrees**-0.5).tocoo()
        return _ends(scaled, like), torch.as_tensor(scaled.data).to(like)

    return _keep(graph, "scaled", like, build)


def _keep(graph: Graph, name: str, like: Tensor, build: Callable[[], Kept]) -> Kept:
    kept = _KEPT.setdefault(graph, {})
    key = (name, like.device, like.dtype)
    if key not in kept:
        # A tensor made in inference mode cannot take part in a gradient later.
        with torch.inference_mode(False):
            kept[key] = build()
    value: Kept = kept[key]
    return value


def _with_self_loops(graph: Graph) -> scipy.sparse.csr_array:
    """Return A' + I, where self-loops that exist keep their weights."""
    received = graph.received.tocsr()
    return (received + scipy.sparse.diags_array((received.diagonal() == 0).astype(np.float64))).tocsr()


def _normalize(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    return _scale(matrix, matrix.sum(axis=1) ** -0.5)


def _scale(matrix: scipy.sparse.csr_array, scale: Float[np.ndarray, " nodes"]) -> scipy.sparse.csr_array:
    diagonal = scipy.sparse.diags_array(scale)
    return (diagonal @ matrix @ diagonal).tocsr()


def _divide_rows(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Scale rows to sum to one. Rows of zeros stay zero."""
    sums = matrix.sum(axis=1)
    return (scipy.sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0)) @ matrix).tocsr()


def _matrix_like(matrix: scipy.sparse.sparray, like: Tensor) -> SparseMatrix:
    return SparseMatrix.from_scipy(matrix).to(like.device, like.dtype)


def _ends(matrix: scipy.sparse.sparray, like: Tensor) -> Int[Tensor, "2 messages"]:
    """Return the senders (columns) and the receivers (rows), as PyG expects them."""
    entries = matrix.tocoo()
    return torch.as_tensor(np.stack([entries.col, entries.row]), dtype=torch.int64).to(like.device)
