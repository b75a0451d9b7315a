"""Intervals of counts that hold among zeros and among positive counts: class-conditional conformal prediction.

Where most counts are zero, intervals that hold 90 % of all of them miss most positive ones: all zeros are already held.
Here zeros and positive counts have a quantile each. An interval leaves zero out if the forecast is higher than nine of
ten forecasts of what turned out to be zero. Its upper end is a quantile of the residuals of positive counts, in units
of a power of the forecast, which is learned (the square root if counts are Poisson).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.base import (
    AT_LEVELS,
    LEVELS,
    Context,
    Forecast,
    Intervals,
    Residuals,
    Scales,
    Stored,
    between_levels,
    check_coverage,
    check_forecasts,
    check_residuals,
    fewest_residuals,
    finite_levels,
    finite_sample_quantile,
    finite_sample_quantiles,
    levels_stored,
    need_context,
)
from tdegnn.forecasting.intervals.scale import FeatureRange, fit_log_linear

# Forecasts below this do not differ, and counts below it are zero.
LOWEST_RATE, ZERO = 0.05, 1e-3
# Share of zeros from which counts need intervals of their own, and up to which positive counts can be learned from.
SHARE_OF_ZEROS = (0.1, 0.98)


@dataclass(frozen=True, eq=False)
class CountIntervals(Intervals):
    """Intervals of counts, made by `CountIntervals.fit`.

    Attributes:
        limits: The highest forecast whose interval begins at zero, by step of the horizon and target.
        powers: Logarithm of the unit of residuals where the forecast is 1, and the power of the forecast.
        quantiles: Quantile of the residuals of positive counts in these units.
        smallest: The smallest positive count of each target.
        coverage: Share of the observations that the intervals should contain.
        at_levels: Limits and quantiles at other coverages, the first of `LEVELS`. None if an earlier version stored
            the intervals.
    """

    limits: Float[np.ndarray, "horizon targets"]
    powers: Float[np.ndarray, "2 horizon targets"]
    quantiles: Float[np.ndarray, "horizon targets"]
    smallest: Float[np.ndarray, " targets"]
    coverage: float
    at_levels: Float[np.ndarray, "levels 2 horizon targets"] | None = None

    @classmethod
    def fit(
        cls,
        residuals: Residuals,
        coverage: float = 0.9,
        *,
        scale: Scales | None = None,  # noqa: ARG003 (counts have a unit)
        context: Context | None = None,
    ) -> CountIntervals:
        """Learn from forecasts of steps that the forecaster was not trained on.

        Args:
            residuals: Observed minus forecast on the held-out steps. NaN if not observed.
            coverage: Share of the zeros, and of the positive counts, that the intervals should contain.
            scale: Not used: counts have a unit.
            context: What was known when these forecasts were made.

        Raises:
            InputError: There are negative values, or too few zeros or positive counts.
        """
        check_coverage(coverage)
        forecasts = need_context(context).forecasts
        observed = forecasts + check_residuals(residuals)
        if (observed < -ZERO).any():
            raise InputError(
                f"Expected counts, which are not negative, got {np.nanmin(observed):g}. Take other intervals."
            )
        _, horizon, _, num_targets = residuals.shape
        powers = np.empty((2, horizon, num_targets))
        coverages = (coverage, *LEVELS)
        learned = np.empty((len(coverages), 2, horizon, num_targets))
        for step in range(horizon):
            for target in range(num_targets):
                rates, counts = forecasts[:, step, :, target].ravel(), observed[:, step, :, target].ravel()
                is_zero, is_positive = np.abs(counts) < ZERO, counts >= ZERO
                learned[:, 0, step, target] = finite_sample_quantiles(rates[is_zero], coverages)
                errors = (counts - rates)[is_positive]
                powers[:, step, target] = _learn_power(rates[is_positive], np.abs(errors))
                units = _units(rates[is_positive], powers[:, step, target])
                for place, level in enumerate(coverages):
                    is_two_sided = rates[is_positive] > learned[place, 0, step, target]
                    scores = np.where(is_two_sided, np.abs(errors), np.maximum(errors, 0)) / units
                    learned[place, 1, step, target] = finite_sample_quantile(scores, level)
        if not np.isfinite(learned[0]).all():
            raise InputError(
                f"Expected at least {fewest_residuals(coverage)} zeros and as many positive counts at each step of the "
                "horizon, got fewer. Hold out more steps, or take other intervals."
            )
        smallest = np.array(
            [np.min(each[each >= ZERO], initial=1.0) for each in np.moveaxis(observed, -1, 0)], dtype=np.float64
        )
        limits, quantiles = learned[0]
        return cls(limits, powers, quantiles, smallest, coverage, finite_levels(learned[1:]))

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast, which lies in it."""
        horizon, num_targets = self.limits.shape
        check_forecasts(forecast, (horizon, forecast.shape[-2], num_targets))
        limits, quantiles, powers = self.limits[:, None], self.quantiles[:, None], self.powers[:, :, None]
        widths = quantiles * _units(forecast, powers)
        above_zero = np.maximum(forecast - widths, np.minimum(forecast, self.smallest))
        low = np.where(forecast > limits, above_zero, np.minimum(forecast, 0))
        return np.where(np.isnan(forecast), np.nan, low), forecast + widths

    def at(self, coverage: float) -> Intervals:
        """Return the intervals for another coverage."""
        if coverage == self.coverage or self.at_levels is None:
            return super().at(coverage)
        own = np.stack([self.limits, self.quantiles])
        limits, quantiles = between_levels(self.at_levels, own, self.coverage, coverage)
        return replace(self, limits=limits, quantiles=quantiles, coverage=coverage)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything that was learned."""
        others = {} if self.at_levels is None else {AT_LEVELS: self.at_levels}
        return {name: getattr(self, name) for name in ("limits", "powers", "quantiles", "smallest")} | others

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> CountIntervals:
        """Make the intervals again."""
        limits, powers, quantiles = (arrays[name] for name in ("limits", "powers", "quantiles"))
        return cls(limits, powers, quantiles, arrays["smallest"], coverage, arrays.get(AT_LEVELS))

    @classmethod
    def stored_as(
        cls,
        arrays: Mapping[str, np.ndarray],
        sizes: tuple[int, int, int],
    ) -> dict[str, Stored]:
        """Return what each array must be."""
        horizon, _, num_targets = sizes
        return {
            "limits": Stored("f", (horizon, num_targets)),
            "powers": Stored("f", (2, horizon, num_targets)),
            "quantiles": Stored("f", (horizon, num_targets), lowest=0),
            "smallest": Stored("f", (num_targets,), lowest=0),
            **levels_stored(arrays, (2, horizon, num_targets), lowest=-np.inf),
        }


def are_zero_heavy_counts(residuals: Residuals, context: Context, coverage: float) -> bool:
    """Return whether series are counts with many zeros, of which enough are held out."""
    history = context.history
    if history is None:
        return False
    values = history.values[..., : residuals.shape[-1]]
    known = values[~np.isnan(values)]
    if not len(known) or known.min() < 0 or (known != np.round(known)).any():
        return False
    observed = context.forecasts + residuals
    is_zero = np.abs(observed) < ZERO
    fewest = min(is_zero.sum(axis=(0, 2)).min(), (observed >= ZERO).sum(axis=(0, 2)).min())
    least, most = SHARE_OF_ZEROS
    return bool(least <= (known == 0).mean() <= most and fewest >= fewest_residuals(coverage))


def _learn_power(rates: Float[np.ndarray, " rows"], sizes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "2"]:
    """Return the logarithm of a unit and a power, such that residuals of counts are about `unit rate^power`."""
    if not len(rates):
        return np.array([0.0, 0.5])
    logarithms = np.log(np.maximum(rates, LOWEST_RATE))[:, None]
    fitted = FeatureRange.of(logarithms)
    constant, slope = fit_log_linear(fitted.standardize(logarithms), sizes)
    power = float(np.clip(slope / fitted.spread[0], 0.0, 1.0))
    return np.array([constant - power * fitted.center[0], power])


def _units(rates: Float[np.ndarray, "*shape"], powers: Float[np.ndarray, "2 *others"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(np.exp(powers[0] + powers[1] * np.log(np.maximum(rates, LOWEST_RATE))))
