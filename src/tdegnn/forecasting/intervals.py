"""Intervals around forecasts, learned from the errors of forecasts on the held-out steps.

`INTERVALS` lists the methods by name; a new one is a class and a line in this file. `ConformalIntervals` is split
conformal prediction: of n absolute residuals the k-th smallest, `k = ceil((n + 1) coverage)`, is the half width that
holds the next one with a chance of at least `coverage`, whatever the forecaster, as long as the future is like the
held-out steps (they are exchangeable). If it is not, `AdaptiveIntervals` moves the level after each step (Gibbs &
Candes, 2021). Missing values (NaN) do not count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from tdegnn.errors import InputError, check_finite
from tdegnn.parts import Family, PartLike

Per = Literal["node", "all"]
Residuals: TypeAlias = Float[np.ndarray, "steps horizon nodes targets"]
Widths: TypeAlias = Float[np.ndarray, "horizon nodes targets"]
Forecast: TypeAlias = Float[np.ndarray, "*windows horizon nodes targets"]

# (n + 1) coverage that is whole must not become the next whole number by rounding.
ROUNDING = 1e-9


class Intervals(ABC):
    """Intervals that a method learned from residuals.

    Attributes:
        coverage: Share of the observations that the intervals should contain.
    """

    coverage: float

    @classmethod
    @abstractmethod
    def fit(
        cls, residuals: Residuals, coverage: float = 0.9, *, scale: Float[np.ndarray, "rows targets"] | None = None
    ) -> Intervals:
        """Learn from forecasts of steps that the forecaster was not trained on.

        Settings of a method are further arguments, with defaults: `Part("conformal", per="all")` sets one.

        Args:
            residuals: Observed minus forecast on the held-out steps. NaN if not observed.
            coverage: Share of the observations that the intervals should contain, between 0 and 1.
            scale: Units in which nodes are comparable, one row per node or one for all.
        """

    @abstractmethod
    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that a run folder must store, in addition to the coverage."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> Intervals:
        """Make the intervals from the arrays of `to_arrays`."""

    @classmethod
    def fewest(cls, coverage: float) -> int:
        """Return the number of residuals that each step of the horizon and each target need, over all nodes."""
        return fewest_residuals(coverage)


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
        scale: Float[np.ndarray, "rows targets"] | None = None,
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
        _check_coverage(coverage)
        if per not in get_args(Per):
            raise InputError(f"Expected per to be 'node' or 'all', got {per!r}.")
        absolute = _check_residuals(residuals)
        units = _check_scale(scale, absolute)
        pooled = np.moveaxis(absolute / units, 2, 1)  # (steps, nodes, horizon, targets)
        pooled_widths = _finite_sample_quantile(pooled.reshape(-1, *pooled.shape[2:]), coverage)
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
        of_nodes = _finite_sample_quantile(absolute, coverage)
        is_pooled = np.isinf(of_nodes)
        return cls(np.where(is_pooled, of_all, of_nodes), coverage, is_pooled)

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        return _apply(self.widths, forecast)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the widths, and which of them are pooled."""
        return {"widths": self.widths, "is_pooled": self.is_pooled}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> ConformalIntervals:
        """Make the intervals again. Arrays of earlier versions do not say which widths are pooled."""
        widths = arrays["widths"]
        return cls(widths, coverage, arrays.get("is_pooled", np.zeros(widths.shape, dtype=bool)))


INTERVALS = Family("intervals", Intervals, {"conformal": ConformalIntervals})


def fit_intervals(
    method: PartLike, residuals: Residuals, coverage: float, scale: Float[np.ndarray, "rows targets"]
) -> Intervals | None:
    """Learn intervals by a method of `INTERVALS`, or the user's own method. None if there are too few residuals.

    Other arguments are those of `Intervals.fit`.
    """
    kind, settings = _resolve(method)
    if np.isfinite(residuals).sum(axis=(0, 2)).min() < kind.fewest(coverage):
        return None
    return kind.fit(residuals, coverage, scale=scale, **settings)


def check_intervals(method: PartLike) -> None:
    """Raise an `InputError` for what is no method, and for a setting that it does not have."""
    _resolve(method)


def read_intervals(method: PartLike, arrays: Mapping[str, np.ndarray], coverage: float) -> Intervals:
    """Make intervals from the arrays in a run folder."""
    return _resolve(method)[0].from_arrays(arrays, coverage)


