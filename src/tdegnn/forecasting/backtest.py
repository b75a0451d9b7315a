"""Backtests: train a forecaster anew several times, as if the series had ended earlier, and compare its forecasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from tdegnn.data.panel import Panel
from tdegnn.data.splits import rolling_origins
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.data.times.times import show_time
from tdegnn.forecasting.baselines.naive import SeriesInputs
from tdegnn.forecasting.held_out import OURS, measure_errors, naive_methods
from tdegnn.forecasting.intervals import measure_coverage

if TYPE_CHECKING:
    from tdegnn.forecasting.forecaster import Forecaster


@dataclass(frozen=True)
class BacktestLine:
    """The result of one method in one fold.

    Attributes:
        fold: Number of the fold, from 0.
        origin: The first step that is forecast, as a time.
        method: The forecaster, or a naive forecast.
        mse: Mean squared error.
        mae: Mean absolute error.
        coverage: Share of the observed values in the intervals. NaN for naive forecasts, which have none.
        order: Length of the history, given or found. None for naive forecasts.
    """

    fold: int
    origin: str
    method: str
    mse: float
    mae: float
    coverage: float
    order: int | None = None


@dataclass(frozen=True)
class Backtest:
    """All folds of a backtest.

    Attributes:
        lines: One per fold and method.
        aimed_coverage: Share of the observations that intervals should contain.
    """

    lines: tuple[BacktestLine, ...]
    aimed_coverage: float

    def __str__(self) -> str:
        title = f"Mean errors of {len(self.of_forecaster())} folds; intervals aim at {100 * self.aimed_coverage:g}%"
        return f"{title}\n{pd.DataFrame(self.means()).T.to_string(float_format='{:.4g}'.format)}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per fold and method."""
        return pd.DataFrame([vars(line) for line in self.lines]).astype({"order": "Int64"})

    def of_forecaster(self) -> list[BacktestLine]:
        """Return the lines of the forecaster, fold by fold."""
        return [line for line in self.lines if line.method == OURS]

    def means(self) -> dict[str, dict[str, float]]:
        """Return mean errors and coverage of each method over the folds, best first."""
        grouped = self.to_frame().groupby("method")[["mse", "mae", "coverage"]].mean().sort_values("mse")
        return {str(name): row.to_dict() for name, row in grouped.iterrows()}


def run_backtest(
    forecaster: Forecaster,
    panel: Panel,
    features: NodeFeatures | None = None,
    *,
    num_folds: int = 3,
    stride: int | None = None,
    on_fold: Callable[[], object] = lambda: None,
) -> Backtest:
    """Train on the steps before an origin and forecast the horizon after it, several times.

    Args:
        forecaster: A forecaster with the settings. What it has learned is not used.
        panel: The series.
        features: Features of the nodes, if any.
        num_folds: Number of origins.
        stride: Steps from one origin to the next. Defaults to the horizon.
        on_fold: Called after each fold, for a progress bar.
    """
    horizon = forecaster.horizon
    folds = rolling_origins(panel.num_steps, horizon, num_folds, stride=stride, window=forecaster.window or 1)
    lines: list[BacktestLine] = []
    for number, fold in enumerate(folds):
        known = panel[: fold.test.start]
        trained: Any = clone(forecaster).fit(known, node_features=features)
        observed = panel.values[fold.test.start : fold.test.stop, :, : panel.num_targets]
        ahead = panel[fold.test.start : fold.test.stop] if forecaster.known else None
        forecast = trained.predict(future=ahead)
        origin = show_time(panel.times[fold.test.start])
        is_measured = trained.intervals_ is not None and not np.isnan(observed).all()
        coverage = measure_coverage(forecast.low, forecast.high, observed) if is_measured else np.nan
        errors = measure_errors(forecast.values, observed)
        lines.append(BacktestLine(number, origin, OURS, *errors, coverage, trained.order_))
        series = SeriesInputs(known.values[..., : panel.num_targets])
        for name, method in naive_methods(trained.maker_.seasons).items():
            end = range(known.num_steps, known.num_steps)
            fitted = method.fit(series, range(1, known.num_steps), end, horizon)
            naive = fitted.predict(series, range(known.num_steps, known.num_steps + 1))[0]
            lines.append(BacktestLine(number, origin, name, *measure_errors(naive, observed), np.nan))
        on_fold()
    return Backtest(tuple(lines), forecaster.coverage)
