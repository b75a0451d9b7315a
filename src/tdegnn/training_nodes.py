"""What parts of a network may see of the nodes before training: features, graph, and the targets of training nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float

from tdegnn.graph import Graph


@dataclass(frozen=True, eq=False)
class TrainingNodes:
    """The nodes as one member of a training sees them.

    Attributes:
        features: The features that the network takes, one row per node.
        graph: The graph.
        targets: One row per node: one-hot classes, or the numbers of a regression. Rows outside the mask are zero.
        mask: Which nodes are trained on.
    """

    features: scipy.sparse.csr_array | Float[np.ndarray, "nodes features"]
    graph: Graph
    targets: Float[np.ndarray, "nodes outputs"]
    mask: Bool[np.ndarray, " nodes"]


@runtime_checkable
class SeesTrainingNodes(Protocol):
    """A part of a network, such as an operator or a skip, that is told about the nodes before training.

    It keeps what it needs in buffers, which members do not share and run folders store.
    """

    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Prepare for these nodes. Called once, after the weights are drawn."""
