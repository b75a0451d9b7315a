"""Adaptive conformal intervals as published (Gibbs & Candes, 2021): the level moves after each observed step.

They are no method of `Forecaster` but stand beside ours in the study of coverage: see `tracked.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tdegnn.errors import InputError, check_finite
from tdegnn.forecasting.intervals.base import (
    Forecast,
    Residuals,
    Widths,
    check_coverage,
    check_forecasts,
    check_residuals,
    rank_of,
    smallest,
)


@dataclass(frozen=True, eq=False)
class AdaptiveIntervals:
    """Intervals that learn from each step: too many misses make them wider, too few narrower.

    Each series and step of the horizon has its own share of misses it aims at, `a`, moved after each observed step by
    `step_size ((1 - coverage) - is_missed)`. So in the long run, whatever happens, the share of misses is
    `1 - coverage`: over T steps it is off by at most `(1 + step_size) / (step_size T)`. The width is the quantile of
    the newest residuals at `1 - a`. It is infinite if `a` is zero or less.

    Attributes:
        residuals: The newest absolute residuals, oldest first. Their number does not change.
        levels: The share of misses aimed at, a.
        coverage: Share of the observations that the intervals should contain.
        step_size: How fast levels move.
    """

    residuals: Residuals
    levels: Widths
    coverage: float
    step_size: float

    @classmethod
    def start(cls, residuals: Residuals, coverage: float = 0.9, step_size: float = 0.02) -> AdaptiveIntervals:
        """Begin with the residuals of the held-out steps.

        Args:
            residuals: See `ConformalIntervals.fit`. The same number of steps is kept from then on.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            step_size: How fast levels move, positive. A larger one follows changes faster, a smaller one is steadier.
        """
        check_coverage(coverage)
        check_finite(step_size=step_size)
        if step_size <= 0:
            raise InputError(f"Expected a positive step_size, got {step_size}.")
        absolute = np.abs(check_residuals(residuals))
        if not len(absolute):
            raise InputError("Expected the residuals of at least one held-out step, got none.")
        return cls(absolute, np.full(absolute.shape[1:], 1 - coverage), coverage, step_size)

    @property
    def widths(self) -> Widths:
        """Half of the width of each interval. Infinite for a series without observed values."""
        num_observed = (~np.isnan(self.residuals)).sum(axis=0)
        # The largest residual serves every level above zero. Otherwise few residuals would make all intervals infinite.
        rank = np.minimum(rank_of(num_observed, 1 - self.levels), num_observed)
        is_unbounded = (self.levels <= 0) | (num_observed == 0)
        return np.asarray(np.where(is_unbounded, np.inf, smallest(self.residuals, rank)))

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        check_forecasts(forecast, self.widths.shape)
        return forecast - self.widths, forecast + self.widths

    def update(self, residuals: Widths) -> AdaptiveIntervals:
        """Return the intervals after one more step.

        Args:
            residuals: The current observation minus its forecasts, one per step of the horizon. NaN, for values that
                were not observed, changes nothing.
        """
        if residuals.shape != self.levels.shape:
            raise InputError(
                f"Expected residuals of one step, of shape (horizon, nodes, targets) = {self.levels.shape}, got "
                f"{residuals.shape}."
            )
        absolute = np.abs(residuals)
        moves = self.step_size * ((1 - self.coverage) - (absolute > self.widths))
        levels = np.where(np.isnan(absolute), self.levels, self.levels + moves)
        newer = np.concatenate([self.residuals[1:], absolute[None]])
        return replace(self, residuals=np.where(np.isnan(absolute), self.residuals, newer), levels=levels)
