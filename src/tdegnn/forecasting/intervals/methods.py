"""The methods of intervals by name. A new one is a class in a file of its own, and a line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals.auto import METHODS, AutoIntervals, split_windows
from tdegnn.forecasting.intervals.base import (
    Context,
    Intervals,
    Residuals,
    Scales,
    Stored,
    apply_intervals,
    with_context,
)
from tdegnn.forecasting.intervals.coverage import CoverageReport, report_coverage
from tdegnn.forecasting.intervals.tracked import AUTO, TrackedIntervals
from tdegnn.parts import Family, PartLike

INTERVALS = Family("intervals", Intervals, {AUTO: AutoIntervals, **METHODS, "adaptive": TrackedIntervals})


def fit_intervals(
    method: PartLike, residuals: Residuals, coverage: float, scale: Scales, context: Context | None = None
) -> Intervals | None:
    """Learn intervals by a method of `INTERVALS`, or the user's own method. None if there are too few residuals.

    Other arguments are those of `Intervals.fit`. The context is given to methods that have an argument for it.
    """
    kind, settings = _resolve(method)
    if np.isfinite(residuals).sum(axis=(0, 2)).min() < kind.fewest(coverage):
        return None
    return kind.fit(residuals, coverage, scale=scale, **with_context(kind.fit, context), **settings)


class CheckedIntervals(NamedTuple):
    """Intervals around the last third of the held-out windows, learned from the others.

    Attributes:
        windows: The places of these windows.
        low: Their lower ends.
        high: Their upper ends.
        report: How often they contain what was observed.
    """

    windows: slice
    low: Residuals
    high: Residuals
    report: CoverageReport


def check_held_out(
    method: PartLike, residuals: Residuals, coverage: float, scale: Scales, context: Context, nodes: Sequence[str]
) -> CheckedIntervals | None:
    """Return intervals around the last third of the held-out windows, learned from the others, and their coverage.

    None if there are too few windows. Intervals do not follow what is observed in between.

    Args:
        method: See `fit_intervals`. If a method was chosen, give its name: see `chosen_method`.
        residuals: See `Intervals.fit`.
        coverage: See `Intervals.fit`.
        scale: See `Intervals.fit`.
        context: What was known when these forecasts were made.
        nodes: Names of the nodes.
    """
    split = split_windows(len(residuals), residuals.shape[1])
    if split is None:
        return None
    learned, checked = split
    intervals = fit_intervals(method, residuals[learned], coverage, scale, context[learned])
    if intervals is None or np.isnan(residuals[checked]).all():
        return None
    forecasts, known = context.forecasts[checked], context[checked]
    low, high = apply_intervals(intervals, forecasts, known)
    observed = forecasts + residuals[checked]
    report = report_coverage(low, high, observed, coverage, nodes=nodes, hours=known.hours)
    return CheckedIntervals(checked, low, high, report)


def chosen_method(method: PartLike, intervals: Intervals) -> PartLike:
    """Return the method that was chosen for intervals, by name, or the given one if there was no choice."""
    chosen = intervals.base if isinstance(intervals, TrackedIntervals) else intervals
    return chosen.method if isinstance(chosen, AutoIntervals) else method


def name_of(method: PartLike, intervals: Intervals) -> str:
    """Return the name of the method of intervals, for a report: if it was chosen, what was chosen."""
    name, chosen = INTERVALS.name_of(method), INTERVALS.name_of(chosen_method(method, intervals))
    return name if name == chosen else f"{name}: {chosen}"


def check_intervals(method: PartLike) -> None:
    """Raise an `InputError` for what is no method, and for a setting that it does not have."""
    _resolve(method)


def read_intervals(method: PartLike, arrays: Mapping[str, np.ndarray], coverage: float) -> Intervals:
    """Make intervals from the arrays in a run folder."""
    return _resolve(method)[0].from_arrays(arrays, coverage)


def stored_as(
    method: PartLike, arrays: Mapping[str, np.ndarray], sizes: tuple[int, int, int]
) -> dict[str, Stored] | None:
    """Return what the arrays in a run folder must be. None if that is up to the user's own method."""
    return _resolve(method)[0].stored_as(arrays, sizes)


def _resolve(method: PartLike) -> tuple[type[Intervals], dict[str, Any]]:
    part = INTERVALS.resolve(method)
    if not isinstance(part.kind, type):
        raise InputError(f"Expected intervals to be a name or a class, got {part.kind!r}. Pass a class of Intervals.")
    kind: type[Intervals] = part.kind
    part.check_settings(kind.fit)
    return kind, part.settings
