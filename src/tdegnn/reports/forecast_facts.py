"""What is known about a forecaster: errors by node, by step ahead and by time of day, all on held-out steps.

The forecasts are those that a run folder keeps, by networks that had not seen these steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting.contenders.classical import RidgeContender, observed_windows
from tdegnn.forecasting.contenders.contender import ContenderTask
from tdegnn.forecasting.fitted import FittedForecaster, describe_data
from tdegnn.forecasting.kept_forecasts import KeptForecasts, Windows
from tdegnn.metrics import mean_absolute_error, mean_squared_error

# Names of hours, weekdays and months.
HOURS = tuple(f"{hour:02d}h" for hour in range(24))
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Cycle:
    """A division of time in which errors may differ.

    Attributes:
        unit: What it divides into: "hour", "weekday" or "month".
        names: Names of the parts.
        parts: The part of each held-out step.
    """

    unit: str
    names: tuple[str, ...]
    parts: Int[np.ndarray, " steps"]


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Errors of held-out forecasts.

    Attributes:
        kept: The forecasts.
        ridge: Observed minus the forecasts of a ridge regression, in the same windows. None if the series is not known.
    """

    kept: KeptForecasts
    ridge: Windows | None

    @property
    def observed(self) -> Windows:
        """What was observed in each window."""
        return np.asarray(self.kept.observed[self.kept.steps])

    @property
    def has_step_before(self) -> Bool[np.ndarray, " windows"]:
        """Whether the step before a window was kept, so that its last value can be repeated."""
        return np.asarray(self.kept.first_steps > 0)

    @cached_property
    def last_value(self) -> Windows:
        """The last observed value, repeated. NaN if it is not known."""
        filled = pd.DataFrame(self.kept.observed.reshape(len(self.kept.observed), -1)).ffill().to_numpy()
        before = filled.reshape(self.kept.observed.shape)[self.kept.first_steps - 1]
        before[~self.has_step_before] = np.nan
        return np.broadcast_to(before[:, None], self.kept.forecasts.shape)

    @cached_property
    def by_node(self) -> Float[np.ndarray, " nodes"]:
        """Mean absolute error of each node. NaN if nothing was observed."""
        return np.asarray(mean_absolute_error(self.kept.forecasts, self.observed, per="node"))

    @property
    def worst_first(self) -> Int[np.ndarray, " nodes"]:
        """Numbers of the nodes, those with the largest errors first."""
        return np.argsort(-np.nan_to_num(self.by_node, nan=-1.0), kind="stable")

    @cached_property
    def relative_by_node(self) -> Float[np.ndarray, " nodes"]:
        """Error of each node, divided by that of its last value, on the windows where both are known."""
        is_known = ~np.isnan(self.last_value) & ~np.isnan(self.observed)
        filled = np.where(is_known, self.last_value, 0.0)
        naive = np.asarray(mean_absolute_error(filled, self.observed, is_known, per="node"))
        own = np.asarray(mean_absolute_error(self.kept.forecasts, self.observed, is_known, per="node"))
        return np.asarray(own / np.where(naive > 0, naive, np.nan))

    def by_step(self) -> dict[str, list[float]]:
        """Return the mean absolute error at each step ahead, of each method, on the windows where all are known."""
        chosen = self.has_step_before
        observed = self.observed[chosen]
        is_known = ~np.isnan(self.last_value[chosen]) & ~np.isnan(observed)
        methods = {"this run": self.kept.forecasts[chosen]}
        if self.ridge is not None:
            methods["ridge"] = observed - np.where(is_known, self.ridge[chosen], 0.0)
        methods["last value"] = np.where(is_known, self.last_value[chosen], 0.0)
        return {
            name: np.asarray(mean_absolute_error(np.nan_to_num(each), observed, is_known, per="horizon")).tolist()
            for name, each in methods.items()
        }

    @cached_property
    def cycle(self) -> Cycle | None:
        """Hours if steps are shorter than a day, weekdays if they are days, else months. None if times are no dates."""
        times = self.kept.times
        if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
            return None
        step = times[1:] - times[:-1]
        if step.min() < pd.Timedelta(hours=23):
            return Cycle("hour", HOURS, times.hour.to_numpy())
        if step.min() < pd.Timedelta(days=6):
            return Cycle("weekday", WEEKDAYS, times.day_of_week.to_numpy())
        return Cycle("month", MONTHS, times.month.to_numpy() - 1)

    def by_part(self) -> list[dict[str, Any]]:
        """Return the mean residual by step ahead and part of the cycle, with the number of values behind it."""
        cycle, residuals = self.cycle, self.kept.residuals
        if cycle is None:
            return []
        parts = cycle.parts[self.kept.steps]
        found = []
        for ahead in range(self.kept.horizon):
            for part in np.unique(parts):
                values = residuals[:, ahead][parts[:, ahead] == part]
                count = int((~np.isnan(values)).sum())
                if count:
                    found.append(
                        {
                            "part": cycle.names[part],
                            "ahead": ahead + 1,
                            "mean": float(np.nanmean(values)),
                            "count": count,
                        }
                    )
        return found


@dataclass(frozen=True)
class RidgeErrors:
    """A ridge regression on the held-out steps of a training.

    Attributes:
        mse: Mean squared error on the held-out windows on which the forecaster was measured, the last ones.
        mae: Mean absolute error on them.
        residuals: Observed minus forecast, in the windows that a run folder keeps.
    """

    mse: float
    mae: float
    residuals: Windows


def measure_ridge(fitted: FittedForecaster, panel: Panel) -> RidgeErrors | None:
    """Fit a ridge regression to the steps of a training, without the held-out ones, and measure it on these.

    None if the panel is not that of the training, or if the run folder does not keep forecasts.
    """
    features, maker, kept = fitted.ensemble.node_features, fitted.ensemble.maker, fitted.held_out
    if kept is None or describe_data(panel, features, {})["sha256"] != fitted.config["data"]["sha256"]:
        return None
    seasons = tuple(Season(*season) for season in maker.seasons)
    task = ContenderTask(panel, maker.horizon, maker.window, seasons, maker.known, features)
    held_out = RidgeContender().fit(task).held_out
    residuals = observed_windows(panel, task.held_out_firsts, task.horizon) - held_out
    judged = residuals[-fitted.summary["held_out"]["steps"] :]
    observed, forecasts = np.where(np.isnan(judged), np.nan, 0.0), -np.nan_to_num(judged)
    # The kept steps are the last ones of the panel.
    windows = kept.first_steps + panel.num_steps - len(kept.times) - task.held_out_firsts.start
    return RidgeErrors(
        float(mean_squared_error(forecasts, observed)),
        float(mean_absolute_error(forecasts, observed)),
        residuals[windows],
    )
