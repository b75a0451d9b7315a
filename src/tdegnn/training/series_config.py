"""The settings of a network for series in full: which system, its sizes, how it learns; and the network they make.

Configurations of one `shape` can be trained together (`members.py`), on the same windows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import torch

from tdegnn.errors import InputError
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.series_network import SeriesNetwork, SeriesSizes
from tdegnn.nets.temporal import LinearSkip, TemporalNetwork
from tdegnn.training.members import GroupDescent, GroupedAdam
from tdegnn.training.systems import Attention, System, check_choices, make_rule
from tdegnn.zoo.series_registry import SERIES_NETWORKS

Skip = Literal["none", "linear", "by node"]
States = Literal["latent", "physical"]


@dataclass(frozen=True)
class SeriesConfig:
    """Everything that decides a training besides data, windows and seed.

    Attributes:
        system: Which rule gives c: c = [1], a learned vector, attention, a stable vector.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        order: Frames that become states; at most the window, 1 for DE-GNN.
        step_size: h.
        dropout: Part of states that is dropped in training.
        skip: The linear forecast beside the layers: none, the same for all nodes, or with weights of each node's own.
        attention: For TDE-GNN_A: that of the paper, or behind a gate that starts closed, as forward Euler.
        embedding: How embeddings and readout learn.
        temporal: How c learns.
        spatial: How the layers learn.
        linear: How the skip learns after it was solved (`ridge_skip.py`); not at all by default.
        num_steps: Number of steps of the optimizer at most.
        batch_size: Windows a step; all without it.
        states: What c combines: states of the network's own, or the observed frames themselves. The latter have no
            layers, no skip and no dropout; then c can be read.
        averaging: Part of the past in the running mean of the weights that are kept; 0 keeps the last ones.
    """

    system: System = "TDE-GNN_D"
    hidden_channels: int = 32
    num_layers: int = 2
    order: int = 4
    step_size: float = 1.0
    dropout: float = 0.3
    skip: Skip = "linear"
    attention: Attention = "gated"
    embedding: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    temporal: GroupDescent = field(default_factory=lambda: GroupDescent(0.001, 0.01))
    spatial: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    linear: GroupDescent = field(default_factory=lambda: GroupDescent(0.0))
    num_steps: int = 300
    batch_size: int | None = None
    states: States = "latent"
    averaging: float = 0.0

    @property
    def shape(self) -> tuple[Any, ...]:
        """What configurations must share to be trained in one batch."""
        sizes = (self.system, self.hidden_channels, self.num_layers, self.order)
        return (*sizes, self.skip, self.attention, self.num_steps, self.batch_size, self.states)

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""
        return GroupedAdam(self.embedding, self.temporal, self.spatial, self.averaging, self.linear)

    def build(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        """A network of these sizes, its weights drawn from the seed."""
        check_choices(self, system=System, skip=Skip, attention=Attention, states=States)
        network = self._make(sizes, seed)
        # Only now: parts have drawn weights when they were made, some rules more than others.
        torch.manual_seed(seed)
        network.reset_parameters()
        return network

    def _make(self, sizes: SeriesSizes, seed: int) -> TemporalNetwork | PhysicalSeriesNetwork:
        channels = sizes.num_targets if self.states == "physical" else self.hidden_channels
        coefficients = make_rule(self.system, self.order, channels, self.attention)
        if self.states == "physical":
            return PhysicalSeriesNetwork(sizes, self.hidden_channels, coefficients, step_size=self.step_size, seed=seed)
        return TemporalNetwork(
            sizes,
            self.hidden_channels,
            self.num_layers,
            coefficients,
            step_size=self.step_size,
            skip=None if self.skip == "none" else LinearSkip(sizes, is_by_node=self.skip == "by node"),
            dropout=self.dropout,
            seed=seed,
        )

    def to_record(self) -> dict[str, Any]:
        """Settings for a result line."""
        return asdict(self)


@dataclass(frozen=True)
class SeriesRivalConfig:
    """Everything that decides the training of a rival besides data, windows and seed.

    Attributes:
        system: Its name, as in `zoo/series_registry.py`.
        hidden_channels: Channels of a state.
        dropout: Part of states that is dropped in training.
        embedding: How its weights learn.
        num_steps: Number of steps of the optimizer at most.
        batch_size: Windows a step; all without it.
    """

    system: str
    hidden_channels: int = 32
    dropout: float = 0.3
    embedding: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.001))
    num_steps: int = 300
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.system not in SERIES_NETWORKS:
            raise InputError(f"Expected a rival among {', '.join(SERIES_NETWORKS)}, got {self.system!r}.")

    @property
    def shape(self) -> tuple[Any, ...]:
        """What configurations must share to be trained in one batch."""
        return self.system, self.hidden_channels, self.num_steps, self.batch_size

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns: all of its weights alike."""
        return GroupedAdam(self.embedding, self.embedding, self.embedding)

    def build(self, sizes: SeriesSizes, seed: int) -> SeriesNetwork:
        """A network of these sizes, its weights drawn from the seed."""
        torch.manual_seed(seed)
        build = SERIES_NETWORKS[self.system]
        return build(sizes, hidden_channels=self.hidden_channels, dropout=self.dropout, seed=seed)

    def to_record(self) -> dict[str, Any]:
        """Settings for a result line."""
        return asdict(self)


AnySeriesConfig: TypeAlias = SeriesConfig | SeriesRivalConfig
