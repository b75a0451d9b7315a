"""Batches of neighborhoods: some training nodes, and for each of them drawn neighbors, neighbors of these, and so on.

Hamilton et al. (2017), GraphSAGE. Deviation: a batch has all edges among its nodes, not only those along which they
were drawn, and neighbors that are there stand for those that are not (`tdegnn.subgraph`): every operator can be used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from tdegnn.batches.base import Batch, Batches, BatchPlan, shuffled
from tdegnn.errors import check_count
from tdegnn.graph import Graph, NeighborLists
from tdegnn.subgraph import NodeNumbers, positions_of


class NeighborhoodPlan(BatchPlan):
    """The training nodes in another order in each epoch, and neighbors that are drawn anew in each step.

    Args:
        graph: The whole graph.
        training: The nodes to train on.
        batch_size: Training nodes per batch.
        num_neighbors: Neighbors of each node that are drawn, one number per hop.
        seed: Seed of the order and of the draws.
    """

    def __init__(
        self, graph: Graph, training: NodeNumbers, batch_size: int, num_neighbors: Sequence[int], seed: int
    ) -> None:
        self._graph, self._training, self._seed = graph, training, seed
        self._batch_size, self._num_neighbors = batch_size, num_neighbors
        self.num_batches = -(-len(training) // batch_size)

    def choose(self, number: int) -> Batch:
        """Return some training nodes and their neighborhoods."""
        epoch, place = divmod(number, self.num_batches)
        order = shuffled(self._training, self._seed, epoch)
        inner = order[place * self._batch_size : (place + 1) * self._batch_size]
        draw = np.random.default_rng([self._seed, epoch, place])
        is_found = np.zeros(self._graph.num_nodes, dtype=bool)
        is_found[inner] = True
        newest = np.sort(inner)
        for most in self._num_neighbors:
            drawn = [_draw(lists, newest, most, draw) for lists in self._graph.neighbor_lists]
            reached = np.unique(np.concatenate(drawn)).astype(np.int64, copy=False)
            newest = reached[~is_found[reached]]
            is_found[newest] = True
        nodes = np.flatnonzero(is_found)
        return Batch(nodes, np.isin(nodes, inner))


class Neighborhoods(Batches):
    """Some training nodes per batch, with drawn neighbors.

    Args:
        num_layers: Number of layers of the network.
        batch_size: Training nodes per batch. Default: 512.
        num_neighbors: How many neighbors of a node are drawn, along the edges and as many against them: a number for as
            many hops as the network has layers, or a list with one number per hop. All are taken of a node that has
            fewer. Default: 10.
        batches_per_step: Number of batches per step, which processes share. Default: 1.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        batch_size: int = 512,
        num_neighbors: int | list[int] = 10,
        batches_per_step: int = 1,
    ) -> None:
        hops = [num_neighbors] * num_layers if isinstance(num_neighbors, int) else list(num_neighbors)
        check_count(batch_size=batch_size, batches_per_step=batches_per_step)
        for count in hops:
            check_count(num_neighbors=count)
        self.batch_size, self.num_neighbors, self.batches_per_step = batch_size, hops, batches_per_step

    def plan(self, graph: Graph, training: NodeNumbers, seed: int) -> NeighborhoodPlan:
        """Return the plan. Nothing is drawn yet."""
        return NeighborhoodPlan(graph, training, self.batch_size, self.num_neighbors, seed)


def _draw(
    lists: NeighborLists, nodes: NodeNumbers, most: int, draw: np.random.Generator
) -> Int64[np.ndarray, " entries"]:
    """Return all neighbors of nodes that have few, and some of the others, drawn with replacement."""
    starts = np.asarray(lists.starts[nodes], dtype=np.int64)
    lengths = np.asarray(lists.starts[nodes + 1], dtype=np.int64) - starts
    is_many = lengths > most
    some = starts[is_many, None] + draw.integers(0, lengths[is_many, None], (int(is_many.sum()), most))
    places = np.concatenate([positions_of(starts[~is_many], lengths[~is_many]), some.ravel()])
    return np.asarray(lists.nodes[np.sort(places)], dtype=np.int64)