def _resolve(method: PartLike) -> tuple[type[Intervals], dict[str, Any]]:
    part = INTERVALS.resolve(method)
    if not isinstance(part.kind, type):
        raise InputError(f"Expected intervals to be a name or a class, got {part.kind!r}. Pass a class of Intervals.")
    kind: type[Intervals] = part.kind
    part.check_settings(kind.fit)
    return kind, part.settings


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
        _check_coverage(coverage)
        check_finite(step_size=step_size)
        if step_size <= 0:
            raise InputError(f"Expected a positive step_size, got {step_size}.")
        absolute = _check_residuals(residuals)
        if not len(absolute):
            raise InputError("Expected the residuals of at least one held-out step, got none.")
        return cls(absolute, np.full(absolute.shape[1:], 1 - coverage), coverage, step_size)

    @property
    def widths(self) -> Widths:
        """Half of the width of each interval. Infinite for a series without observed values."""
        num_observed = (~np.isnan(self.residuals)).sum(axis=0)
        # The largest residual serves every level above zero. Otherwise few residuals would make all intervals infinite.
        rank = np.minimum(_rank(num_observed, 1 - self.levels), num_observed)
        is_unbounded = (self.levels <= 0) | (num_observed == 0)
        return np.asarray(np.where(is_unbounded, np.inf, _smallest(self.residuals, rank)))

    def apply(self, forecast: Forecast) -> tuple[Forecast, Forecast]:
        """Return the lower and the upper end of the interval around each forecast."""
        return _apply(self.widths, forecast)

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


def measure_coverage(
    low: Float[np.ndarray, "*shape"], high: Float[np.ndarray, "*shape"], observed: Float[np.ndarray, "*shape"]
) -> float:
    """Return the share of observed values between `low` and `high`, both included."""
    if not low.shape == high.shape == observed.shape:
        raise InputError(
            f"Expected ends of intervals and observed values of one shape, got {low.shape}, {high.shape} and "
            f"{observed.shape}."
        )
    is_observed = ~np.isnan(observed)
    if not is_observed.any():
        raise InputError(f"Expected at least one observed value, got none among {observed.size}.")
    return float(((low <= observed) & (observed <= high))[is_observed].mean())


def fewest_residuals(coverage: float) -> int:
    """Return the number of residuals that a finite interval needs: 9 for 90 %, 19 for 95 %."""
    _check_coverage(coverage)
    return ceil(coverage / (1 - coverage) - ROUNDING)


def _finite_sample_quantile(
    absolute: Float[np.ndarray, steps * series], coverage: float
) -> Float[np.ndarray, "*series"]:
    """Return the `ceil((n + 1) coverage)`-th smallest of the n that are not NaN. Infinite if there are too few."""
    num_observed = (~np.isnan(absolute)).sum(axis=0)
    return _smallest(absolute, _rank(num_observed, np.full(num_observed.shape, coverage)))


def _rank(
    num_observed: Int[np.ndarray, "*series"], coverage: Float[np.ndarray, "*series"]
) -> Int[np.ndarray, "*series"]:
    return np.asarray(np.ceil((num_observed + 1) * coverage - ROUNDING), dtype=np.int64)


def _smallest(
    absolute: Float[np.ndarray, steps * series], rank: Int[np.ndarray, "*series"]
) -> Float[np.ndarray, "*series"]:
    """Return the rank-th smallest along the first axis, without NaN: zero for rank 0, infinite if there are too few."""
    ordered = np.sort(np.where(np.isnan(absolute), np.inf, absolute), axis=0)
    ends = np.zeros((1, *rank.shape)), np.full((1, *rank.shape), np.inf)
    ordered = np.concatenate([ends[0], ordered, ends[1]])
    return np.asarray(np.take_along_axis(ordered, np.clip(rank, 0, len(ordered) - 1)[None], axis=0)[0])


def _apply(widths: Widths, forecast: Forecast) -> tuple[Forecast, Forecast]:
    if forecast.shape[-3:] != widths.shape:
        raise InputError(
            f"Expected forecasts of shape (..., horizon, nodes, targets) = (..., {str(widths.shape)[1:]}, for which "
            f"the widths were learned, got {forecast.shape}."
        )
    return forecast - widths, forecast + widths


def _check_coverage(coverage: float) -> None:
    check_finite(coverage=coverage)
    if not 0 < coverage < 1:
        raise InputError(f"Expected a coverage between 0 and 1, got {coverage}. 0.9 stands for 90 %.")


def _check_residuals(residuals: Residuals) -> Residuals:
    if residuals.ndim != 4:
        raise InputError(f"Expected residuals of shape (steps, horizon, nodes, targets), got {residuals.shape}.")
    if np.isinf(residuals).any():
        raise InputError("Expected finite residuals, or NaN for what was not observed, got infinity.")
    return np.asarray(np.abs(residuals))


def _check_scale(
    scale: Float[np.ndarray, "rows targets"] | None, residuals: Residuals
) -> Float[np.ndarray, "nodes targets"]:
    _, _, num_nodes, num_targets = residuals.shape
    if scale is None:
        return np.ones((num_nodes, num_targets))
    if scale.shape not in ((num_nodes, num_targets), (1, num_targets)) or not (scale > 0).all():
        raise InputError(
            f"Expected a positive scale of shape ({num_nodes} nodes or 1, {num_targets} targets), got shape "
            f"{scale.shape} with values from {scale.min():g}."
        )
    return np.broadcast_to(scale, (num_nodes, num_targets))
