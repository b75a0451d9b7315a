"""The data of the picture of one node: what was observed, what was forecast, and what comes next.

Of forecasts that overlap, those are shown that were made every `horizon` steps, as a user would have made them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from tdegnn.forecasting.forecast import Forecast
from tdegnn.forecasting.kept_forecasts import KeptForecasts
from tdegnn.reports.sections import rounded

# Maximum number of numbers in a page for the nodes of all runs: about 1.5 MB. Of larger panels, fewer steps and nodes.
MOST_NUMBERS = 250_000
FEWEST_WINDOWS = 4


def choose_windows(kept: KeptForecasts) -> Int[np.ndarray, " windows"]:
    """Return windows that do not overlap, the newest one included."""
    chosen, before = [], np.inf
    for number in range(len(kept.first_steps) - 1, -1, -1):
        if kept.first_steps[number] + kept.horizon <= before:
            chosen.append(number)
            before = kept.first_steps[number]
    return np.array(chosen[::-1], dtype=np.int64)


def series_of_nodes(
    kept: KeptForecasts,
    forecast: Forecast | None,
    nodes: tuple[str, ...],
    channels: tuple[str, ...],
    by_error: np.ndarray,
    num_runs: int,
) -> dict[str, Any]:
    """Return observed values and forecasts of nodes, as a page holds them.

    Args:
        kept: Held-out forecasts.
        forecast: Forecasts of the steps after the series. None if there are none.
        nodes: Names of the nodes.
        channels: Names of the channels that are forecast.
        by_error: Numbers of the nodes, worst first.
        num_runs: Number of runs that share the page.
    """
    windows = choose_windows(kept)
    horizon, num_series = kept.horizon, len(nodes) * len(channels)
    # Per window and node: what was observed, forecast, low and high.
    most = max(FEWEST_WINDOWS, MOST_NUMBERS // num_runs // (4 * horizon * num_series))
    windows = windows[-most:]
    fits = max(1, MOST_NUMBERS // num_runs // (4 * horizon * len(windows) * len(channels)))
    shown = np.sort(by_error[:fits])
    start = max(0, int(kept.first_steps[windows[0]]) - horizon)
    times = kept.times[start:]

    def nested(values: np.ndarray) -> Any:
        """Return values of shape (steps, nodes, targets) by target and node."""
        return [[_tidy(values[:, node, target]) for node in shown] for target in range(len(channels))]

    def joined(values: np.ndarray) -> Any:
        return nested(values[windows].reshape(-1, *values.shape[2:]))

    future = None
    if forecast is not None:
        future = {
            "times": _numbers_of(forecast.times),
            "forecast": nested(forecast.values),
            "low": nested(forecast.low),
            "high": nested(forecast.high),
        }
    return {
        "is_date": isinstance(times, pd.DatetimeIndex),
        "times": _numbers_of(times),
        "nodes": [nodes[node] for node in shown],
        "hidden": len(nodes) - len(shown),
        "channels": list(channels),
        "horizon": horizon,
        "windows": [int(kept.first_steps[window]) - start for window in windows],
        "observed": nested(kept.observed[start:]),
        "forecast": joined(kept.forecasts),
        "low": joined(kept.low),
        "high": joined(kept.high),
        "future": future,
    }


def _tidy(values: np.ndarray) -> list[float | int | None]:
    return [rounded(value) for value in values.tolist()]


def _numbers_of(times: pd.Index) -> list[float | int]:
    """Return numbers, for dates the milliseconds of the wall clock."""
    if isinstance(times, pd.DatetimeIndex):
        times = pd.Index(times.tz_localize(None).as_unit("ms").asi8)
    return list(times)
