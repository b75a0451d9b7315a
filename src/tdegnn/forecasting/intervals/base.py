"""What every method of intervals is: the base class, what a method may look at, and quantiles of finite samples.

Of n scores the k-th smallest, `k = ceil((n + 1) coverage)`, is not exceeded by the next one with a chance of at least
`coverage`, as long as the future is like the held-out steps (they are exchangeable). Missing values (NaN) do not count.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped

from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season, step_numbers
from tdegnn.errors import Argument, InputError, check_finite
from tdegnn.forecasting.frames import FrameMaker

Residuals: TypeAlias = Float[np.ndarray, "steps horizon nodes targets"]
Widths: TypeAlias = Float[np.ndarray, "horizon nodes targets"]
Forecast: TypeAlias = Float[np.ndarray, "*windows horizon nodes targets"]
Scales: TypeAlias = Float[np.ndarray, "rows targets"]

# (n + 1) coverage that is whole must not become the next whole number by rounding.
ROUNDING = 1e-9
# Maximum number of steps since the training from which intervals learn.
MOST_FOLLOWED = 1000
# Name of the argument of `fit` and `apply` that gets the context.
CONTEXT = "context"
# Coverages besides that of the training whose quantiles are learned and stored. Others are interpolated.
LEVELS = (*(round(0.05 * place, 2) for place in range(1, 20)), 0.975, 0.98, 0.99, 0.995)
# Name of the array of these quantiles in a run folder.
AT_LEVELS = "at_levels"

Quantiles: TypeAlias = Float[np.ndarray, "levels *shape"]


@dataclass(frozen=True, eq=False)
class Context:
    """What is known about some windows when they are forecast.

    Attributes:
        forecasts: The forecasts.
        past: The observed steps just before each window, oldest first. NaN if not observed.
        times: The time of each step that is forecast. Dates are local time, without a time zone.
        seasons: Seasons of the series, shortest first.
        step_length: Length of a step: in days if times are dates, else in units of the numbers.
        history: The steps that the forecaster learned from. None when intervals are applied.
    """

    forecasts: Float[np.ndarray, "windows horizon nodes targets"]
    past: Float[np.ndarray, "windows window nodes targets"]
    times: Shaped[np.ndarray, "windows horizon"]
    seasons: tuple[Season, ...]
    step_length: float
    history: Panel | None = None

    @classmethod
    def of(
        cls, panel: Panel, first_steps: range, forecasts: Residuals, maker: FrameMaker, history: Panel | None = None
    ) -> Context:
        """Return the context of windows of a panel, the last of which may forecast the steps after it.

        Args:
            panel: The series.
            first_steps: The first step of each window that is forecast.
            forecasts: The forecasts, in the units of the panel.
            maker: Makes the frames of the forecaster.
            history: The steps that the forecaster learned from.
        """
        times = panel.times.append(panel.future_times(maker.horizon))
        rows = np.asarray(first_steps)[:, None] + np.arange(maker.horizon)
        seasons = tuple(sorted(maker.seasons))
        # Views: copies of long windows would not fit into memory.
        views = np.lib.stride_tricks.sliding_window_view(panel.values[..., : panel.num_targets], maker.window, axis=0)
        past = np.moveaxis(views, -1, 1)[
            first_steps.start - maker.window : first_steps.stop - maker.window : first_steps.step
        ]
        return cls(forecasts, past, _wall_times(times)[rows], seasons, maker.step_length, history)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, windows: slice) -> Context:
        forecasts, past, times = self.forecasts[windows], self.past[windows], self.times[windows]
        return replace(self, forecasts=forecasts, past=past, times=times)

    @property
    def hours(self) -> Int[np.ndarray, "windows horizon"] | None:
        """The hour of the day of each step. None if times are no dates, or a step is a day or longer."""
        if self.times.dtype.kind != "M" or self.step_length >= 1:
            return None
        return np.asarray(pd.DatetimeIndex(self.times.ravel()).hour, dtype=np.int64).reshape(self.times.shape)

    def phases(self, season: Season) -> Float[np.ndarray, "windows horizon"]:
        """Return the elapsed share of a season at each step, from 0 to 1."""
        return phases_of(pd.Index(self.times.ravel()), season, self.step_length).reshape(self.times.shape)


def phases_of(times: pd.Index, season: Season, step_length: float) -> Float[np.ndarray, " time"]:
    """Return the elapsed share of a season at each time, from 0 to 1."""
    return np.asarray(step_numbers(times, step_length) / season.period % 1.0)


class Stored(NamedTuple):
    """What an array of a run folder must be: its type (`"f"`, `"b"`), its shape, and its lowest value."""

    kind: str
    shape: tuple[int, ...]
    lowest: float = -np.inf


class Intervals(ABC):
    """Intervals that a method learned from residuals.

    `fit` and `apply` may have one more argument, `context`: it then gets a `Context`.

    Attributes:
        coverage: Share of the observations that the intervals should contain.
    """

    coverage: float

    @classmethod
    @abstractmethod
    def fit(cls, residuals: Residuals, coverage: float = 0.9, *, scale: Scales | None = None) -> Intervals:
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

    def follow(self, forecasts: Residuals, observed: Residuals, context: Context) -> Intervals:  # noqa: ARG002
        """Return the intervals after newer steps were observed. By default they do not change.

        Args:
            forecasts: Forecasts of windows that begin one step apart, oldest first.
            observed: What was observed. NaN if not observed, or not yet.
            context: The context of these windows.
        """
        return self

    def at(self, coverage: float) -> Intervals:
        """Return the intervals for another coverage. Methods that know one coverage only raise an `InputError`."""
        if coverage == self.coverage:
            return self
        raise InputError(
            f"Expected a coverage of {self.coverage:g}, that of the training, got {coverage:g}: these intervals were "
            "learned for no other. Train again with ",
            Argument("coverage", coverage),
            ".",
        )

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that a run folder must store, in addition to the coverage."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], coverage: float) -> Intervals:
        """Make the intervals from the arrays of `to_arrays`."""

    @classmethod
    def stored_as(
        cls,
        arrays: Mapping[str, np.ndarray],  # noqa: ARG003
        sizes: tuple[int, int, int],  # noqa: ARG003
    ) -> dict[str, Stored] | None:
        """Return what the arrays of `to_arrays` must be, to check a run folder. None if anything may be there.

        Args:
            arrays: The arrays in the folder.
            sizes: Number of steps of the horizon, of nodes and of targets.
        """
        return None

    @classmethod
    def fewest(cls, coverage: float) -> int:
        """Return the number of residuals that each step of the horizon and each target need, over all nodes."""
        return fewest_residuals(coverage)


def with_context(function: Callable[..., Any], context: Context | None) -> dict[str, Context | None]:
    """Return the context as an argument, if a function has such an argument."""
    return {CONTEXT: context} if CONTEXT in inspect.signature(function).parameters else {}


def apply_intervals(intervals: Intervals, forecast: Forecast, context: Context | None) -> tuple[Forecast, Forecast]:
    """Return the ends of intervals, whether their method looks at the context or not."""
    ends: tuple[Forecast, Forecast] = intervals.apply(forecast, **with_context(intervals.apply, context))
    return ends


def can_follow(intervals: Intervals) -> bool:
    """Return whether the method of these intervals learns from newer steps."""
    return type(intervals).follow is not Intervals.follow


def follow_newer(
    intervals: Intervals, seen: Panel, first_steps: range, forecasts: Residuals, maker: FrameMaker
) -> Intervals:
    """Return intervals after the steps from `first_steps` to the end of a panel were observed.

    Args:
        intervals: The intervals as they were learned from the held-out steps.
        seen: The series up to now.
        first_steps: The steps observed since the training, one window each, up to the last one.
        forecasts: The forecast of each of these windows, in the units of the panel.
        maker: Makes the frames of the forecaster.
    """
    later = np.full((maker.horizon, seen.num_nodes, seen.num_targets), np.nan)
    observed = np.concatenate([seen.values[first_steps.start :, :, : seen.num_targets], later])
    rows = np.arange(len(first_steps))[:, None] + np.arange(maker.horizon)
    return intervals.follow(forecasts, observed[rows], Context.of(seen, first_steps, forecasts, maker))


def need_context(context: Context | None) -> Context:
    """Raise an `InputError` if there is no context."""
    if context is None:
        raise InputError("Expected a context for intervals that depend on it, got none. Make one with Context.of.")
    return context


def fewest_residuals(coverage: float) -> int:
    """Return the number of residuals that a finite interval needs: 9 for 90 %, 19 for 95 %."""
    check_coverage(coverage)
    return ceil(coverage / (1 - coverage) - ROUNDING)


def each_side(coverage: float) -> float:
    """Return the share of the observations that should be below the upper end, and above the lower end."""
    return (1 + coverage) / 2


def finite_sample_quantile(scores: Float[np.ndarray, steps * series], coverage: float) -> Float[np.ndarray, "*series"]:
    """Return the `ceil((n + 1) coverage)`-th smallest of the n that are not NaN. Infinite if there are too few."""
    return np.asarray(finite_sample_quantiles(scores, [coverage])[0])


def finite_sample_quantiles(scores: Float[np.ndarray, "steps *series"], coverages: Sequence[float]) -> Quantiles:
    """Return the finite sample quantile at each coverage. The scores are sorted once."""
    num_observed, ordered = np.asarray((~np.isnan(scores)).sum(axis=0)), _ordered(scores)
    ranks = [rank_of(num_observed, np.full(num_observed.shape, coverage)) for coverage in coverages]
    return np.stack([_pick(ordered, rank) for rank in ranks])


def finite_levels(quantiles: Quantiles) -> Float[np.ndarray, "kept *shape"]:
    """Return the quantiles at the first of `LEVELS`, up to the highest that the residuals suffice for."""
    is_finite = np.isfinite(quantiles.reshape(len(quantiles), -1)).all(axis=1)
    return quantiles if is_finite.all() else quantiles[: int(np.argmin(is_finite))]


def between_levels(
    at_levels: Quantiles, own: Float[np.ndarray, "*shape"], own_coverage: float, coverage: float
) -> Float[np.ndarray, "*shape"]:
    """Return quantiles at any coverage, interpolated between those that were learned. At 0 they are 0.

    Args:
        at_levels: The quantiles at the first of `LEVELS`.
        own: The quantiles at the coverage of the training.
        own_coverage: That coverage.
        coverage: The coverage asked for.

    Raises:
        InputError: The coverage is so high that there were too few held-out residuals for it.
    """
    check_coverage(coverage)
    learned = {0.0: np.zeros_like(own)} | dict(zip(LEVELS, at_levels, strict=False)) | {own_coverage: own}
    coverages = sorted(learned)
    if coverage > coverages[-1]:
        raise InputError(
            f"Expected a coverage of at most {coverages[-1]:g}, for which enough steps were held out, got "
            f"{coverage:g}. Lower it, or train on a longer series."
        )
    after = int(np.searchsorted(coverages, coverage))
    low, high = coverages[after - 1], coverages[after]
    # Intervals of a higher coverage contain those of a lower one, also if a node borrowed the quantile of all nodes.
    inner, outer = (np.max([learned[each] for each in coverages[: place + 1]], axis=0) for place in (after - 1, after))
    share = (coverage - low) / (high - low)
    return np.asarray((1 - share) * inner + share * outer)


def levels_stored(arrays: Mapping[str, np.ndarray], shape: tuple[int, ...], lowest: float = 0.0) -> dict[str, Stored]:
    """Return what the array of quantiles at other coverages must be. Earlier versions did not store one."""
    if AT_LEVELS not in arrays:
        return {}
    num_levels = min(len(np.atleast_1d(arrays[AT_LEVELS])), len(LEVELS))
    return {AT_LEVELS: Stored("f", (num_levels, *shape), lowest)}


def rank_of(
    num_observed: Int[np.ndarray, "*series"], coverage: Float[np.ndarray, "*series"]
) -> Int[np.ndarray, "*series"]:
    """Return which of the ordered scores is the quantile."""
    return np.asarray(np.ceil((num_observed + 1) * coverage - ROUNDING), dtype=np.int64)


def smallest(
    scores: Float[np.ndarray, steps * series], rank: Int[np.ndarray, "*series"]
) -> Float[np.ndarray, "*series"]:
    """Return the rank-th smallest along the first axis, without NaN: zero for rank 0, infinite if there are too few."""
    return _pick(_ordered(scores), rank)


def _ordered(scores: Float[np.ndarray, "steps *series"]) -> Float[np.ndarray, "steps_and_ends *series"]:
    """Return sorted scores, NaN as infinity, with a zero before and infinity after them."""
    ordered = np.sort(np.where(np.isnan(scores), np.inf, scores), axis=0)
    ends = np.zeros((1, *scores.shape[1:])), np.full((1, *scores.shape[1:]), np.inf)
    return np.concatenate([ends[0], ordered, ends[1]])


def _pick(
    ordered: Float[np.ndarray, "steps_and_ends *series"], rank: Int[np.ndarray, "*series"]
) -> Float[np.ndarray, "*series"]:
    return np.asarray(np.take_along_axis(ordered, np.clip(rank, 0, len(ordered) - 1)[None], axis=0)[0])


def check_coverage(coverage: float, what: str = "a coverage") -> None:
    """Raise an `InputError` unless the coverage, or another share, is between 0 and 1."""
    check_finite(coverage=coverage)
    if not 0 < coverage < 1:
        raise InputError(f"Expected {what} between 0 and 1, got {coverage}. 0.9 stands for 90 %.")


def check_residuals(residuals: Residuals) -> Residuals:
    """Raise an `InputError` for residuals that are not (steps, horizon, nodes, targets), or infinite."""
    if residuals.ndim != 4:
        raise InputError(f"Expected residuals of shape (steps, horizon, nodes, targets), got {residuals.shape}.")
    if np.isinf(residuals).any():
        raise InputError("Expected finite residuals, or NaN for what was not observed, got infinity.")
    return residuals


def check_scale(scale: Scales | None, residuals: Residuals) -> Float[np.ndarray, "nodes targets"]:
    """Return units with one row per node: ones if there are none."""
    _, _, num_nodes, num_targets = residuals.shape
    if scale is None:
        return np.ones((num_nodes, num_targets))
    if scale.shape not in ((num_nodes, num_targets), (1, num_targets)) or not (scale > 0).all():
        raise InputError(
            f"Expected a positive scale of shape ({num_nodes} nodes or 1, {num_targets} targets), got shape "
            f"{scale.shape} with values from {scale.min():g}."
        )
    return np.broadcast_to(scale, (num_nodes, num_targets))


def check_forecasts(forecast: Forecast, sizes: tuple[int, ...]) -> None:
    """Raise an `InputError` for forecasts of another horizon, or of other nodes, than intervals were learned for."""
    if forecast.shape[-3:] != sizes:
        raise InputError(
            f"Expected forecasts of shape (..., horizon, nodes, targets) = (..., {str(sizes)[1:]}, for which "
            f"the widths were learned, got {forecast.shape}."
        )


def _wall_times(times: pd.Index) -> Shaped[np.ndarray, " time"]:
    if isinstance(times, pd.DatetimeIndex) and times.tz is not None:
        times = times.tz_localize(None)  # hours follow the clocks
    return np.asarray(times.to_numpy())
