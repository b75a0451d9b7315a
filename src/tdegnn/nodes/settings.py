"""The settings of a node network in full: which system it is, its sizes, how it learns; and the network they make.

Configurations that make networks of one `shape` can be trained together (`members.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from tdegnn.core.rules import Attention, System, check_choices, make_rule
from tdegnn.data.nodes import NodeDataset
from tdegnn.nets.stationary import NewestUnmapped, StationaryNetwork
from tdegnn.operators.diffusion import DiffusionOperator, NearIdentityDiffusion
from tdegnn.training.members import GroupDescent, GroupedAdam

InitialStates = Literal["mapped", "newest unmapped"]
LayerMaps = Literal["free", "near identity"]


@dataclass(frozen=True)
class NodeConfig:
    """Everything that decides a training besides data, split and seed. Defaults are those of the paper.

    Attributes:
        system: Which rule gives c: c = [1], a learned vector, attention, a stable vector.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Length of the history; 1 for DE-GNN.
        batch_norm: Whether the spatial term normalizes its channels.
        adjacency_features: Whether rows of the adjacency matrix join the features.
        normalized_features: Whether the features of a node are scaled to sum to one.
        initial_states: How the older initial states come from the embedding.
        step_size: h.
        outer_dropout: Part of input and last state that is dropped in training.
        hidden_dropout: Part of the current state that is dropped before each layer in training.
        embedding: How embedding, initial states and readout learn.
        temporal: How c learns.
        spatial: How the spatial term learns.
        num_steps: Number of steps of the optimizer at most.
        layer_maps: Whether the maps W of the spatial term start at random and decay to zero, or both at the identity.
        averaging: Part of the past in the running mean of the weights that are kept; 0 keeps the last ones.
        attention: For TDE-GNN_A: that of the paper, or behind a gate that starts closed, as forward Euler.
    """

    system: System = "TDE-GNN_D"
    hidden_channels: int = 64
    num_layers: int = 8
    order: int = 8
    batch_norm: bool = False
    adjacency_features: bool = False
    normalized_features: bool = False
    initial_states: InitialStates = "mapped"
    step_size: float = 0.5
    outer_dropout: float = 0.5
    hidden_dropout: float = 0.5
    embedding: GroupDescent = field(default_factory=GroupDescent)
    temporal: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    num_steps: int = 300
    layer_maps: LayerMaps = "free"
    averaging: float = 0.0
    attention: Attention = "plain"

    @property
    def shape(self) -> tuple[Any, ...]:
        """What configurations must share to be trained in one batch."""
        return (
            self.system,
            self.hidden_channels,
            self.num_layers,
            self.order,
            self.batch_norm,
            self.adjacency_features,
            self.normalized_features,
            self.initial_states,
            self.layer_maps,
            self.attention,
            self.num_steps,
        )

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """The dataset with the features this configuration asks for."""
        if self.normalized_features:
            dataset = dataset.with_normalized_features()
        return dataset.with_adjacency_features() if self.adjacency_features else dataset

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return GroupedAdam(self.embedding, self.temporal, self.spatial, self.averaging)

    def build(self, dataset: NodeDataset, seed: int) -> StationaryNetwork:
        """A network for a prepared dataset, its weights drawn from the seed."""
        return self.build_network(dataset.num_features, dataset.num_classes, seed)

    def build_network(self, num_features: int, num_outputs: int, seed: int) -> StationaryNetwork:
        """A network from so many features to so many outputs a node, its weights drawn from the seed."""
        check_choices(self, system=System, initial_states=InitialStates, layer_maps=LayerMaps, attention=Attention)
        coefficients = make_rule(self.system, self.order, self.hidden_channels, self.attention)
        is_unmapped = self.initial_states == "newest unmapped" and coefficients.order > 1
        network = StationaryNetwork(
            num_features,
            num_outputs,
            self.hidden_channels,
            self.num_layers,
            coefficients,
            _OPERATORS[self.layer_maps](
                self.hidden_channels, self.num_layers, self.step_size, batch_norm=self.batch_norm
            ),
            initial_states=NewestUnmapped(coefficients.order, self.hidden_channels) if is_unmapped else None,
            step_size=self.step_size,
            outer_dropout=self.outer_dropout,
            hidden_dropout=self.hidden_dropout,
            seed=seed,
        )
        # Only now: parts have drawn weights when they were made, some rules more than others.
        torch.manual_seed(seed)
        network.reset_parameters()
        return network

    def to_record(self) -> dict[str, Any]:
        """Settings for a result line."""
        return asdict(self)


_OPERATORS: dict[LayerMaps, type[DiffusionOperator]] = {
    "free": DiffusionOperator,
    "near identity": NearIdentityDiffusion,
}
