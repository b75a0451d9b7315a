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


def extend_intervals(
    values: Steps, low: Widths, high: Widths, powers: Float[np.ndarray, " targets"]
) -> tuple[Steps, Steps]:
    """Return the ends of intervals around all forecasts, given those around the first ones.

    Later intervals begin with the widest half below and above of each node, so that they are wide enough at any hour.

    Args:
        values: The forecasts.
        low: Lower ends around the forecasts within the horizon of the training.
        high: Upper ends around them.
        powers: The power with which widths grow, see `growth_of`. It must be that of one coverage, so that intervals of
            a higher coverage contain those of a lower one.
    """
    horizon = len(low)
    known, later = values[:horizon], values[horizon:]
    below, above = known - low, high - known
    steps_ahead = np.arange(horizon + 1, len(values) + 1)[:, None, None]
    factors = (steps_ahead / horizon) ** powers
    return (
        np.concatenate([low, later - factors * below.max(axis=0)]),
        np.concatenate([high, later + factors * above.max(axis=0)]),
    )


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
