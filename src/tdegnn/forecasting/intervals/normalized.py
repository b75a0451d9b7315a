"""Intervals that are wide where forecasts are difficult: conformal prediction with scaled, signed residuals.

Residuals above and below the forecast have a scale each (`scale.py`), and a quantile of the scaled residuals of all
nodes. Each block of held-out windows is scaled by weights learned from the others (cross-conformal), so that quantiles
know how well the scale fits windows it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.base import (
    Context,
    Forecast,
    Intervals,
    Residuals,
    Scales,
    Stored,
    check_coverage,
    check_forecasts,
    check_residuals,
    check_scale,
    each_side,
    fewest_residuals,
    finite_sample_quantile,
    need_context,
)
from tdegnn.forecasting.intervals.scale import Difficulty, FeatureRange, fit_log_linear

# Blocks of held-out windows, and how many of them at least for intervals of this kind.
NUM_BLOCKS, FEWEST_PER_BLOCK = 8, 2
# Rows to learn the weights of one step from at most: more take time and change nothing.
MOST_ROWS = 6000
# Residuals below, and above the forecast.
SIGNS = (-1, 1)


@dataclass(frozen=True, eq=False)
class NormalizedIntervals(Intervals):
    """Intervals whose ends depend on what is known when a forecast is made, made by `NormalizedIntervals.fit`.

    Attributes:
        difficulty: The features of a forecast.
        ranges: Range, center and spread of each feature, by step of the horizon and target.
        weights: Weights of the scale below and above the forecast.
        quantiles: Quantiles of the scaled residuals below and above the forecast.
        coverage: Share of the observations that the intervals should contain.
    """

    difficulty: Difficulty
    ranges: Float[np.ndarray, "4 horizon targets features"]
    weights: Float[np.ndarray, "2 horizon targets columns"]
    quantiles: Float[np.ndarray, "2 horizon targets"]
    coverage: float

    @classmethod
    def fit(
        cls,
        residuals: Residuals,
        coverage: float = 0.9,
        *,
        scale: Scales | None = None,
        context: Context | None = None,
    ) -> NormalizedIntervals:
        """Learn scales and quantiles from forecasts of steps that the forecaster was not trained on.

        Args:
            residuals: Observed minus forecast on the held-out steps. NaN if not observed.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            scale: Units in which nodes are comparable, one row per node or one for all.
            context: What was known when these forecasts were made.
        """
        check_coverage(coverage)
        known = need_context(context)
        units = check_scale(scale, check_residuals(residuals))
        _, horizon, _, num_targets = residuals.shape
        difficulty = Difficulty.fit(residuals, units, known)
        num_features = difficulty.num_features
        ranges = np.empty((4, horizon, num_targets, num_features))
        weights = np.empty((2, horizon, num_targets, num_features + 1))
        quantiles = np.empty((2, horizon, num_targets))
        for step in range(horizon):
            features = difficulty.features(step, known.forecasts, known)
            for target in range(num_targets):
                fitted = FeatureRange.of(features[:, :, target])
                ranges[:, step, target] = fitted
                rows = fitted.standardize(features[:, :, target])
                for side, sign in enumerate(SIGNS):
                    sizes = np.maximum(sign * residuals[:, step, :, target] / units[:, target], 0)
                    weights[side, step, target] = _learn(rows, sizes)
                    scores = _cross_scores(rows, sizes, horizon)
                    quantiles[side, step, target] = finite_sample_quantile(scores.reshape(-1), each_side(coverage))
        if np.isinf(quantiles).any():
            raise InputError(
                f"Expected at least {cls.fewest(coverage)} observed residuals for a coverage of {coverage:g} at each "
                "step of the horizon, got fewer. Hold out more steps, or lower the coverage."
            )
        return cls(difficulty, ranges, weights, quantiles, coverage)

    def apply(self, forecast: Forecast, context: Context | None = None) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        known = need_context(context)
        horizon, num_targets = self.quantiles.shape[1:]
        num_nodes = len(self.difficulty.units)
        check_forecasts(forecast, (horizon, num_nodes, num_targets))
        forecasts = forecast.reshape(-1, *forecast.shape[-3:])
        ends = np.empty((2, *forecasts.shape))
        for step in range(horizon):
            features = self.difficulty.features(step, forecasts, known)
            for target in range(num_targets):
                rows = FeatureRange(*self.ranges[:, step, target]).standardize(features[:, :, target])
                for side, sign in enumerate(SIGNS):
                    width = np.exp(rows @ self.weights[side, step, target]) * self.quantiles[side, step, target]
                    ends[side, :, step, :, target] = sign * width * self.difficulty.units[:, target]
        low, high = ends.reshape(2, *forecast.shape)
        return forecast + low, forecast + high

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything that was learned."""
        parts = {field.name: getattr(self.difficulty, field.name) for field in fields(Difficulty)}
        return parts | {"ranges": self.ranges, "weights": self.weights, "quantiles": self.quantiles}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> NormalizedIntervals:
        """Make the intervals again."""
        difficulty = Difficulty(*(arrays[field.name] for field in fields(Difficulty)))
        return cls(difficulty, arrays["ranges"], arrays["weights"], arrays["quantiles"], coverage)

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what each array must be. The number of phases is that of the folder."""
        horizon, num_nodes, num_targets = sizes
        num_phases = len(arrays["changes"]) if np.ndim(arrays.get("changes", 0)) else 0
        num_features = 6 if num_phases else 5
        of_nodes = (num_nodes, num_targets)
        return {
            "units": Stored("f", of_nodes, lowest=np.nextafter(0, 1)),
            "level": Stored("f", of_nodes),
            "sizes": Stored("f", of_nodes),
            "changes": Stored("f", (num_phases, *sizes)),
            "ranges": Stored("f", (4, horizon, num_targets, num_features)),
            "weights": Stored("f", (2, horizon, num_targets, num_features + 1)),
            "quantiles": Stored("f", (2, horizon, num_targets), lowest=0),
        }

    @classmethod
    def fewest(cls, coverage: float) -> int:
        """Return the number of residuals that each step of the horizon and each target need, over all nodes."""
        return fewest_residuals(each_side(coverage))


def _learn(rows: Float[np.ndarray, "windows nodes columns"], sizes: Float[np.ndarray, "windows nodes"]) -> np.ndarray:
    """Return weights learned from the observed sizes, of some windows and nodes if there are many."""
    is_known = ~np.isnan(sizes)
    every = -(-int(is_known.sum()) // MOST_ROWS)
    return fit_log_linear(rows[is_known][:: max(every, 1)], sizes[is_known][:: max(every, 1)])


def _cross_scores(
    rows: Float[np.ndarray, "windows nodes columns"], sizes: Float[np.ndarray, "windows nodes"], horizon: int
) -> Float[np.ndarray, "windows nodes"]:
    """Return sizes in units of a scale that was learned from other windows, without steps in common if possible."""
    num_windows = len(sizes)
    num_blocks = min(NUM_BLOCKS, num_windows // FEWEST_PER_BLOCK)
    if num_blocks < 2:
        return np.asarray(sizes / np.exp(rows @ _learn(rows, sizes)))
    scores = np.empty(sizes.shape)
    for block in np.array_split(np.arange(num_windows), num_blocks):
        choices = [_apart_from(block, num_windows, gap) for gap in (horizon - 1, 0)] + [np.arange(num_windows)]
        others = next(each for each in choices if len(each) >= num_windows / 3 and not np.isnan(sizes[each]).all())
        scores[block] = sizes[block] / np.exp(rows[block] @ _learn(rows[others], sizes[others]))
    return scores


def _apart_from(block: Int[np.ndarray, " block"], num_windows: int, gap: int) -> Int[np.ndarray, " others"]:
    before, after = max(int(block[0]) - gap, 0), min(int(block[-1]) + 1 + gap, num_windows)
    return np.concatenate([np.arange(before), np.arange(after, num_windows)])
