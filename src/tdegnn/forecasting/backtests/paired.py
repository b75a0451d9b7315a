"""Is one method better than another on the same origins? A bootstrap of the difference of their errors.

Forecasts from neighboring origins share most of their steps, so blocks of origins are drawn, not single ones: a block
is at least as long as the horizon, and grows with the number of origins (circular block bootstrap, Politis & Romano,
1992).
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

NUM_RESAMPLES = 2000
LEVEL = 0.95
# With fewer blocks than this, a bootstrap shows less spread than there is.
FEWEST_BLOCKS = 5


class Difference(NamedTuple):
    """An error of a method minus that of the forecaster: above zero, the forecaster is better.

    Attributes:
        difference: The difference over all origins.
        low: Lower end of its 95 % interval. NaN if there are too few origins.
        high: Upper end.
    """

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.difference:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


class OriginErrors(NamedTuple):
    """Errors of one method, one per origin. Weights are the numbers of observed values."""

    absolute: Float[np.ndarray, " origins"]
    squared: Float[np.ndarray, " origins"]
    weights: Float[np.ndarray, " origins"]


def block_length(num_origins: int, horizon: int, stride: int) -> int:
    """Return the number of origins in a block."""
    return min(num_origins, max(ceil(horizon / stride), round(float(num_origins ** (1 / 3)))))


def draw_origins(num_origins: int, block: int, seed: int = 0) -> Int[np.ndarray, "resamples origins"]:
    """Return resamples of the origins: blocks of neighbors, in a circle."""
    num_blocks = ceil(num_origins / block)
    starts = np.random.default_rng(seed).integers(num_origins, size=(NUM_RESAMPLES, num_blocks, 1))
    drawn = (starts + np.arange(block)) % num_origins
    return drawn.reshape(NUM_RESAMPLES, -1)[:, :num_origins]


def compare(ours: OriginErrors, other: OriginErrors, block: int) -> dict[str, Difference]:
    """Return the differences in MAE and RMSE between another method and ours.

    Args:
        ours: Errors of the forecaster.
        other: Errors of the other method, from the same origins.
        block: Number of origins in a block.
    """
    is_seen = ours.weights > 0
    ours, other = (OriginErrors(*(values[is_seen] for values in each)) for each in (ours, other))
    num_origins = len(ours.weights)
    if not num_origins:
        return {name: Difference(np.nan, np.nan, np.nan) for name in ("mae", "rmse")}
    every = np.arange(num_origins)[None]
    full = _differences(ours, other, every)
    if num_origins < FEWEST_BLOCKS * block:
        return {name: Difference(float(values[0]), np.nan, np.nan) for name, values in full.items()}
    drawn = _differences(ours, other, draw_origins(num_origins, block))
    ends = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    return {
        name: Difference(float(values[0]), *(float(np.quantile(drawn[name], end)) for end in ends))
        for name, values in full.items()
    }


def _differences(
    ours: OriginErrors, other: OriginErrors, drawn: Int[np.ndarray, "resamples origins"]
) -> dict[str, Float[np.ndarray, " resamples"]]:
    weights = ours.weights[drawn].sum(axis=1)

    def mean(values: Float[np.ndarray, " origins"]) -> Float[np.ndarray, " resamples"]:
        return np.asarray((values * ours.weights)[drawn].sum(axis=1) / weights)

    return {
        "mae": mean(other.absolute) - mean(ours.absolute),
        "rmse": np.sqrt(mean(other.squared)) - np.sqrt(mean(ours.squared)),
    }
