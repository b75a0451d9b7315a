"""What the exchangeable parts of a node network do, apart from c, s and the initial states: their base classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.training_nodes import TrainingNodes


class NodeSkip(nn.Module, ABC):
    """Scores of each node that do not come from the layers, and are added to their outputs.

    They are found from the training nodes before the training, and are kept in buffers. Whatever scales them is a
    weight of the skip. It learns as the embedding does.
    """

    @abstractmethod
    def see_training_nodes(self, nodes: TrainingNodes) -> None:
        """Find the scores, and keep them. Called once, after the weights are drawn."""

    @abstractmethod
    def forward(self, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node, scaled."""
