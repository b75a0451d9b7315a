"""The errors of forecasts in a backtest: how each is named, and how it is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.metrics import (
    Per,
    interval_coverage,
    mean_absolute_error,
    mean_absolute_scaled_error,
    mean_squared_error,
    pinball_loss,
)

ERRORS = ("mae", "rmse", "mse", "mase", "pinball", "coverage")
Measured = dict[str, Float[np.ndarray, "*kept"]]


@dataclass(frozen=True, eq=False)
class Judge:
    """What was observed, and the units of errors.

    Attributes:
        observed: The observed values in the horizon of each origin. NaN if not observed.
        scale: The mean absolute error of the naive forecast in training, per node and target.
        coverage: Share of the observations that intervals should contain.
    """

    observed: Predictions
    scale: Float[np.ndarray, "nodes targets"]
    coverage: float

    def measure(self, forecasts: Predictions, low: Predictions, high: Predictions, per: Per | None = None) -> Measured:
        """Return all errors of a method. NaN for what has no observed values, or no intervals.

        Args:
            forecasts: The forecasts.
            low: Lower ends of their intervals.
            high: Upper ends of their intervals.
            per: The axis to keep, as in `metrics.py`: one error per origin (`"step"`), step of the `"horizon"` or
                `"node"`. If None, one error in all.
        """
        observed = self.observed
        shape = () if per is None else (observed.shape[("step", "horizon", "node", "channel").index(per)],)
        if np.isnan(observed).all():
            return {name: np.full(shape, np.nan) for name in ERRORS}
        squared = np.asarray(mean_squared_error(forecasts, observed, per=per))
        ends = (1 - self.coverage) / 2, (1 + self.coverage) / 2
        pinball = [
            np.asarray(pinball_loss(end, observed, quantile, per=per))
            for end, quantile in zip((low, high), ends, strict=True)
        ]
        return {
            "mae": np.asarray(mean_absolute_error(forecasts, observed, per=per)),
            "rmse": np.sqrt(squared),
            "mse": squared,
            "mase": self._scaled(forecasts, per, shape),
            "pinball": (pinball[0] + pinball[1]) / 2,
            "coverage": np.asarray(interval_coverage(low, high, observed, per=per)),
        }

    def by_node_and_step(self, forecasts: Predictions, low: Predictions, high: Predictions) -> Measured:
        """Return all errors per node, channel and step of the horizon, in this order of axes."""
        _, horizon, num_nodes, num_targets = self.observed.shape
        parts = []
        for node, target in np.ndindex(num_nodes, num_targets):
            at = (..., slice(node, node + 1), slice(target, target + 1))
            judge = Judge(self.observed[at], self.scale[at], self.coverage)
            parts.append(judge.measure(forecasts[at], low[at], high[at], per="horizon"))
        return {
            name: np.stack([part[name] for part in parts]).reshape(num_nodes, num_targets, horizon) for name in ERRORS
        }

    @property
    def has_scale(self) -> Bool[np.ndarray, "nodes targets"]:
        """Whether the naive forecast had errors in training, per node and target: else there is no unit."""
        return np.asarray(np.isfinite(self.scale) & (self.scale > 0))

    def _scaled(self, forecasts: Predictions, per: Per | None, shape: tuple[int, ...]) -> Float[np.ndarray, "*kept"]:
        is_observed = ~np.isnan(self.observed) & self.has_scale
        if not is_observed.any():
            return np.full(shape, np.nan)
        scale = np.where(self.has_scale, self.scale, 1.0)
        return np.asarray(mean_absolute_scaled_error(forecasts, self.observed, scale, is_observed, per))
