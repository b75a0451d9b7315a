"""The gain of one system over another on the same splits or seeds, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Gain:
    """A mean of paired differences and its interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> Gain:
        """Return the mean of differences, with a t interval."""
        mean = float(np.mean(differences))
        if len(differences) < 2:
            return cls(mean, -math.inf, math.inf)
        spread = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, len(differences) - 1) * scipy.stats.sem(differences))
        return cls(mean, mean - spread, mean + spread)

    def __str__(self) -> str:
        return self.text(2)

    def text(self, digits: int) -> str:
        """Return the mean and, in parentheses, the interval."""
        mean, low, high = (f"{number:+.{digits}f}" for number in (self.mean, self.low, self.high))
        return f"{mean} ({low} to {high})"
