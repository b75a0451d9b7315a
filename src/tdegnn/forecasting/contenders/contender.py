"""The contract of a method that a backtest compares a forecaster with.

A `Contender` learns from the steps before the first origin, and returns a `FittedContender`, which forecasts from any
later origin with the data up to there. It also returns its forecasts of held-out steps, from which a backtest learns
intervals in the same way for all methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.forecasting.held_out import ForecastSplit, split_for_forecast
from tdegnn.training.devices import DeviceName


@dataclass(frozen=True, eq=False)
class ContenderTask:
    """What a contender gets to learn from. It is what the forecaster gets.

    Attributes:
        panel: The series up to the first origin.
        horizon: Number of steps to forecast.
        window: Number of steps that a forecast of the forecaster sees.
        seasons: Seasons of the calendar.
        known: Names of channels whose future values may be used.
        node_features: Features of the nodes, if any.
        seed: Seed of everything random.
        device: `"auto"`, `"cpu"` or `"cuda"`.
    """

    panel: Panel
    horizon: int
    window: int
    seasons: tuple[Season, ...] = ()
    known: tuple[str, ...] = ()
    node_features: NodeFeatures | None = None
    seed: int = 0
    device: DeviceName = "auto"

    @cached_property
    def split(self) -> ForecastSplit:
        """The steps to learn from, and those to hold out."""
        return split_for_forecast(self.panel.num_steps, self.window, self.horizon)

    @property
    def period(self) -> int:
        """Steps of the shortest season. 1 if there is none."""
        return shortest_period(self.seasons)

    @property
    def held_out_firsts(self) -> range:
        """The first target step of each held-out window."""
        return range(self.split.validation.start, self.split.validation.stop - self.horizon + 1)


class FittedContender(Protocol):
    """A contender that has learned.

    Attributes:
        held_out: Forecasts of the held-out windows (`ContenderTask.held_out_firsts`), by weights that have not seen
            them. If None, there are no intervals.
    """

    @property
    def held_out(self) -> Predictions | None:
        """See the class."""

    def predict(self, panel: Panel, first_target_steps: range) -> Predictions:
        """Forecast the horizon from each first target step on.

        Args:
            panel: The series from the first step of the training on, to the end. Values from a first target step on
                must not change its forecast, except those of channels that are known ahead.
            first_target_steps: One per origin, after the steps of the training.
        """


class Contender(ABC):
    """A method to compare with. Settings are arguments of its constructor, which raises an error if it cannot run."""

    # Whether a method makes no sense for series without seasons.
    needs_season: bool = False
    # Whether a method cannot follow edges that change.
    needs_one_graph: bool = False
    # Whether it needs dates, of which hours or weekdays can be told apart.
    needs_calendar: bool = False

    @abstractmethod
    def fit(self, task: ContenderTask) -> FittedContender:
        """Learn from the steps of the task and nothing else."""


def shortest_period(seasons: tuple[Season, ...]) -> int:
    """Return the steps of the shortest season. 1 if there is none."""
    return round(min((season.period for season in seasons), default=1.0))
