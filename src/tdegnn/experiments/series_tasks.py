"""The forecasting tasks of Table 2: three datasets, and the settings of each system on them.

Our settings were chosen on the validation steps of each dataset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast, get_args

from tdegnn.core.rules import System
from tdegnn.data.times.seasons import DAYS_IN_A_YEAR, Season
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.rivals.series.classical import classical_forecasts
from tdegnn.rivals.series.config import AnySeriesConfig, SeriesRivalConfig
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.members import GroupDescent

# The paper's benchmark: 4 lags, one step ahead.
PAPER_WINDOW = 4
NUM_SEEDS = 10
OURS = ("DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S")
CLASSICAL = tuple(classical_forecasts(period=1))
SYSTEMS = (*CLASSICAL, *SERIES_NETWORKS, *OURS)


@dataclass(frozen=True)
class SeriesTask:
    """A dataset, and the settings of the systems on it.

    Attributes:
        seasons: The seasons of its calendar.
        period: Steps of a season, for the seasonal naive forecast.
        num_steps: Steps of a training.
        batch_size: Windows per step. If None, all windows.
        skip: The linear forecast that is added to that of our layers.
        descent: How embeddings, layers and skip of our networks learn.
        dropout: Fraction of our states that is dropped in training.
        hidden_channels: Channels of a state, in our networks and in rivals.
        windows: Windows in addition to the paper's. `choose_window` chooses among all of them.
        long_averaging: Running mean of our weights for windows longer than the paper's.
    """

    seasons: tuple[Season, ...]
    period: int
    num_steps: int = 600
    batch_size: int | None = None
    skip: str = "linear"
    descent: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    dropout: float = 0.3
    hidden_channels: int = 32
    windows: tuple[int, ...] = ()
    long_averaging: float = 0.0

    def config(self, system: str, window: int = PAPER_WINDOW) -> AnySeriesConfig:
        """Return the settings of a system on this dataset."""
        if system in get_args(System):
            return SeriesConfig(
                cast(System, system),
                self.hidden_channels,
                skip=self.skip,
                dropout=self.dropout,
                embedding=self.descent,
                spatial=self.descent,
                num_steps=self.num_steps,
                batch_size=self.batch_size,
                averaging=self.long_averaging if window > PAPER_WINDOW else 0.0,
            )
        return SeriesRivalConfig(system, self.hidden_channels, num_steps=self.num_steps, batch_size=self.batch_size)


# Files number their weeks and date their days. PedalMe is too short to learn a year from.
TASKS = {
    "chickenpox": SeriesTask(
        (Season(DAYS_IN_A_YEAR / 7, 3),),
        52,
        descent=GroupDescent(0.01, 0.01),
        dropout=0.1,
        windows=(8, 26, 52),
        long_averaging=0.98,
    ),
    "pedalme": SeriesTask((), 4, num_steps=150),
    "wikimath": SeriesTask(
        (Season(7.0, 3),),
        7,
        num_steps=1500,
        batch_size=8,
        skip="by-node",
        descent=GroupDescent(0.003, 0.003),
        dropout=0.1,
        windows=(7, 14, 21, 28),
    ),
}
