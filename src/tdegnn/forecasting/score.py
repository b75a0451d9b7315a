"""How much of the series after the training is forecast: R squared, as scikit-learn scores a regression."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.times.times import show_time
from tdegnn.errors import InputError
from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.metrics import mean_squared_error

Windows = Float[np.ndarray, "windows horizon nodes targets"]


def score_newer(fitted: FittedForecaster, seen: Panel, lowest: float | None) -> float:
    """Return R squared of the forecasts of all steps after the training. See `Forecaster.score`.

    Args:
        fitted: The trained forecaster.
        seen: The series up to now, in the steps of the training.
        lowest: Lowest value of forecasts.
    """
    ensemble, maker, last = fitted.ensemble, fitted.ensemble.maker, fitted.tail.times[-1]
    first = max(int((seen.times <= last).sum()), maker.window)
    if first + maker.horizon > seen.num_steps:
        raise InputError(
            f"Expected at least {maker.horizon} steps, the horizon, after the training, which ends at "
            f"{show_time(last)}, with a window of {maker.window} before them, got {seen.num_steps - first}. Give newer "
            "series, with the steps before them."
        )
    dtype = next(ensemble.networks[0].parameters()).dtype
    windows = maker.windows(seen, node_features=ensemble.node_features, dtype=dtype)
    forecasts = ensemble.forecast(windows.predicting(range(first, seen.num_steps)), lowest=lowest)
    targets = seen.values[first:, :, : seen.num_targets]
    return explained_share(
        forecasts, np.moveaxis(np.lib.stride_tricks.sliding_window_view(targets, maker.horizon, axis=0), -1, 1)
    )


def explained_share(forecasts: Windows, observed: Windows) -> float:
    """Return R squared, the mean over the nodes and targets that were observed and change."""
    shares = [np.zeros(0)]
    for target in range(observed.shape[-1]):
        forecast, actual = forecasts[..., target : target + 1], observed[..., target : target + 1]
        is_observed = ~np.isnan(actual)
        if is_observed.any():
            counts = np.maximum(is_observed.sum(axis=(0, 1)), 1)
            means = np.where(is_observed, actual, 0.0).sum(axis=(0, 1)) / counts
            errors = np.asarray(mean_squared_error(forecast, actual, per="node"))
            spreads = np.asarray(mean_squared_error(np.broadcast_to(means, actual.shape), actual, per="node"))
            shares.append(1 - errors[spreads > 0] / spreads[spreads > 0])
    found = np.concatenate(shares)
    if not found.size:
        raise InputError("Expected series that change after the training, got none. Give longer series.")
    return float(found.mean())
