"""Intervals of a fixed width per node and step of the horizon: split conformal prediction.

The half width is the quantile of the absolute residuals on the held-out steps. It holds whatever the forecaster, as
long as the future is like those steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.base import (
    Forecast,
    Intervals,
    Residuals,
    Scales,
    Stored,
    Widths,
    check_coverage,
    check_forecasts,
    check_residuals,
    check_scale,
    fewest_residuals,
    finite_sample_quantile,
)

Per = Literal["node", "all"]


@dataclass(frozen=True, eq=False)
class ConformalIntervals(Intervals):
    """Intervals of a fixed width around forecasts, made by `ConformalIntervals.fit`.

    Attributes:
        widths: Half of the width of each interval.
        coverage: Share of the observations that the intervals should contain.
        is_pooled: Whether the width comes from the residuals of all nodes.
    """

    widths: Widths
    coverage: float
    is_pooled: Bool[np.ndarray, "horizon nodes targets"]

    @classmethod
    def fit(
        cls,
        residuals: Residuals,
        coverage: float = 0.9,
        per: Per = "node",
        scale: Scales | None = None,
    ) -> ConformalIntervals:
        """Learn the widths from forecasts of steps that the forecaster was not trained on.

        Args:
            residuals: Observed minus forecast on the held-out steps, with or without sign. NaN if not observed.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            per: `"node"`: each node has its own widths. A node with too few residuals (fewer than 9 at 90 %) has those
                of all nodes. `"all"`: all nodes have the same widths up to their scale, learned from the residuals of
                all of them, which is steadier if few steps are held out.
            scale: Units in which nodes are comparable, such as `Scaler.scale`: one row per node, or one for all. If
                None, residuals of different nodes are pooled without scaling.

        Raises:
            InputError: All nodes together have too few residuals. Only an infinite interval would be right.
        """
        check_coverage(coverage)
        if per not in get_args(Per):
            raise InputError(f"Expected per to be 'node' or 'all', got {per!r}.")
        absolute = np.abs(check_residuals(residuals))
        units = check_scale(scale, absolute)
        pooled = np.moveaxis(absolute / units, 2, 1)  # (steps, nodes, horizon, targets)
        pooled_widths = finite_sample_quantile(pooled.reshape(-1, *pooled.shape[2:]), coverage)
        if np.isinf(pooled_widths).any():
            step, target = np.argwhere(np.isinf(pooled_widths))[0]
            num_observed = int((~np.isnan(pooled[:, :, step, target])).sum())
            raise InputError(
                f"Expected at least {fewest_residuals(coverage)} observed residuals for a coverage of {coverage:g}, "
                f"got {num_observed} at step {step + 1} of the horizon. Hold out more steps, or lower the coverage."
            )
        of_all = pooled_widths[:, None, :] * units
        if per == "all":
            return cls(of_all, coverage, np.ones(of_all.shape, dtype=bool))
        of_nodes = finite_sample_quantile(absolute, coverage)
        is_pooled = np.isinf(of_nodes)
        return cls(np.where(is_pooled, of_all, of_nodes), coverage, is_pooled)

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        check_forecasts(forecast, self.widths.shape)
        return forecast - self.widths, forecast + self.widths

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the widths, and which of them are pooled."""
        return {"widths": self.widths, "is_pooled": self.is_pooled}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> ConformalIntervals:
        """Make the intervals again. Arrays of earlier versions do not say which widths are pooled."""
        widths = arrays["widths"]
        return cls(widths, coverage, arrays.get("is_pooled", np.zeros(widths.shape, dtype=bool)))

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what `widths` and `is_pooled` must be. Earlier versions did not store `is_pooled`."""
        widths = {"widths": Stored("f", sizes, lowest=0)}
        return widths | ({"is_pooled": Stored("b", sizes)} if "is_pooled" in arrays else {})
