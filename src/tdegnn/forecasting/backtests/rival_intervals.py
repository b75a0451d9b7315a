"""Intervals of the methods that a forecaster is compared with, learned and applied as those of the forecaster are.

The method is that of the forecaster, and so is what it may look at. The forecasts are those of the rival: on the
held-out steps to learn from, at the origins to put intervals around, and at the steps before each origin for intervals
that follow what was observed since the training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdegnn.data.panel import Panel
from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.forecasting.contenders.classical import observed_windows
from tdegnn.forecasting.contenders.contender import ContenderTask, FittedContender
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.intervals import Context, Intervals, apply_intervals, fit_intervals
from tdegnn.forecasting.intervals.base import MOST_FOLLOWED, can_follow, follow_newer
from tdegnn.parts import PartLike


@dataclass(frozen=True)
class IntervalRules:
    """How the forecaster makes its intervals.

    Attributes:
        method: The method, as in the settings of the forecaster.
        coverage: Share of the observations that intervals should contain.
        maker: Makes the frames of the forecaster.
        lowest: Lowest value of forecasts and intervals. None if there is none.
    """

    method: PartLike
    coverage: float
    maker: FrameMaker
    lowest: float | None

    def bound(self, values: Predictions) -> Predictions:
        """Return values that are not below the lowest one."""
        return values if self.lowest is None else np.maximum(values, self.lowest)


def intervals_around(
    values: Predictions, panel: Panel, firsts: range, fitted: FittedContender, task: ContenderTask, rules: IntervalRules
) -> tuple[Predictions, Predictions]:
    """Return the ends of the intervals around the forecasts of a rival. They are NaN if it has none.

    Args:
        values: The forecasts from all origins, bounded.
        panel: The series.
        firsts: The first target step of each origin.
        fitted: The rival.
        task: What it learned from.
        rules: How intervals are made.
    """
    intervals = _learn(fitted, task, rules)
    if intervals is None:
        missing = np.full(values.shape, np.nan)
        return missing, missing
    context = Context.of(panel, firsts, values, rules.maker)
    if not can_follow(intervals):
        low, high = apply_intervals(intervals, values, context)
        return rules.bound(low), high
    start = max(task.panel.num_steps, firsts[0] - MOST_FOLLOWED)
    newer = range(start, firsts[-1])
    # One forecast for each step, also if origins are further apart.
    forecasts = rules.bound(fitted.predict(panel, newer)) if newer else values[:0]
    ends = []
    for place, first in enumerate(firsts):
        steps = range(max(start, first - MOST_FOLLOWED), first)
        known = forecasts[steps.start - start : steps.stop - start]
        followed = follow_newer(intervals, panel[:first], steps, known, rules.maker) if steps else intervals
        one = slice(place, place + 1)
        ends.append(apply_intervals(followed, values[one], context[one]))
    low, high = (np.concatenate(each) for each in zip(*ends, strict=True))
    return rules.bound(low), high


def _learn(fitted: FittedContender, task: ContenderTask, rules: IntervalRules) -> Intervals | None:
    """Return intervals learned from the forecasts of the held-out windows. None if there are none, or too few."""
    if fitted.held_out is None:
        return None
    panel, firsts, forecasts = task.panel, task.held_out_firsts, rules.bound(fitted.held_out)
    residuals = observed_windows(panel, firsts, task.horizon) - forecasts
    context = Context.of(panel, firsts, forecasts, rules.maker, panel[: task.split.training.stop])
    return fit_intervals(rules.method, residuals, rules.coverage, rules.maker.target_scales, context)
