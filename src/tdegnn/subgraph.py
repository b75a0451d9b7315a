"""A part of a graph: some of its nodes and the edges among them, for batches of training and blocks of a prediction.

Degrees are those of the whole graph. So a node whose neighbors are all there receives exactly what it receives in the
whole graph. A node of which some neighbors are missing receives from the others, weighted up so that the weights have
the sum that they have in the whole graph: the neighbors that are there stand for those that are not.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor

from tdegnn.assembly import row_sums, turn
from tdegnn.graph import Axis, Direction, Graph, NeighborLists

# Any number of them: several lists of nodes may be arguments of one function.
NodeNumbers = Int64[np.ndarray, " _"]


class Subgraph(Graph):
    """Some nodes of a graph, and the edges among them.

    Args:
        whole: The whole graph.
        nodes: The numbers of the nodes in it, in increasing order.
        direction: Whose states a node receives. If None, that of the whole graph.
    """

    def __init__(self, whole: Graph, nodes: NodeNumbers, direction: Direction | None = None) -> None:
        self.num_nodes = len(nodes)
        self.direction = whole.direction if direction is None else direction
        self.is_weighted = whole.is_weighted
        self._whole, self._nodes = whole, nodes
        self._adjacency = whole.rows_of(nodes)[:, nodes]
        self._start_keeping()

    @property
    def num_whole_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self._whole.num_whole_nodes

    def of_its_nodes(self, values: Shaped[Tensor, "whole ..."]) -> Shaped[Tensor, "nodes ..."]:
        """Return the rows of these nodes, given one row per node of the whole graph."""
        return values.index_select(0, torch.as_tensor(self._nodes, device=values.device))

    def with_direction(self, direction: Direction) -> Subgraph:
        """Return the same nodes of the whole graph, which receive along another direction."""
        return Subgraph(self._whole, self._nodes, direction)

    def sums(
        self,
        matrix: scipy.sparse.csr_array,
        axis: Axis,
        turned: scipy.sparse.csr_array | None = None,  # noqa: ARG002
    ) -> Float[np.ndarray, " nodes"]:
        """Return the sums of the whole graph, plus the self-loops that only the matrix has."""
        return np.asarray(self._sums(axis) + (matrix.diagonal() - self._received_by_row.diagonal()))

    def _sums(self, axis: Axis) -> Float[np.ndarray, " nodes"]:
        return np.asarray(self._whole.received_sums(axis, self.direction)[self._nodes])

    def _assemble_received(self) -> scipy.sparse.csr_array:
        received = super()._assemble_received()
        found, expected = row_sums(received), self._sums(1)
        factors = np.divide(expected, found, out=np.ones_like(expected), where=found > 0)
        values = received.data * np.repeat(factors, np.diff(received.indptr))
        return scipy.sparse.csr_array((values, received.indices, received.indptr), received.shape)

    def _assemble_sent(self) -> scipy.sparse.csr_array:
        # Weights that stand for missing neighbors differ by direction.
        return turn(self._received_by_row)


def nodes_around(graph: Graph, nodes: NodeNumbers, num_hops: int) -> NodeNumbers:
    """Return nodes and all those that are at most some hops away, along edges or against them, in increasing order.

    Args:
        graph: The graph.
        nodes: Where to start.
        num_hops: Number of hops.
    """
    is_found: Bool[np.ndarray, " nodes"] = np.zeros(graph.num_nodes, dtype=bool)
    is_found[nodes] = True
    newest = nodes
    for _ in range(num_hops):
        was_found = is_found.copy()
        for lists in graph.neighbor_lists:
            is_found[entries_of(lists, newest)[1]] = True
        newest = np.flatnonzero(is_found & ~was_found)
    return np.flatnonzero(is_found)


def entries_of(
    lists: NeighborLists, nodes: NodeNumbers
) -> tuple[Int64[np.ndarray, " some"], Int[np.ndarray, " entries"]]:
    """Return how many neighbors some nodes have in lists, and all these neighbors, one list after another.

    Args:
        lists: The neighbors of all nodes. They may be in a file.
        nodes: Whose neighbors to return.
    """
    starts = np.asarray(lists.starts[nodes], dtype=np.int64)
    lengths = np.asarray(lists.starts[nodes + 1], dtype=np.int64) - starts
    return lengths, np.asarray(lists.nodes[positions_of(starts, lengths)])


def positions_of(starts: Int64[np.ndarray, " rows"], lengths: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " all"]:
    """Return the numbers `start, start + 1, ...` of each row, as many as its length says, one row after another."""
    ends = lengths.cumsum()
    return np.asarray(np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths))
