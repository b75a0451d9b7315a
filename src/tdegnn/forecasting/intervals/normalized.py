"""Intervals that are wide where forecasts are difficult: conformal prediction with scaled, signed residuals.

Residuals above and below the forecast have a scale each (`scale.py`), and a quantile of the scaled residuals of all
nodes. Each block of held-out windows is scaled by weights learned from the others (cross-conformal), so that quantiles
know how well the scale fits windows it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

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
    check_scale,
    each_side,
    fewest_residuals,
    finite_levels,
    finite_sample_quantiles,
    levels_stored,
    need_context,
)
from tdegnn.forecasting.intervals.scale import Difficulty, FeatureRange, count_features, fit_log_linear, scale_loss

# Blocks of held-out windows at most, and how many windows each has at least.
NUM_BLOCKS, FEWEST_PER_BLOCK = 16, 2
# Fewer, larger blocks choose the penalty.
NUM_CHOICE_BLOCKS = 5
# Rows to learn the weights of one step from at most: more take time and change nothing.
MOST_ROWS = 3000
# Residuals below, and above the forecast.
SIGNS = (-1, 1)
# Weights of the penalty to choose from.
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)

# Standardized features, and sizes of residuals on one side. NaN if not observed.
Task: TypeAlias = tuple[Float[np.ndarray, "windows nodes columns"], Float[np.ndarray, "windows nodes"]]


@dataclass(frozen=True, eq=False)
class NormalizedIntervals(Intervals):
    """Intervals whose ends depend on what is known when a forecast is made, made by `NormalizedIntervals.fit`.

    Attributes:
        difficulty: The features of a forecast.
        ranges: Range, center and spread of each feature, by step of the horizon and target.
        weights: Weights of the scale below and above the forecast.
        quantiles: Quantiles of the scaled residuals below and above the forecast.
        coverage: Share of the observations that the intervals should contain.
        at_levels: The quantiles at other coverages, the first of `LEVELS`. None if an earlier version stored them.
    """

    difficulty: Difficulty
    ranges: Float[np.ndarray, "4 horizon targets features"]
    weights: Float[np.ndarray, "2 horizon targets columns"]
    quantiles: Float[np.ndarray, "2 horizon targets"]
    coverage: float
    at_levels: Float[np.ndarray, "levels 2 horizon targets"] | None = None

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
        num_features, recent = difficulty.num_features, difficulty.look_back(known)
        ranges = np.empty((4, horizon, num_targets, num_features))
        weights = np.empty((2, horizon, num_targets, num_features + 1))
        sides = [each_side(level) for level in (coverage, *LEVELS)]
        quantiles = np.empty((len(sides), 2, horizon, num_targets))

        def tasks_of(step: int, target: int) -> list[Task]:
            features = difficulty.features(step, known.forecasts, known, recent)[:, :, target]
            ranges[:, step, target] = FeatureRange.of(features)
            rows = FeatureRange(*ranges[:, step, target]).standardize(features)
            errors = residuals[:, step, :, target] / units[:, target]
            return [(rows, np.maximum(sign * errors, 0)) for sign in SIGNS]

        for target in range(num_targets):
            penalty = PENALTIES[0]
            # Windows of a part of the day cannot tell how a scale fits the rest of it.
            if not known.seasons or len(known) >= known.seasons[0].period:
                tasks = [task for step in {0, horizon - 1} for task in tasks_of(step, target)]
                penalty = _choose_penalty(tasks, horizon)
            for step in range(horizon):
                for side, (rows, sizes) in enumerate(tasks_of(step, target)):
                    weights[side, step, target] = fit_log_linear(*_known(rows, sizes, np.arange(len(sizes))), penalty)
                    scores = _cross_scores(rows, sizes, horizon, penalty, weights[side, step, target])
                    quantiles[:, side, step, target] = finite_sample_quantiles(scores.reshape(-1), sides)
        if np.isinf(quantiles[0]).any():
            raise InputError(
                f"Expected at least {cls.fewest(coverage)} observed residuals for a coverage of {coverage:g} at each "
                "step of the horizon, got fewer. Hold out more steps, or lower the coverage."
            )
        return cls(difficulty, ranges, weights, quantiles[0], coverage, finite_levels(quantiles[1:]))

    def apply(self, forecast: Forecast, context: Context | None = None) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        known = need_context(context)
        horizon, num_targets = self.quantiles.shape[1:]
        num_nodes = len(self.difficulty.units)
        check_forecasts(forecast, (horizon, num_nodes, num_targets))
        forecasts = forecast.reshape(-1, *forecast.shape[-3:])
        ends, recent = np.empty((2, *forecasts.shape)), self.difficulty.look_back(known)
        for step in range(horizon):
            features = self.difficulty.features(step, forecasts, known, recent)
            for target in range(num_targets):
                rows = FeatureRange(*self.ranges[:, step, target]).standardize(features[:, :, target])
                for side, sign in enumerate(SIGNS):
                    width = np.exp(rows @ self.weights[side, step, target]) * self.quantiles[side, step, target]
                    ends[side, :, step, :, target] = sign * width * self.difficulty.units[:, target]
        low, high = ends.reshape(2, *forecast.shape)
        return forecast + low, forecast + high

    def at(self, coverage: float) -> Intervals:
        """Return the intervals for another coverage."""
        if coverage == self.coverage or self.at_levels is None:
            return super().at(coverage)
        quantiles = between_levels(self.at_levels, self.quantiles, self.coverage, coverage)
        return replace(self, quantiles=quantiles, coverage=coverage)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything that was learned."""
        parts = {field.name: np.array(getattr(self.difficulty, field.name)) for field in fields(Difficulty)}
        others = {} if self.at_levels is None else {AT_LEVELS: self.at_levels}
        return parts | {"ranges": self.ranges, "weights": self.weights, "quantiles": self.quantiles} | others

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> NormalizedIntervals:
        """Make the intervals again."""
        *parts, num_waves = (arrays[field.name] for field in fields(Difficulty))
        units, level, sizes, changes = parts
        difficulty = Difficulty(units, level, sizes, changes, int(num_waves))
        ranges, weights, quantiles = (arrays[name] for name in ("ranges", "weights", "quantiles"))
        return cls(difficulty, ranges, weights, quantiles, coverage, arrays.get(AT_LEVELS))

    @classmethod
    def stored_as(cls, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]) -> dict[str, Stored]:
        """Return what each array must be. The number of phases is that of the folder."""
        horizon, num_nodes, num_targets = sizes
        num_phases = len(arrays["changes"]) if np.ndim(arrays.get("changes", 0)) else 0
        waves = arrays.get("num_waves")
        # A wrong number makes shapes of which none fits.
        num_features = count_features(num_phases, int(waves) if waves is not None and waves.shape == () else 0)
        of_nodes = (num_nodes, num_targets)
        return {
            "units": Stored("f", of_nodes, lowest=np.nextafter(0, 1)),
            "level": Stored("f", of_nodes),
            "sizes": Stored("f", of_nodes),
            "changes": Stored("f", (num_phases, *sizes)),
            "num_waves": Stored("i", (), lowest=0),
            "ranges": Stored("f", (4, horizon, num_targets, num_features)),
            "weights": Stored("f", (2, horizon, num_targets, num_features + 1)),
            "quantiles": Stored("f", (2, horizon, num_targets), lowest=0),
            **levels_stored(arrays, (2, horizon, num_targets)),
        }

    @classmethod
    def fewest(cls, coverage: float) -> int:
        """Return the number of residuals that each step of the horizon and each target need, over all nodes."""
        return fewest_residuals(each_side(coverage))


