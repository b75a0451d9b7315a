"""Intervals of steps after the horizon of the training, for which no held-out forecast is long enough.

The width of an interval grows as a power of the number of steps ahead: not at all if a series keeps returning to its
mean, by the square root if it wanders. The power is read off the intervals within the horizon, over all nodes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from tdegnn.forecasting.intervals.base import Widths

# The power of a series that wanders (a random walk): taken if one step cannot tell.
WANDERING = 0.5
# The lowest and the highest power: widths never shrink, and grow at most as those of a series that drifts steadily.
LIMITS = (0.0, 1.0)

Steps = Float[np.ndarray, "steps nodes targets"]


def widen_intervals(
    values: Steps, low: Steps, high: Steps, horizon: int, powers: Float[np.ndarray, " targets"]
) -> tuple[Steps, Steps]:
    """Return the ends of intervals that widen after the horizon of the training.

    Later intervals are at least as wide, below and above, as the widest of the same node within the horizon.

    Args:
        values: The forecasts.
        low: Lower ends, of each block of the horizon as if it were the first one.
        high: Upper ends.
        horizon: Number of steps of the horizon. Intervals around them do not change.
        powers: The power with which widths grow, see `growth_of`. It must be that of one coverage, so that intervals of
            a higher coverage contain those of a lower one.
    """
    steps_ahead = np.arange(1, len(values) + 1)[:, None, None]
    factors = np.maximum(steps_ahead / horizon, 1.0) ** powers
    is_later = steps_ahead > horizon

    def widened(halves: Steps) -> Steps:
        widest = halves[:horizon].max(axis=0)
        return np.where(is_later, factors * np.maximum(halves, widest), halves)

    return values - widened(values - low), values + widened(high - values)


def growth_of(widths: Widths) -> Float[np.ndarray, " targets"]:
    """Return the power of the number of steps ahead with which widths grow, for each target."""
    horizon, _, num_targets = widths.shape
    powers = np.full(num_targets, WANDERING)
    if horizon == 1:
        return powers
    steps = np.log(np.arange(1, horizon + 1))
    for target in range(num_targets):
        of_nodes = widths[:, (widths[..., target] > 0).all(axis=0), target]
        if of_nodes.size:
            powers[target] = np.clip(np.polyfit(steps, np.log(of_nodes).mean(axis=1), 1)[0], *LIMITS)
    return powers
