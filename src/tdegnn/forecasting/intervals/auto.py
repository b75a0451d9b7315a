"""The default intervals: the method that is best on the last third of the held-out windows, learned from the others.

Best is the lowest mean interval score, so that narrow intervals count as much as those that hold. Counts with many
zeros have intervals of their own (`counts.py`). With few held-out windows, widths are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tdegnn.forecasting.intervals.base import (
    Context,
    Forecast,
    Intervals,
    Residuals,
    Scales,
    Stored,
    apply_intervals,
    check_residuals,
    check_scale,
    with_context,
)
from tdegnn.forecasting.intervals.counts import CountIntervals, are_zero_heavy_counts
from tdegnn.forecasting.intervals.coverage import interval_score
from tdegnn.forecasting.intervals.fixed import ConformalIntervals
from tdegnn.forecasting.intervals.normalized import NormalizedIntervals

FIXED, NORMALIZED, COUNTS = "conformal", "normalized", "counts"
METHODS: dict[str, type[Intervals]] = {
    FIXED: ConformalIntervals,
    NORMALIZED: NormalizedIntervals,
    COUNTS: CountIntervals,
}
# Held-out windows from which a method is chosen, and the share of them that it is not learned from.
FEWEST_TO_CHOOSE, SHARE_TO_CHECK = 30, 1 / 3


@dataclass(frozen=True, eq=False)
class AutoIntervals(Intervals):
    """Intervals of the method that was chosen, made by `AutoIntervals.fit`.

    Attributes:
        method: The name of the method.
        chosen: Its intervals.
    """

    method: str
    chosen: Intervals

    @property
    def coverage(self) -> float:  # type: ignore[override]
        """Share of the observations that the intervals should contain."""
        return self.chosen.coverage

    @classmethod
    def fit(
        cls,
        residuals: Residuals,
        coverage: float = 0.9,
        *,
        scale: Scales | None = None,
        context: Context | None = None,
    ) -> AutoIntervals:
        """Choose a method, and learn its intervals from all held-out windows.

        Args:
            residuals: Observed minus forecast on the held-out steps. NaN if not observed.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            scale: Units in which nodes are comparable, one row per node or one for all.
            context: What was known when these forecasts were made. Without it, widths are fixed.
        """
        method = _choose(check_residuals(residuals), coverage, scale, context)
        return cls.of(method, residuals, coverage, scale=scale, context=context)

    @classmethod
    def of(
        cls, method: str, residuals: Residuals, coverage: float, *, scale: Scales | None, context: Context | None
    ) -> AutoIntervals:
        """Learn the intervals of a given method."""
        kind = METHODS[method]
        return cls(method, kind.fit(residuals, coverage, scale=scale, **with_context(kind.fit, context)))

    def apply(self, forecast: Forecast, context: Context | None = None) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        return apply_intervals(self.chosen, forecast, context)

    def at(self, coverage: float) -> AutoIntervals:
        """Return the intervals for another coverage, of the same method."""
        return replace(self, chosen=self.chosen.at(coverage))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the chosen method, whose name is the first word of theirs."""
        return {f"{self.method}.{name}": array for name, array in self.chosen.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> AutoIntervals:
        """Make the intervals again."""
        method = _method_of(arrays)
        own = {name.removeprefix(f"{method}."): array for name, array in arrays.items()}
        return cls(method, METHODS[method].from_arrays(own, coverage))

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what the arrays of the chosen method must be."""
        method = _method_of(arrays)
        own = {name.removeprefix(f"{method}."): array for name, array in arrays.items()}
        stored = METHODS[method].stored_as(own, sizes)
        assert stored is not None
        return {f"{method}.{name}": each for name, each in stored.items()}


def _method_of(arrays: Mapping[str, np.ndarray]) -> str:
    words = {name.split(".")[0] for name in arrays}
    return next((method for method in METHODS if method in words), FIXED)


def split_windows(num_windows: int, horizon: int) -> tuple[slice, slice] | None:
    """Return windows to learn from, and later ones to check with. None if there are too few.

    The windows in between have steps in common with both.
    """
    first = num_windows - int(SHARE_TO_CHECK * num_windows)
    if num_windows < FEWEST_TO_CHOOSE or first - horizon + 1 < num_windows / 3:
        return None
    return slice(0, first - horizon + 1), slice(first, num_windows)


def _choose(residuals: Residuals, coverage: float, scale: Scales | None, context: Context | None) -> str:
    if context is None:
        return FIXED
    if are_zero_heavy_counts(residuals, context, coverage):
        return COUNTS
    split = split_windows(len(residuals), residuals.shape[1])
    candidates = (FIXED, NORMALIZED)
    if split is None or not _have_enough(residuals[split[0]], coverage, candidates):
        return FIXED
    learned, checked = split
    units = check_scale(scale, residuals)
    observed = context.forecasts[checked] + residuals[checked]
    scores = {}
    for method in candidates:
        made = AutoIntervals.of(method, residuals[learned], coverage, scale=scale, context=context[learned])
        low, high = made.apply(context.forecasts[checked], context[checked])
        each = interval_score(low, high, observed, coverage) / units
        scores[method] = np.nanmean(each) if not np.isnan(each).all() else np.inf
    return min(scores, key=lambda method: scores[method])


def _have_enough(residuals: Residuals, coverage: float, methods: Sequence[str]) -> bool:
    fewest = np.isfinite(residuals).sum(axis=(0, 2)).min()
    return bool(fewest >= max(METHODS[method].fewest(coverage) for method in methods))
