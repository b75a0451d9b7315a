"""Intervals that learn from each newly observed step: too many misses make them wider, too few narrower.

Both halves of an interval of another method are multiplied by a factor. After each step, the logarithm of the factor
moves by `step_size (is_missed - (1 - coverage))`, quickly for the share of misses over all nodes, and slowly for each
node. The published rule (`published_adaptive.py`) moves the level of a quantile instead, per node; this one needs no
residuals of the past, has no infinite widths, and keeps what the other method knows about the hour and the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tdegnn.errors import InputError, check_finite
from tdegnn.forecasting.intervals.auto import METHODS, AutoIntervals
from tdegnn.forecasting.intervals.base import Context, Forecast, Intervals, Residuals, Scales, Stored, Widths

AUTO = "auto"
# Factors stay within 1 / e^3 to e^3: twenty times as wide.
LARGEST_LOGARITHM = 3.0


@dataclass(frozen=True, eq=False)
class TrackedIntervals(Intervals):
    """Intervals of another method, times factors that follow what is observed. Made by `TrackedIntervals.fit`.

    Attributes:
        base: The intervals as they were learned from the held-out steps.
        logarithms: Logarithms of the factors.
        step_sizes: How fast the logarithms move with the share of misses over all nodes, and with those of each node.
    """

    base: AutoIntervals
    logarithms: Widths
    step_sizes: tuple[float, float]

    @property
    def coverage(self) -> float:  # type: ignore[override]
        """Share of the observations that the intervals should contain."""
        return self.base.coverage

    @classmethod
    def fit(
        cls,
        residuals: Residuals,
        coverage: float = 0.9,
        *,
        scale: Scales | None = None,
        context: Context | None = None,
        base: str = AUTO,
        step_size: float = 0.1,
        node_step_size: float = 0.02,
    ) -> TrackedIntervals:
        """Learn the intervals to start with.

        Args:
            residuals: Observed minus forecast on the held-out steps. NaN if not observed.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            scale: Units in which nodes are comparable, one row per node or one for all.
            context: What was known when these forecasts were made.
            base: The method: `"conformal"`, `"normalized"`, `"counts"`, or `"auto"` to choose one.
            step_size: How fast factors move with the share of misses over all nodes.
            node_step_size: How fast the factor of a node moves with its own misses.
        """
        if base not in (AUTO, *METHODS):
            raise InputError(f"Expected base to be one of {', '.join((AUTO, *METHODS))}, got {base!r}.")
        for name, size in (("step_size", step_size), ("node_step_size", node_step_size)):
            check_finite(**{name: size})
            if size < 0:
                raise InputError(f"Expected {name} to be at least 0, got {size}.")
        if base == AUTO:
            made = AutoIntervals.fit(residuals, coverage, scale=scale, context=context)
        else:
            made = AutoIntervals.of(base, residuals, coverage, scale=scale, context=context)
        return cls(made, np.zeros(residuals.shape[1:]), (step_size, node_step_size))

    def apply(self, forecast: Forecast, context: Context | None = None) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        low, high = self.base.apply(forecast, context)
        factors = np.exp(self.logarithms)
        return forecast - factors * (forecast - low), forecast + factors * (high - forecast)

    def follow(self, forecasts: Residuals, observed: Residuals, context: Context) -> TrackedIntervals:
        """Return the intervals after newer steps were observed.

        A step is observed after it was forecast by several windows: by the last one as the first step of the horizon,
        by the one before as the second, and so on. Each interval is as it was when its window was forecast.
        """
        ends = self.base.apply(forecasts, context)
        below, above = forecasts - ends[0], ends[1] - forecasts
        errors = observed - forecasts
        horizon = errors.shape[1]
        logarithms = self.logarithms.copy()
        is_missed = np.full(errors.shape, np.nan)
        for origin in range(len(errors)):
            factors = np.exp(logarithms)
            missed = (errors[origin] > factors * above[origin]) | (-errors[origin] > factors * below[origin])
            is_missed[origin] = np.where(np.isnan(errors[origin]), np.nan, missed)
            for ahead in range(min(origin + 1, horizon)):
                logarithms[ahead] += self._moves(is_missed[origin - ahead, ahead])
            np.clip(logarithms, -LARGEST_LOGARITHM, LARGEST_LOGARITHM, out=logarithms)
        return replace(self, logarithms=logarithms)

    def at(self, coverage: float) -> TrackedIntervals:
        """Return the intervals for another coverage, times the factors that were found at this one."""
        return replace(self, base=self.base.at(coverage))

    def _moves(self, is_missed: np.ndarray) -> np.ndarray:
        """Return how far the logarithms of one step of the horizon move."""
        excess = is_missed - (1 - self.coverage)
        is_known = ~np.isnan(excess)
        count = is_known.sum(axis=0)
        of_all = np.where(is_known, excess, 0.0).sum(axis=0) / np.maximum(count, 1)
        quick, slow = self.step_sizes
        return np.asarray(quick * of_all + slow * np.where(is_known, excess, 0.0))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the factors, and the arrays of the method."""
        own = {"logarithms": self.logarithms, "step_sizes": np.array(self.step_sizes)}
        return own | self.base.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> TrackedIntervals:
        """Make the intervals again."""
        others = {name: array for name, array in arrays.items() if name not in ("logarithms", "step_sizes")}
        quick, slow = (float(size) for size in arrays["step_sizes"])
        return cls(AutoIntervals.from_arrays(others, coverage), arrays["logarithms"], (quick, slow))

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what the factors and the arrays of the method must be."""
        own = {"logarithms": Stored("f", sizes), "step_sizes": Stored("f", (2,), lowest=0)}
        return own | AutoIntervals.stored_as(arrays, sizes)
