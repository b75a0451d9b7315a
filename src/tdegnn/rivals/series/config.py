"""The settings of a network for series in full: which system, its sizes, how it learns; and the network they make.

Configurations of one `shape` can be trained together (`members.py`), on the same windows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import torch

from tdegnn.errors import InputError
from tdegnn.forecasting.settings import SeriesConfig
from tdegnn.nets.series_network import SeriesNetwork, SeriesSizes
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.members import GroupDescent, GroupedAdam


@dataclass(frozen=True)
class SeriesRivalConfig:
    """Everything that decides the training of a rival besides data, windows and seed.

    Attributes:
        system: Its name, as in `rivals/series/registry.py`.
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
