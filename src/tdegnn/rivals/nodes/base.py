"""The constructor that all rivals for nodes share. Their own files hold equations and layers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import check_count
from tdegnn.nets.node_network import NodeNetwork


class RivalNodeNetwork(NodeNetwork):
    """A published network for nodes.

    Its weights are drawn from torch's generator. Each class documents where it drops, and its own settings.

    Args:
        num_features: Features per node.
        num_outputs: Outputs per node: classes, or targets of a regression.
        num_nodes: Nodes of the graph. Only networks with weights per node use it.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        outer_dropout: Fraction of the input that is dropped in training. Default: 0.
        hidden_dropout: Fraction of the states that is dropped in training. Default: 0.
        seed: Seed of the dropout. Default: 0.
        settings: Settings of this network only, with the published values as defaults.

    Attributes:
        equation: A layer in one line of plain text, for `tdegnn zoo`.
        citation: Where it was published, for `tdegnn zoo`.
    """

    equation: ClassVar[str] = ""
    citation: ClassVar[str] = ""

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        num_nodes: int,
        *,
        hidden_channels: int,
        num_layers: int,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        check_count(num_nodes=num_nodes)
        self.num_nodes = num_nodes
        self._make_layers(**settings)
        self.reset_parameters()

    @classmethod
    def prepare(cls, dataset: NodeDataset) -> None:
        """Give a dataset what only this network needs, if there is something."""

    # `*args` only so that the arguments of an override may differ: settings come by name.
    @abstractmethod
    def _make_layers(self, *args: Any, **settings: Any) -> None:
        """Make the layers of this network, from the sizes and its own settings."""
