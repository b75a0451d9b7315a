"""A time budget of a training: how many steps fit into it, measured before the first step counts.

The number of steps is kept in the run folder. So a training that is killed and resumed makes the same steps, and ends
with the same forecast, however fast the machine is by then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pandas as pd

from tdegnn.errors import InputError

# Share of the budget for trials of networks, and the share of the rest that is planned: machines vary.
TRIALS, PLANNED = 0.4, 0.9
# With fewer steps than this there is nothing to learn, whatever the budget.
FEWEST_STEPS = 10


def parse_seconds(budget: float | str) -> float:
    """Return a time budget in seconds.

    Args:
        budget: Seconds, or a text such as `"90s"`, `"2min"` or `"1h"`.
    """
    advice = "Take seconds, or a text such as '2min'."
    try:
        seconds = pd.Timedelta(budget).total_seconds() if isinstance(budget, str) else float(budget)
    except (ValueError, TypeError) as error:
        raise InputError(f"Expected a time budget, got {budget!r}. {advice}") from error
    if not 0 < seconds < float("inf"):
        raise InputError(f"Expected a positive time budget, got {budget!r}. {advice}")
    return seconds


@dataclass(frozen=True)
class TimeBudget:
    """Seconds from a moment on.

    Attributes:
        seconds: How many.
        began: The moment, on the clock of `time.monotonic`.
    """

    seconds: float
    began: float

    @classmethod
    def start(cls, budget: float | str) -> TimeBudget:
        """Begin now."""
        return cls(parse_seconds(budget), time.monotonic())

    def steps_of_trial(self, num_trials: int, seconds_per_step: float, most: int) -> int:
        """Return the number of steps of each of several trials."""
        return _between(FEWEST_STEPS, TRIALS * self.seconds / num_trials / seconds_per_step, most)

    def steps_of_training(self, seconds_per_step: float, most: int) -> int:
        """Return the number of steps of a training in the time that is left."""
        left = self.seconds - (time.monotonic() - self.began)
        return _between(FEWEST_STEPS, PLANNED * left / seconds_per_step, most)


def _between(fewest: int, number: float, most: int) -> int:
    return min(most, max(fewest, int(number)))
