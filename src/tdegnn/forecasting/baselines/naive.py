"""Classical forecasts, which see a series up to an origin and forecast the `horizon` steps after it; naive ones.

A forecast is identified by its first target step. Its origin is the step before, and it depends on no value after that.
`ForecastMethod.fit` returns a new object, so one method serves many series. Methods forecast in the
units they are given. Scale series of different sizes first if a method learns from all nodes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64

from tdegnn.data.times.seasons import Season, season_waves
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Graph

Predictions: TypeAlias = Float[np.ndarray, "windows horizon nodes targets"]


@dataclass(frozen=True, eq=False)
class SeriesInputs:
    """Series to forecast, with channels known ahead and a graph.

    Attributes:
        values: What was observed, oldest first. NaN if not observed.
        known: Channels that are known ahead, such as the calendar, from the first step of `values` to the last step
            that is forecast.
        graph: The graph the nodes live on.
        cells: The cell of the calendar of each step, such as its hour of the week, as far ahead as `known`.
    """

    values: Float[np.ndarray, "time nodes targets"]
    known: Float[np.ndarray, "known_time nodes channels"] | None = None
    graph: Graph | None = None
    cells: Int64[np.ndarray, " known_time"] | None = None

    def __post_init__(self) -> None:
        for name, array in dict(values=self.values, known=self.known).items():
            if array is not None and array.ndim != 3:
                raise InputError(f"Expected {name} of shape (time, nodes, channels), got {array.shape}.")
        if np.isinf(self.values).any():
            raise InputError("Expected finite values, got infinity. Use NaN for what was not observed.")
        if self.known is not None and (len(self.known) < self.num_steps or self.known.shape[1] != self.num_nodes):
            raise InputError(
                f"Expected known channels of at least {self.num_steps} steps and of {self.num_nodes} nodes, as the "
                f"values have, got shape {self.known.shape}."
            )
        if self.known is not None and not np.isfinite(self.known).all():
            raise InputError("Expected finite known channels, got NaN or infinity. Fill them or leave them out.")
        if self.graph is not None and self.graph.num_nodes != self.num_nodes:
            raise InputError(f"Expected a graph of {self.num_nodes} nodes, got one of {self.graph.num_nodes}.")

    @classmethod
    def with_seasons(
        cls, values: Float[np.ndarray, "time nodes targets"], seasons: Sequence[Season], graph: Graph | None = None
    ) -> SeriesInputs:
        """Return series whose known channels are the waves of these seasons, the same for all nodes."""
        if not seasons:
            return cls(values, None, graph)
        waves = np.concatenate([season_waves(range(len(values)), *season) for season in seasons], axis=1)
        return cls(values, np.broadcast_to(waves[:, None], (*values.shape[:2], waves.shape[1])), graph)

    @property
    def num_steps(self) -> int:
        """Number of steps in `values`."""
        return int(self.values.shape[0])

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.values.shape[1])

    @property
    def num_targets(self) -> int:
        """Number of channels to forecast."""
        return int(self.values.shape[2])

    def check_steps(self, training_steps: range, validation_steps: range) -> None:
        """Raise an `InputError` unless both lie in the series, one after the other."""
        steps = [0, training_steps.start, training_steps.stop, validation_steps.start, validation_steps.stop]
        is_dense = training_steps.step == validation_steps.step == 1
        if not is_dense or not training_steps or sorted(steps) != steps or steps[-1] > self.num_steps:
            raise InputError(
                f"Expected training steps and, after them, validation steps within the {self.num_steps} of the "
                f"series, got {training_steps} and {validation_steps}."
            )

    def check_targets(self, first_target_steps: range, fewest_seen: int = 1) -> None:
        """Raise an `InputError` if fewer than `fewest_seen` steps come before a target, or an origin is unknown."""
        if not first_target_steps:
            raise InputError(f"Expected at least one first target step, got {first_target_steps}.")
        first, last = sorted((first_target_steps[0], first_target_steps[-1]))
        if first < fewest_seen or last > self.num_steps:
            raise InputError(
                f"Expected first target steps from {fewest_seen} to {self.num_steps}, since a forecast sees "
                f"{fewest_seen} of {self.num_steps} steps, got {first} to {last}."
            )


@runtime_checkable
class FittedForecast(Protocol):
    """A method fitted to one series."""

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """Forecast the steps from each first target step on.

        Args:
            series: The series the method was fitted to, as far as it is known by now. Values from a first target step
                on do not change its forecast.
            first_target_steps: One per origin, up to the number of steps: `range(num_steps, num_steps + 1)` forecasts
                what comes after the last observed step.
        """


@runtime_checkable
class ForecastMethod(Protocol):
    """A forecasting method before it is fitted."""

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedForecast:
        """Learn from a series. Nothing after the validation steps is used.

        Args:
            series: What was observed.
            training_steps: Steps to predict while fitting. Forecasts of them may see earlier steps.
            validation_steps: Steps to choose by, after the training steps. Then the method learns from both.
            horizon: Number of steps to forecast from an origin.
        """


def carry_forward(values: Float[np.ndarray, time * series]) -> Float[np.ndarray, time * series]:
    """Return the newest value observed up to each step. NaN before the first one."""
    steps = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    newest = np.maximum.accumulate(np.where(np.isnan(values), 0, steps), axis=0)
    return np.take_along_axis(values, newest, axis=0)


def node_means(values: Float[np.ndarray, "time nodes targets"]) -> Float[np.ndarray, "nodes targets"]:
    """Return the mean of each node. A node without observed values has the mean of all nodes."""
    is_observed = ~np.isnan(values)
    counts, sums = is_observed.sum(axis=0), np.where(is_observed, values, 0.0).sum(axis=0)
    totals = counts.sum(axis=0)
    if not totals.all():
        raise InputError(
            "Expected observed values of every target in the training steps, got none of target "
            f"{int(np.argmin(totals))} (counted from 0). Take more training steps."
        )
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), sums.sum(axis=0) / totals))


@dataclass(frozen=True)
class ConstantForecast:
    """Predict a constant."""

    constant: float = 0.0

    def __post_init__(self) -> None:
        check_finite(constant=self.constant)

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedConstant:
        """See `ForecastMethod`. There is nothing to learn."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        return FittedConstant(np.full((series.num_nodes, series.num_targets), float(self.constant)), horizon)


