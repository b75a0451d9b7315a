"""Forecasts that any other has to beat: `y[t] = 0`, the training mean, and `y[t] = y[t - period]`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.zoo.series_inputs import Predictions, SeriesInputs, carry_forward, node_means


@dataclass(frozen=True)
class ConstantForecast:
    """Predict one number, whatever was observed."""

    constant: float = 0.0

    def __post_init__(self) -> None:
        check_finite(constant=self.constant)

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedConstant:
        """See `ForecastMethod`. There is nothing to learn."""
        check_count(horizon=horizon)
        series.check_parts(training_steps, validation_steps)
        return FittedConstant(np.full((series.num_nodes, series.num_targets), float(self.constant)), horizon)


@dataclass(frozen=True)
class MeanForecast:
    """Predict the mean of each node up to the end of the validation steps."""

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedConstant:
        """See `ForecastMethod`."""
        check_count(horizon=horizon)
        series.check_parts(training_steps, validation_steps)
        return FittedConstant(node_means(series.values[: validation_steps.stop]), horizon)


@dataclass(frozen=True, eq=False)
class FittedConstant:
    """One number a node.

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
class SeasonalNaive:
    """Predict what was observed one period before; a period of 1 is the last value.

    Beyond one period the newest season known is repeated. Where it was not observed the last value stands in, and where
    nothing was observed before the training mean of the node.
    """

    period: int = 1

    def __post_init__(self) -> None:
        check_count(period=self.period)

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedSeasonalNaive:
        """See `ForecastMethod`. Only what stands in where nothing was observed is learned."""
        check_count(horizon=horizon)
        series.check_parts(training_steps, validation_steps)
        return FittedSeasonalNaive(self.period, node_means(series.values[: validation_steps.stop]), horizon)


@dataclass(frozen=True, eq=False)
class FittedSeasonalNaive:
    """A period, and the means that stand in where nothing was observed.

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
