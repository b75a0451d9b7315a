"""Contenders without a network: naive forecasts, ridge regression, boosted trees and statistical models.

Each is a `ForecastMethod` of `forecasting/baselines/`, on series that are scaled by their training steps, with the
waves of the seasons and the channels known ahead.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.times.calendar import calendar_cells
from tdegnn.data.times.seasons import Season, season_waves, step_length, step_numbers
from tdegnn.forecasting.baselines.boosting import BoostedTrees
from tdegnn.forecasting.baselines.naive import (
    CalendarMean,
    FittedForecast,
    ForecastMethod,
    MeanForecast,
    Predictions,
    SeasonalNaive,
    SeriesInputs,
    carry_forward,
)
from tdegnn.forecasting.baselines.ridge import Feature, KnownChannels, NeighborLags, OwnLags, Per, RidgeForecast
from tdegnn.forecasting.baselines.statistical import ModelName, StatisticalForecast
from tdegnn.forecasting.contenders.contender import Contender, ContenderTask

# Share of the training steps by which a method makes its choices before it forecasts the held-out steps.
CHOSEN_BY = 0.2


@dataclass(frozen=True, eq=False)
class InputMaker:
    """Makes the inputs of classical methods from panels that start at the same step. Made by `InputMaker.fit`.

    Attributes:
        scaler: Center and scale of every channel.
        seasons: Seasons of the calendar.
        step_length: Length of a step, by which seasons are counted.
        known: Places of the channels that are known ahead.
    """

    scaler: Scaler
    seasons: tuple[Season, ...]
    step_length: float
    known: tuple[int, ...]

    @classmethod
    def fit(cls, task: ContenderTask) -> InputMaker:
        """Learn scales from the steps that are not held out."""
        panel = task.panel
        training = panel.values[: task.split.training.stop]
        places = tuple(panel.channels.index(name) for name in task.known)
        return cls(Scaler.standard(training), task.seasons, step_length(panel.times), places)

    def make(self, panel: Panel) -> SeriesInputs:
        """Return the scaled targets of a panel, and what is known ahead as far as the panel goes."""
        scaled = self.scaler.transform(panel.values)
        numbers = step_numbers(panel.times, self.step_length)
        waves = [season_waves(numbers, *season) for season in self.seasons]
        everywhere = [np.broadcast_to(each[:, None], (*scaled.shape[:2], each.shape[1])) for each in waves]
        known = [np.nan_to_num(carry_forward(scaled[..., list(self.known)]))] if self.known else []
        channels = np.concatenate([*everywhere, *known], axis=-1) if everywhere or known else None
        cells = calendar_cells(panel.times)
        numbers_of_cells = None if cells is None else cells.numbers
        return SeriesInputs(scaled[..., : panel.num_targets], channels, panel.graph, numbers_of_cells)

    def to_units(self, forecasts: Predictions) -> Predictions:
        """Return scaled forecasts in the units of the panel."""
        targets = forecasts.shape[-1]
        return Scaler(self.scaler.center[:, :targets], self.scaler.scale[:, :targets]).invert(forecasts)


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A fitted classical method.

    Attributes:
        maker: Makes its inputs.
        fitted: The method.
        held_out: Forecasts of the held-out windows, by a method that has not seen them.
    """

    maker: InputMaker
    fitted: FittedForecast
    held_out: Float[np.ndarray, "windows horizon nodes targets"]

    def predict(self, panel: Panel, first_target_steps: range) -> Predictions:
        """See `FittedContender`."""
        return self.maker.to_units(self.fitted.predict(self.maker.make(panel), first_target_steps))


