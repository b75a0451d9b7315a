"""Batches of partitions: some parts of the graph at a time, with the edges among them and with their neighbors.

Chiang et al. (2019), Cluster-GCN. A partition by METIS has few edges between its parts. Ranges of consecutive nodes
need no partitioner and no memory, for graphs in files whose order keeps neighbors together.

Deviation: Cluster-GCN leaves out the edges to other parts. Here a batch has a halo, the nodes that are some hops away,
and degrees are those of the whole graph (`tdegnn.subgraph`). With as many hops as the layers look, outputs and
gradients of the inner nodes are those of the whole graph.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import scipy.sparse
from jaxtyping import Int64

from tdegnn.batches.base import Batch, Batches, BatchPlan, shuffled
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.subgraph import NodeNumbers, nodes_around

PartNumbers = Int64[np.ndarray, " nodes"]


class PartitionPlan(BatchPlan):
    """A fixed partition, of which each batch has some parts.

    Parts without training nodes are never inner parts: no loss would be measured on them.

    Args:
        graph: The whole graph.
        part_of: The number of the part of each node.
        training: The nodes to train on.
        parts_per_batch: Number of parts per batch.
        halo: Number of hops around the parts.
        seed: Seed of the order of parts.
    """

    def __init__(
        self, graph: Graph, part_of: PartNumbers, training: NodeNumbers, parts_per_batch: int, halo: int, seed: int
    ) -> None:
        self._graph, self._part_of, self._halo, self._seed = graph, part_of, halo, seed
        self._parts = np.unique(part_of[training])
        self._parts_per_batch = parts_per_batch
        self.num_batches = -(-len(self._parts) // parts_per_batch)

    def choose(self, number: int) -> Batch:
        """Return some parts and their halo."""
        epoch, place = divmod(number, self.num_batches)
        order = shuffled(self._parts, self._seed, epoch)
        chosen = order[place * self._parts_per_batch : (place + 1) * self._parts_per_batch]
        is_chosen = np.zeros(int(self._part_of.max()) + 1, dtype=bool)
        is_chosen[chosen] = True
        nodes = nodes_around(self._graph, np.flatnonzero(is_chosen[self._part_of]), self._halo)
        return Batch(nodes, is_chosen[self._part_of[nodes]])


class PartedBatches(Batches):
    """Base of the ways to cut a graph into parts that stay the same during the training.

    Args:
        num_parts: Number of parts. Default: 32.
        parts_per_batch: Number of parts per batch. Default: 4.
        halo: Number of hops around the parts of a batch. Default: 1. With as many as the layers look, the inner nodes
            see what they would see in the whole graph.
        batches_per_step: Number of batches per step, which processes share. Default: 1.
    """

    def __init__(
        self, *, num_parts: int = 32, parts_per_batch: int = 4, halo: int = 1, batches_per_step: int = 1
    ) -> None:
        check_count(num_parts=num_parts, parts_per_batch=parts_per_batch, batches_per_step=batches_per_step)
        check_count(0, halo=halo)
        if parts_per_batch > num_parts:
            raise InputError(f"Expected parts_per_batch of at most num_parts = {num_parts}, got {parts_per_batch}.")
        self.num_parts, self.parts_per_batch, self.halo = num_parts, parts_per_batch, halo
        self.batches_per_step = batches_per_step

    def plan(self, graph: Graph, training: NodeNumbers, seed: int) -> PartitionPlan:
        """Cut the graph into parts."""
        if self.num_parts > graph.num_nodes:
            raise InputError(
                f"Expected num_parts of at most {graph.num_nodes}, the number of nodes, got {self.num_parts}. Pass a "
                "smaller one."
            )
        return PartitionPlan(graph, self._cut(graph), training, self.parts_per_batch, self.halo, seed)

    @abstractmethod
    def _cut(self, graph: Graph) -> PartNumbers:
        """Return the number of the part of each node."""


class Partitions(PartedBatches):
    """Parts with few edges between them, found by METIS. Needs the package pymetis and the whole graph in memory."""

    def _cut(self, graph: Graph) -> PartNumbers:
        try:
            import pymetis
        except ModuleNotFoundError as error:
            raise InputError(
                "Expected the package pymetis, which finds partitions, got none. Install it: pip install "
                "'tdegnn[large]', or use batches of 'ranges' or 'neighborhoods'."
            ) from error
        if self.num_parts == 1:
            return np.zeros(graph.num_nodes, dtype=np.int64)
        starts, neighbors = _links(graph)
        kind = pymetis.zero_copy_dtype()
        adjacency = pymetis.CSRAdjacency(starts.astype(kind), neighbors.astype(kind))
        return np.asarray(pymetis.part_graph(self.num_parts, adjacency).vertex_part, dtype=np.int64)


class Ranges(PartedBatches):
    """Parts of consecutive nodes, all of the same size. For graphs in files whose order keeps neighbors together."""

    def _cut(self, graph: Graph) -> PartNumbers:
        return np.arange(graph.num_nodes) * self.num_parts // graph.num_nodes


def _links(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbors of each node as METIS takes them: both ways, without self-loops."""
    shape = (graph.num_nodes, graph.num_nodes)
    matrices = [
        scipy.sparse.csr_array((np.ones(len(lists.nodes), dtype=bool), lists.nodes, lists.starts), shape)
        for lists in graph.neighbor_lists
    ]
    links = (matrices[0] if len(matrices) == 1 else matrices[0] + matrices[1]).tocoo()
    is_edge = links.row != links.col
    kept = scipy.sparse.csr_array((links.data[is_edge], (links.row[is_edge], links.col[is_edge])), shape)
    return kept.indptr, kept.indices