class _Block(NamedTuple):
    """Some of the held-out windows, and the others that their scale is learned from."""

    windows: Int[np.ndarray, " block"]
    others: Int[np.ndarray, " others"]


def _known(
    rows: Float[np.ndarray, "windows nodes columns"],
    sizes: Float[np.ndarray, "windows nodes"],
    windows: Int[np.ndarray, " some"],
) -> tuple[Float[np.ndarray, "rows columns"], Float[np.ndarray, " rows"]]:
    """Return features and observed sizes of some windows; of every second or third of them if there are many."""
    num_nodes = sizes.shape[1]
    places = (windows[:, None] * num_nodes + np.arange(num_nodes)).ravel()
    places = places[~np.isnan(sizes.ravel()[places])]
    places = places[:: max(1, -(-len(places) // MOST_ROWS))]
    return rows.reshape(-1, rows.shape[-1])[places], sizes.ravel()[places]


def _choose_penalty(tasks: list[Task], horizon: int) -> float:
    """Return the largest penalty whose scales fit windows as well as the best, that they were not learned from.

    As well means: within the standard error of the difference over the blocks.
    """
    losses = np.array([_losses_by_block(*task, horizon) for task in tasks]).mean(axis=0)  # (blocks, penalties)
    losses = losses[~np.isnan(losses).any(axis=1)]
    if len(losses) < 2:
        return PENALTIES[0]
    excess = losses - losses[:, [np.argmin(losses.mean(axis=0))]]
    is_as_good = excess.mean(axis=0) <= excess.std(axis=0, ddof=1) / np.sqrt(len(losses))
    return PENALTIES[int(np.argmax(is_as_good))]


def _losses_by_block(
    rows: Float[np.ndarray, "windows nodes columns"], sizes: Float[np.ndarray, "windows nodes"], horizon: int
) -> Float[np.ndarray, "blocks penalties"]:
    """Return how well scales fit each block for each penalty. NaN if nothing was observed in a block."""
    losses = []
    for windows, others in _blocks(sizes, horizon, NUM_CHOICE_BLOCKS):
        learned, seen = _known(rows, sizes, others), _known(rows, sizes, windows)
        weights = [fit_log_linear(*learned, penalty) for penalty in PENALTIES]
        losses.append([scale_loss(each, *seen) if len(seen[1]) else np.nan for each in weights])
    return np.array(losses)


def _cross_scores(
    rows: Float[np.ndarray, "windows nodes columns"],
    sizes: Float[np.ndarray, "windows nodes"],
    horizon: int,
    penalty: float,
    start: Float[np.ndarray, " columns"],
) -> Float[np.ndarray, "windows nodes"]:
    """Return sizes in units of a scale that was learned from other windows."""
    scores = np.full(sizes.shape, np.nan)
    for windows, others in _blocks(sizes, horizon, NUM_BLOCKS):
        weights = fit_log_linear(*_known(rows, sizes, others), penalty, start)
        scores[windows] = sizes[windows] / np.exp(rows[windows] @ weights)
    return scores


def _blocks(sizes: Float[np.ndarray, "windows nodes"], horizon: int, most_blocks: int) -> list[_Block]:
    """Return blocks of windows, each with others that have no step in common with it, if these are enough."""
    num_windows = len(sizes)
    num_blocks = min(most_blocks, num_windows // FEWEST_PER_BLOCK)
    everything = np.arange(num_windows)
    if num_blocks < 2:
        return [_Block(everything, everything)]
    blocks = []
    for windows in np.array_split(everything, num_blocks):
        choices = [_apart_from(windows, num_windows, gap) for gap in (horizon - 1, 0)] + [everything]
        others = next(each for each in choices if len(each) >= num_windows / 3 and not np.isnan(sizes[each]).all())
        blocks.append(_Block(windows, others))
    return blocks


def _apart_from(block: Int[np.ndarray, " block"], num_windows: int, gap: int) -> Int[np.ndarray, " others"]:
    before, after = max(int(block[0]) - gap, 0), min(int(block[-1]) + 1 + gap, num_windows)
    return np.concatenate([np.arange(before), np.arange(after, num_windows)])
