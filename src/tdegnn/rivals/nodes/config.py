"""All settings of a rival for nodes (sizes, dropout, how it learns), the counterpart of `NodeConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError
from tdegnn.parts import drawing_weights
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.members import GroupDescent, GroupedAdam


@dataclass(frozen=True)
class RivalConfig:
    """Everything that determines the training of a rival, except data, split and seed.

    Attributes:
        system: Name of the rival in `rivals/nodes/registry.py`.
        hidden_channels: Channels of a hidden layer.
        num_layers: Number of layers.
        normalized_features: Whether the features of a node are scaled to sum to one.
        outer_dropout: Fraction of the input that is dropped in training.
        hidden_dropout: Fraction of the hidden layers that is dropped in training.
        embedding: How the weights learn.
        spatial: How the weights of graph layers learn, in rivals that treat them differently (GCNII, FAGCN).
        num_steps: Maximum number of optimizer steps.
        own_settings: Settings of this rival only (alpha and theta of GCNII, eps of FAGCN), if not as published.
    """

    system: str
    hidden_channels: int = 64
    num_layers: int = 2
    normalized_features: bool = False
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.5
    embedding: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    num_steps: int = 300
    own_settings: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.system not in NODE_NETWORKS:
            raise InputError(f"Expected a rival among {', '.join(NODE_NETWORKS)}, got {self.system!r}.")

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        return self.system, self.hidden_channels, self.num_layers, self.normalized_features, self.num_steps

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return GroupedAdam(embedding=self.embedding, spatial=self.spatial)

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """Return the dataset with the features that this configuration asks for."""
        return dataset.with_normalized_features() if self.normalized_features else dataset

    def build(self, dataset: NodeDataset, seed: int) -> RivalNodeNetwork:
        """Return a network for a prepared dataset, with weights drawn from the seed."""
        with drawing_weights(seed):
            return NODE_NETWORKS[self.system](
                dataset.num_features,
                dataset.num_classes,
                dataset.num_nodes,
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
