"""How large a residual is to be expected, from what is known when a forecast is made.

The expected size is log-linear in a few features: the usual size at the node, the spread of the last steps, how far the
forecast moves from the last value, its level, and how much the series usually changes at that phase of the season. Its
weights minimize the mean of `size / scale + log scale`, which is convex. Features are kept within the range of the
held-out steps, so that nothing is extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tdegnn.forecasting.intervals.base import Context, Residuals, phases_of

# Sizes below this share of the unit of a node do not differ.
FLOOR = 0.05
# Number of phases of a season at most, and how many observations the mean over all phases counts.
MOST_PHASES, PRIOR_COUNT = 48, 4.0
# Number of last steps whose spread is looked at.
MOST_RECENT = 12
# Number of waves of a season at most, as features.
MOST_WAVES = 2
# Share of the values of a feature that are cut at either end.
CUT = 0.005
MOST_ROUNDS, ENOUGH = 30, 1e-7
# Mean sizes below this are no sizes: forecasts are never too low, or never too high.
SMALLEST = 1e-12
# Far from overflow, whatever it is multiplied by.
LARGEST_EXPONENT = 300.0

Rows = Float[np.ndarray, "*rows features"]


class Recent(NamedTuple):
    """The logarithm of the spread of the last observed steps, and the last value. NaN if nothing was observed."""

    spread: Float[np.ndarray, "windows nodes targets"]
    last: Float[np.ndarray, "windows nodes targets"]


@dataclass(frozen=True, eq=False)
class Difficulty:
    """The features of a forecast from which the size of its residual is expected. Made by `Difficulty.fit`.

    Attributes:
        units: Units in which nodes are comparable.
        level: The mean of each series.
        sizes: Logarithm of the usual size of residuals at each node.
        changes: Logarithm of the usual change up to a step of the horizon, by phase of the shortest season. No phase if
            there is no season.
        num_waves: Number of waves of that season, of which sine and cosine are features. 0 unless the held-out windows
            cover a whole season.
    """

    units: Float[np.ndarray, "nodes targets"]
    level: Float[np.ndarray, "nodes targets"]
    sizes: Float[np.ndarray, "nodes targets"]
    changes: Float[np.ndarray, "phases horizon nodes targets"]
    num_waves: int

    @classmethod
    def fit(cls, residuals: Residuals, units: Float[np.ndarray, "nodes targets"], context: Context) -> Difficulty:
        """Learn what is usual at each node from the held-out steps and the history before them."""
        seen = context.past if context.history is None else context.history.values[..., : units.shape[1]]
        level = _mean(seen.reshape(-1, *units.shape), np.zeros(units.shape))
        absolute = np.abs(residuals) / units
        in_all = np.broadcast_to(_mean(absolute.reshape(-1, units.shape[1]), np.ones(units.shape[1])), units.shape)
        count = (~np.isnan(absolute)).any(axis=1).sum(axis=0)
        by_node = _mean(absolute.reshape(-1, *units.shape), in_all)
        sizes = (count * by_node + PRIOR_COUNT * in_all) / (count + PRIOR_COUNT)
        changes = _usual_changes(context, units, residuals.shape[1])
        is_covered = len(changes) > 0 and len(context) >= context.seasons[0].period
        num_waves = min(MOST_WAVES, context.seasons[0].num_waves) if is_covered else 0
        return cls(units, level, np.log(sizes + FLOOR), changes, num_waves)

    @property
    def num_features(self) -> int:
        """Number of features of each forecast."""
        return count_features(len(self.changes), self.num_waves)

    def look_back(self, context: Context) -> Recent:
        """Return what the last observed steps say, the same for all steps of the horizon."""
        past = context.past[:, -MOST_RECENT:] / self.units
        return Recent(np.log(_spread(past) + FLOOR), _last(past))

    def features(
        self, step: int, forecasts: Residuals, context: Context, recent: Recent
    ) -> Float[np.ndarray, "windows nodes targets features"]:
        """Return the features of the forecasts of one step of the horizon. NaN if nothing is known."""
        forecast = forecasts[:, step] / self.units
        distance = forecast - self.level / self.units
        columns = [
            np.broadcast_to(self.sizes, forecast.shape),
            recent.spread,
            np.log(np.abs(forecast - recent.last) + FLOOR),
            np.maximum(distance, 0),
            np.maximum(-distance, 0),
        ]
        if len(self.changes):
            phases = context.phases(context.seasons[0])[:, step]
            columns.append(self.changes[_bins(phases, len(self.changes)), step])
            angles = 2 * np.pi * np.outer(np.arange(1, self.num_waves + 1), phases)
            waves = [*np.sin(angles), *np.cos(angles)]
            columns += [np.broadcast_to(wave[:, None, None], forecast.shape) for wave in waves]
        return np.stack(columns, axis=-1)


def count_features(num_phases: int, num_waves: int) -> int:
    """Return the number of features of each forecast."""
    return 5 + (num_phases > 0) + 2 * num_waves


class FeatureRange(NamedTuple):
    """The range of each feature, and what it is standardized by."""

    low: Float[np.ndarray, " features"]
    high: Float[np.ndarray, " features"]
    center: Float[np.ndarray, " features"]
    spread: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, rows: Rows) -> FeatureRange:
        """Return the ranges of features in some rows."""
        known = rows.reshape(-1, rows.shape[-1])
        known = np.where(np.isfinite(known), known, _mean(np.where(np.isfinite(known), known, np.nan), np.zeros(1)))
        low, high = np.quantile(known, [CUT, 1 - CUT], axis=0)
        within = np.clip(known, low, high)
        spread = within.std(axis=0)
        return cls(low, high, within.mean(axis=0), np.where(spread > 1e-9, spread, 1.0))

    def standardize(self, rows: Rows) -> Float[np.ndarray, "*rows one_more"]:
        """Return a column of ones and the features, within their range. What is not known is at the center."""
        scaled = (np.clip(rows, self.low, self.high) - self.center) / self.spread
        return np.concatenate([np.ones((*rows.shape[:-1], 1)), np.nan_to_num(scaled)], axis=-1)


def fit_log_linear(
    rows: Float[np.ndarray, "rows columns"],
    sizes: Float[np.ndarray, " rows"],
    penalty: float = 0.0,
    start: np.ndarray | None = None,
) -> Float[np.ndarray, " columns"]:
    """Return the weights b that minimize the mean of `size exp(-x b) + x b` by Newton steps.

    Args:
        rows: Standardized features x, the first of which is one.
        sizes: Sizes that are not negative.
        penalty: Weight of the squares of all weights but the first, which keeps them small if little is known.
        start: Weights to start at, such as those for similar rows. If None, the sizes do not depend on features.
    """
    penalties = np.full(rows.shape[1], penalty)
    penalties[0] = 0.0
    weights = np.zeros(rows.shape[1])
    weights[0] = np.log(max(sizes.mean(), SMALLEST))
    if sizes.mean() <= SMALLEST:
        return weights
    weights = weights if start is None else start
    value = scale_loss(weights, rows, sizes) + penalties @ weights**2 / 2
    for _ in range(MOST_ROUNDS):
        ratio = sizes * np.exp(np.minimum(-rows @ weights, LARGEST_EXPONENT))
        slope = rows.T @ (1 - ratio) / len(rows) + penalties * weights
        curvature = (rows * ratio[:, None]).T @ rows / len(rows) + np.diag(penalties)
        move = np.linalg.lstsq(curvature, slope, rcond=None)[0]
        before = value
        for length in 0.5 ** np.arange(12):
            candidate = weights - length * move
            reached = scale_loss(candidate, rows, sizes) + penalties @ candidate**2 / 2
            if reached < value:
                weights, value = candidate, reached
                break
        if before - value < ENOUGH:
            break
    return weights


def scale_loss(
    weights: Float[np.ndarray, " columns"], rows: Float[np.ndarray, "rows columns"], sizes: Float[np.ndarray, " rows"]
) -> float:
    """Return the mean of `size / scale + log scale`, which is lowest for the true scale."""
    scores = rows @ weights
    return float((sizes * np.exp(np.minimum(-scores, LARGEST_EXPONENT)) + scores).mean())


def _usual_changes(
    context: Context, units: Float[np.ndarray, "nodes targets"], horizon: int
) -> Float[np.ndarray, "phases horizon nodes targets"]:
    """Return how much series change over the steps of the horizon, by phase of the shortest season, in logarithms."""
    if context.history is None or not context.seasons:
        return np.zeros((0, horizon, *units.shape))
    season = context.seasons[0]
    values = context.history.values[..., : units.shape[1]] / units
    num_phases = min(MOST_PHASES, int(np.ceil(season.period)))
    phases = _bins(phases_of(context.history.times, season, context.step_length), num_phases)
    usual = np.zeros((num_phases, horizon, *units.shape))
    for step in range(min(horizon, len(values) - 1)):
        change = np.abs(values[step + 1 :] - values[: -step - 1])
        usual[:, step] = np.log(_mean_by_phase(change, phases[step + 1 :], num_phases) + FLOOR)
    return usual


def _mean_by_phase(
    change: Float[np.ndarray, "time nodes targets"], phases: Int[np.ndarray, " time"], num_phases: int
) -> Float[np.ndarray, "phases nodes targets"]:
    """Return means by phase, each with its neighbors if phases are many, drawn to the mean over all phases."""
    is_known = ~np.isnan(change)
    total, count = np.zeros((2, num_phases, *change.shape[1:]))
    np.add.at(total, phases, np.where(is_known, change, 0.0))
    np.add.at(count, phases, is_known.astype(np.float64))
    if num_phases == MOST_PHASES:
        total, count = (each + np.roll(each, 1, axis=0) + np.roll(each, -1, axis=0) for each in (total, count))
    in_all = _mean(change, np.zeros(change.shape[1:]))
    return np.asarray((total + PRIOR_COUNT * in_all) / (count + PRIOR_COUNT))


def _bins(phases: Float[np.ndarray, " *shape"], num_phases: int) -> Int[np.ndarray, " *shape"]:
    # A phase that is 0.9999 by rounding must not be another one than 0.
    return np.asarray(np.floor(phases * num_phases + 1e-6), dtype=np.int64) % num_phases


def _mean(values: Float[np.ndarray, "rows *shape"], otherwise: np.ndarray) -> Float[np.ndarray, "*shape"]:
    """Return means of what is not NaN. Another value where nothing is known."""
    is_known = ~np.isnan(values)
    count = is_known.sum(axis=0)
    total = np.where(is_known, values, 0.0).sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), otherwise))


def _spread(past: Float[np.ndarray, "windows window nodes targets"]) -> Float[np.ndarray, "windows nodes targets"]:
    steps = np.moveaxis(past, 1, 0)
    unknown = np.full(steps.shape[1:], np.nan)
    return np.asarray(np.sqrt(_mean((steps - _mean(steps, unknown)) ** 2, unknown)))


def _last(past: Float[np.ndarray, "windows window nodes targets"]) -> Float[np.ndarray, "windows nodes targets"]:
    """Return the last observed value of each window. NaN if there is none."""
    last = past[:, 0]
    for step in range(1, past.shape[1]):
        last = np.where(np.isnan(past[:, step]), last, past[:, step])
    return np.asarray(last)
