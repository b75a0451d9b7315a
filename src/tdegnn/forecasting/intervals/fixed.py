"""Intervals of a fixed width per node and step of the horizon: split conformal prediction.

The half width is the quantile of the absolute residuals on the held-out steps. It holds whatever the forecaster, as
long as the future is like those steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.base import (
    AT_LEVELS,
    LEVELS,
    Forecast,
    Intervals,
    Residuals,
    Scales,
    Stored,
    Widths,
    between_levels,
    check_coverage,
    check_forecasts,
    check_residuals,
    check_scale,
    fewest_residuals,
    finite_levels,
    finite_sample_quantiles,
    levels_stored,
)

Per = Literal["node", "all"]


@dataclass(frozen=True, eq=False)
class ConformalIntervals(Intervals):
    """Intervals of a fixed width around forecasts, made by `ConformalIntervals.fit`.

    Attributes:
        widths: Half of the width of each interval.
        coverage: Share of the observations that the intervals should contain.
        is_pooled: Whether the width comes from the residuals of all nodes.
        at_levels: Widths at other coverages, the first of `LEVELS`. None if an earlier version stored the intervals.
    """

    widths: Widths
    coverage: float
    is_pooled: Bool[np.ndarray, "horizon nodes targets"]
    at_levels: Float[np.ndarray, "levels horizon nodes targets"] | None = None

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
        coverages = (coverage, *LEVELS)
        of_all = finite_sample_quantiles(pooled.reshape(-1, *pooled.shape[2:]), coverages)
        pooled_widths = of_all[0]
        if np.isinf(pooled_widths).any():
            step, target = np.argwhere(np.isinf(pooled_widths))[0]
            num_observed = int((~np.isnan(pooled[:, :, step, target])).sum())
            raise InputError(
                f"Expected at least {fewest_residuals(coverage)} observed residuals for a coverage of {coverage:g}, "
                f"got {num_observed} at step {step + 1} of the horizon. Hold out more steps, or lower the coverage."
            )
        widths = finite_levels(of_all)[:, :, None, :] * units
        is_pooled = np.ones(widths.shape, dtype=bool)
        if per == "node":
            of_nodes = finite_sample_quantiles(absolute, coverages[: len(widths)])
            is_pooled = np.isinf(of_nodes)
            widths = np.where(is_pooled, widths, of_nodes)
        return cls(widths[0], coverage, is_pooled[0], widths[1:])

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        check_forecasts(forecast, self.widths.shape)
        return forecast - self.widths, forecast + self.widths

    def at(self, coverage: float) -> Intervals:
        """Return the intervals for another coverage."""
        if coverage == self.coverage or self.at_levels is None:
            return super().at(coverage)
        widths = between_levels(self.at_levels, self.widths, self.coverage, coverage)
        return replace(self, widths=widths, coverage=coverage)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the widths, which of them are pooled, and those at other coverages."""
        others = {} if self.at_levels is None else {AT_LEVELS: self.at_levels}
        return {"widths": self.widths, "is_pooled": self.is_pooled} | others

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> ConformalIntervals:
        """Make the intervals again. Arrays of earlier versions do not say which widths are pooled."""
        widths = arrays["widths"]
        is_pooled = arrays.get("is_pooled", np.zeros(widths.shape, dtype=bool))
        return cls(widths, coverage, is_pooled, arrays.get(AT_LEVELS))

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what `widths` and `is_pooled` must be. Earlier versions did not store `is_pooled`."""
        widths = {"widths": Stored("f", sizes, lowest=0)}
        is_pooled = {"is_pooled": Stored("b", sizes)} if "is_pooled" in arrays else {}
        return widths | is_pooled | levels_stored(arrays, sizes)