class ClassicalContender(Contender):
    """A contender that is a classical method."""

    @abstractmethod
    def method(self, task: ContenderTask) -> ForecastMethod:
        """Return the method for these series."""

    def fit(self, task: ContenderTask) -> FittedMethod:
        """See `Contender`. The method is fitted twice: without the held-out steps, then with them."""
        method, split, maker = self.method(task), task.split, InputMaker.fit(task)
        series = maker.make(task.panel)
        boundary = split.training.stop - max(1, int(CHOSEN_BY * len(split.training)))
        earlier, later = range(split.training.start, boundary), range(boundary, split.training.stop)
        forecasts = method.fit(series, earlier, later, task.horizon).predict(series, task.held_out_firsts)
        again = method.fit(series, split.training, split.validation, task.horizon)
        return FittedMethod(maker, again, maker.to_units(forecasts))


class MeanContender(ClassicalContender):
    """The training mean of each node."""

    def method(self, task: ContenderTask) -> ForecastMethod:  # noqa: ARG002
        """See `ClassicalContender`."""
        return MeanForecast()


class LastContender(ClassicalContender):
    """The last value."""

    def method(self, task: ContenderTask) -> ForecastMethod:  # noqa: ARG002
        """See `ClassicalContender`."""
        return SeasonalNaive(1)


class SeasonContender(ClassicalContender):
    """The value one season ago, for the shortest season."""

    needs_season = True

    def method(self, task: ContenderTask) -> ForecastMethod:
        """See `ClassicalContender`."""
        return SeasonalNaive(task.period)


class CalendarContender(ClassicalContender):
    """The training mean of each node at the same hour and weekday."""

    needs_calendar = True

    def method(self, task: ContenderTask) -> ForecastMethod:  # noqa: ARG002
        """See `ClassicalContender`."""
        return CalendarMean()


class RidgeContender(ClassicalContender):
    """Ridge regression on the window of the node, the mean of its neighbors, the seasons and what is known ahead.

    Args:
        per: `"all"`: all nodes share their weights (the default). `"node"`: each node has its own.
    """

    needs_one_graph = True

    def __init__(self, per: Per = "all") -> None:
        self.per = per

    def method(self, task: ContenderTask) -> ForecastMethod:
        """See `ClassicalContender`."""
        return RidgeForecast(_features(task), per=self.per)


class BoostedContender(ClassicalContender):
    """Boosted trees (LightGBM) for all nodes together, on what `RidgeContender` sees and the number of the node.

    Args:
        num_rounds: Maximum number of trees per step ahead. Default: 300.
        learning_rate: How much of its forecast each tree adds. Default: 0.1.
        num_leaves: Maximum number of leaves of a tree. Default: 31.
    """

    needs_one_graph = True

    def __init__(self, num_rounds: int = 300, learning_rate: float = 0.1, num_leaves: int = 31) -> None:
        # Refuses wrong settings, and a missing package.
        self.trees = BoostedTrees((OwnLags(1),), num_rounds, learning_rate, num_leaves)

    def method(self, task: ContenderTask) -> ForecastMethod:
        """See `ClassicalContender`."""
        return replace(self.trees, features=_features(task), seed=task.seed)


class StatisticalContender(ClassicalContender):
    """A statistical model per node (statsforecast), chosen by an information criterion.

    Args:
        model: `"AutoARIMA"`, `"AutoETS"` or `"AutoTheta"`.
    """

    def __init__(self, model: ModelName) -> None:
        self.model: ModelName = StatisticalForecast(model).model  # refuses a missing package

    def method(self, task: ContenderTask) -> ForecastMethod:
        """See `ClassicalContender`."""
        return StatisticalForecast(self.model, task.period)


def observed_windows(panel: Panel, first_target_steps: range, horizon: int) -> Predictions:
    """Return the observed targets in the horizon from each first target step on."""
    steps = np.asarray(first_target_steps)[:, None] + np.arange(horizon)
    return panel.values[steps][..., : panel.num_targets]


def _features(task: ContenderTask) -> tuple[Feature, ...]:
    graph = task.panel.graph
    features: list[Feature] = [OwnLags(task.window)]
    features += [NeighborLags(task.window)] if graph is not None and graph.num_edges else []
    features += [KnownChannels()] if task.seasons or task.known else []
    return tuple(features)
