"""What the exchangeable parts of a node network do, apart from c, s and the initial states: their base classes.

`input map -> initial states -> L layers, each with a state norm -> readout (+ skip)`. The members of each family are in
`stationary.py` (the defaults), `input_maps.py`, `state_norms.py`, `readouts.py` and `node_skips.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph, State
from tdegnn.sparse import SparseMatrix
from tdegnn.training_nodes import TrainingNodes

# What sets a fraction of its input to zero in training, at the rate of the readout.
Drop: TypeAlias = Callable[[Tensor], Tensor]


def keep_all(values: Tensor) -> Tensor:
    """Return the values as they are: a `Drop` that drops nothing."""
    return values


class InputMap(nn.Module, ABC):
    """From the features of the nodes to the embedding, from which the initial states are made."""

    @abstractmethod
    def forward(self, features: SparseMatrix | Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes channels"]:
        """Return the embedding. The network has dropped from the features already."""

    def embed(
        self,
        features: SparseMatrix | Float[Tensor, "nodes features"],
        drop: Drop,  # noqa: ARG002
    ) -> Float[Tensor, "nodes channels"]:
        """Return the embedding. A map that drops between its layers overrides this."""
        embedded: Tensor = self(features)
        return embedded


class StateNorm(nn.Module, ABC):
    """A map of each new state, after its layer. The history keeps the result."""

    @abstractmethod
    def forward(self, state: State) -> State:
        """Return the state that takes the place of `state`."""


class Readout(nn.Module, ABC):
    """From the states after each layer to the outputs. The initial states are not among them.

    The network calls `keep` after each layer, and at the end `readout.read(drop(readout.join(kept)), drop)`.
    """

    @abstractmethod
    def keep(self, kept: Any, state: State) -> Any:
        """Return what is kept of all states so far.

        Args:
            kept: What was kept of the states before. None in the first layer.
            state: The state after the layer.
        """

    @abstractmethod
    def join(self, kept: Any) -> Float[Tensor, "*batch nodes joined"]:
        """Return what is kept as one tensor, from which the network then drops."""

    @abstractmethod
    def forward(self, joined: Float[Tensor, "*batch nodes joined"]) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node."""

    def read(
        self,
        joined: Float[Tensor, "*batch nodes joined"],
        drop: Drop,  # noqa: ARG002
    ) -> Float[Tensor, "*batch nodes outputs"]:
        """Return the outputs of each node. A readout that drops between its layers overrides this."""
        outputs: Tensor = self(joined)
        return outputs


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
