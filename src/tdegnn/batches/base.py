"""What batches are: which nodes a step of a training sees, and on which of them its loss is measured.

`Batches` are a part of an estimator, as operators are. Before the training they look at the graph and make a
`BatchPlan`. What a plan chooses depends on the seed and on the number of the batch, and on nothing else, so that a
training that was interrupted goes on with the batches that it would have had, and processes can share them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from tdegnn.graph import Graph
from tdegnn.subgraph import NodeNumbers


class Batch(NamedTuple):
    """The nodes that a network sees at once.

    Attributes:
        nodes: All nodes of the batch, in increasing order.
        is_inner: Which of them the loss may be measured on. The others are there as neighbors.
    """

    nodes: NodeNumbers
    is_inner: Bool[np.ndarray, " some"]


class BatchPlan(ABC):
    """Chooses the nodes of each batch.

    Attributes:
        num_batches: Number of batches in which each training node is an inner node once: an epoch.
    """

    num_batches: int

    @abstractmethod
    def choose(self, number: int) -> Batch:
        """Return a batch by its number, from 0 on."""


class Batches(ABC):
    """A way to train on a part of the graph at a time. The arguments of a class are its settings.

    Attributes:
        batches_per_step: Number of batches whose mean loss a step of the optimizer descends. Processes share them, and
            their number does not change the result.
    """

    batches_per_step: int = 1

    @abstractmethod
    def plan(self, graph: Graph, training: NodeNumbers, seed: int) -> BatchPlan:
        """Return a plan for a graph.

        Args:
            graph: The whole graph.
            training: The nodes to train on.
            seed: Seed of the order of batches, and of what is drawn.
        """


def shuffled(nodes: NodeNumbers, seed: int, epoch: int) -> NodeNumbers:
    """Return numbers in an order that depends on the seed and on the epoch only."""
    return np.random.default_rng([seed, epoch]).permutation(nodes)