@dataclass(frozen=True)
class MeanForecast:
    """Predict the mean of each node up to the end of the validation steps."""

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedConstant:
        """See `ForecastMethod`."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        return FittedConstant(node_means(series.values[: validation_steps.stop]), horizon)


@dataclass(frozen=True, eq=False)
class FittedConstant:
    """One number per node.

    Attributes:
        levels: The numbers.
        horizon: Number of steps to forecast.
    """

    levels: Float[np.ndarray, "nodes targets"]
    horizon: int

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        series.check_targets(first_target_steps)
        _check_nodes(self.levels, series)
        return np.tile(self.levels, (len(first_target_steps), self.horizon, 1, 1))


@dataclass(frozen=True)
class CalendarMean:
    """Predict the mean of each node in the same cell of the calendar, up to the end of the validation steps.

    A cell without observed values has the mean of the node.
    """

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedCalendarMean:
        """See `ForecastMethod`."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        cells, values = _cells_of(series), series.values[: validation_steps.stop]
        levels = np.tile(node_means(values), (int(cells.max()) + 1, 1, 1))
        seen = cells[: len(values)]
        for cell in np.unique(seen):
            own = values[seen == cell]
            counts = (~np.isnan(own)).sum(axis=0)
            levels[cell] = np.where(counts > 0, np.nansum(own, axis=0) / np.maximum(counts, 1), levels[cell])
        return FittedCalendarMean(levels, horizon)


@dataclass(frozen=True, eq=False)
class FittedCalendarMean:
    """One number per cell of the calendar and node.

    Attributes:
        levels: The numbers.
        horizon: Number of steps to forecast.
    """

    levels: Float[np.ndarray, "cells nodes targets"]
    horizon: int

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        series.check_targets(first_target_steps)
        _check_nodes(self.levels[0], series)
        steps = np.asarray(first_target_steps)[:, None] + np.arange(self.horizon)
        return np.asarray(self.levels[_cells_of(series)[steps]])


def _cells_of(series: SeriesInputs) -> Int64[np.ndarray, " known_time"]:
    if series.cells is None:
        raise InputError("Expected series with cells of the calendar, got none. Take another forecast.")
    return series.cells


@dataclass(frozen=True)
class SeasonalNaive:
    """Predict what was observed one period before. With a period of 1, that is the last value.

    Beyond one period, the newest known season is repeated. A value that was not observed is replaced by the last one
    before it, or by the training mean of the node if there is none.
    """

    period: int = 1

    def __post_init__(self) -> None:
        check_count(period=self.period)

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedSeasonalNaive:
        """See `ForecastMethod`. Only the replacements of missing values are learned."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        return FittedSeasonalNaive(self.period, node_means(series.values[: validation_steps.stop]), horizon)


@dataclass(frozen=True, eq=False)
class FittedSeasonalNaive:
    """A period, and the means that replace missing values.

    Attributes:
        period: Steps from one season to the next.
        levels: The means.
        horizon: Number of steps to forecast.
    """

    period: int
    levels: Float[np.ndarray, "nodes targets"]
    horizon: int

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        series.check_targets(first_target_steps)
        _check_nodes(self.levels, series)
        first = np.asarray(first_target_steps)
        newest = carry_forward(series.values)[first - 1]
        newest = np.where(np.isnan(newest), self.levels, newest)
        forecasts = []
        for ahead in range(self.horizon):
            seasons_ago = ahead // self.period + 1
            steps = first + ahead - seasons_ago * self.period
            before = series.values[np.maximum(steps, 0)]
            is_unknown = np.isnan(before) | (steps < 0)[:, None, None]
            forecasts.append(np.where(is_unknown, newest, before))
        return np.stack(forecasts, axis=1)


def _check_nodes(levels: Float[np.ndarray, "nodes targets"], series: SeriesInputs) -> None:
    came = (series.num_nodes, series.num_targets)
    if levels.shape != came:
        raise InputError(f"Expected the {levels.shape} nodes and targets that were fitted, got {came}.")
