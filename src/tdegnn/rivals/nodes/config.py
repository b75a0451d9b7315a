"""All settings of a rival for nodes (sizes, dropout, how it learns), the counterpart of `NodeConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError, check_types
from tdegnn.parts import Part, drawing_weights
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.node_training import TrainingRegime


@dataclass(frozen=True)
class RivalConfig(TrainingRegime):
    """Everything that determines the training of a rival, except data, split and seed. See also `TrainingRegime`.

    Attributes:
        system: Name of the rival in `rivals/nodes/registry.py`.
        hidden_channels: Channels of a hidden layer.
        num_layers: Number of layers.
        outer_dropout: Fraction of the input that is dropped in training.
        hidden_dropout: Fraction of the hidden layers that is dropped in training.
        embedding: How the weights learn.
        spatial: How the weights of graph layers learn, in rivals that treat them differently (GCNII, FAGCN).
        own_settings: Settings of this rival only (alpha and theta of GCNII, eps of FAGCN), if not as published. Those
            that are no floats decide the shape.
    """

    system: str
    hidden_channels: int = 64
    num_layers: int = 2
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.5
    embedding: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    own_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.system not in NODE_NETWORKS:
            raise InputError(f"Expected a rival among {', '.join(NODE_NETWORKS)}, got {self.system!r}.")

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        own = sorted((name, value) for name, value in self.own_settings.items() if not isinstance(value, float))
        return self.system, self.hidden_channels, self.num_layers, repr(own), *super().shape

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return self.optimizer_kind(embedding=self.embedding, spatial=self.spatial)

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """Return the dataset as this configuration asks for it."""
        prepared = super().prepare(dataset)
        NODE_NETWORKS[self.system].prepare(prepared)
        return prepared

    def build(self, dataset: NodeDataset, seed: int) -> RivalNodeNetwork:
        """Return a network for a prepared dataset, with weights drawn from the seed."""
        return self._build(dataset.num_features, dataset.num_classes, dataset.num_nodes, seed)

    def check(self) -> None:
        """Raise an `InputError` for sizes or settings that make no network. Needs no data."""
        if not isinstance(self.own_settings, Mapping):
            raise InputError(f"Expected own_settings by name, got {self.own_settings!r}. Correct it.")
        own = Part(self.system, **self.own_settings)
        no_network: Any = None  # its settings are asked for, not its layers
        takes = partial(NODE_NETWORKS[self.system]._make_layers, no_network)
        own.check_settings(takes)
        check_types(self.system, takes, self.own_settings)
        self._build(num_features=1, num_outputs=2, num_nodes=2, seed=0)

    def _build(self, num_features: int, num_outputs: int, num_nodes: int, seed: int) -> RivalNodeNetwork:
        with drawing_weights(seed):
            return NODE_NETWORKS[self.system](
                num_features,
                num_outputs,
                num_nodes,
                hidden_channels=self.hidden_channels,
                num_layers=self.num_layers,
                outer_dropout=self.outer_dropout,
                hidden_dropout=self.hidden_dropout,
                seed=seed,
                **self.own_settings,
            )

    def to_record(self) -> dict[str, Any]:
        """Return the settings for a result line."""
        return asdict(self)
