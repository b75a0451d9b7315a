"""Intervals that learn from newer steps: what a method gets to see of them, whoever made the forecasts."""

from __future__ import annotations

import numpy as np

from tdegnn.data.panel import Panel
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.intervals.base import Context, Intervals, Residuals

# Maximum number of steps since the training from which intervals learn.
MOST_FOLLOWED = 1000


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
