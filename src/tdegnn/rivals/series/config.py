"""All settings of a rival for series: its name, its sizes, how it learns; and the network they make.

Configurations of the same `shape` can be trained together (`training/members.py`), on the same windows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from tdegnn.errors import InputError
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.parts import drawing_weights
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.members import GroupDescent, GroupedAdam


@dataclass(frozen=True)
class SeriesRivalConfig:
    """Everything that determines the training of a rival, except data, windows and seed.

    Attributes:
        system: Name of the rival in `rivals/series/registry.py`.
        hidden_channels: Channels of a state.
        dropout: Fraction of the states that is dropped in training.
        embedding: How the weights learn.
        num_steps: Maximum number of optimizer steps.
        batch_size: Windows per step. If None, all windows.
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
        """The settings that configurations must share to be trained in one batch."""
        return self.system, self.hidden_channels, self.num_steps, self.batch_size

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns: all weights in the same way."""
        return GroupedAdam(self.embedding, self.embedding, self.embedding)

    def build(self, sizes: SeriesSizes, seed: int) -> RivalSeriesNetwork:
        """Return a network of these sizes, with weights drawn from the seed."""
        with drawing_weights(seed):
            return SERIES_NETWORKS[self.system](sizes, self.hidden_channels, dropout=self.dropout, seed=seed)

    def to_record(self) -> dict[str, Any]:
        """Return the settings for a result line."""
        return asdict(self)


AnySeriesConfig: TypeAlias = SeriesConfig | SeriesRivalConfig
