"""A time budget of a training: how many steps fit into it, measured before the first step counts.

What is planned is kept in the run folder. So a training that is killed and resumed makes the planned steps, and ends
with the same forecast, however fast the machine is by then. Trials and trainings that turn out to be slower than
planned end early, at a step that the clock decides: it is kept from then on, and decided anew if the process was killed
before. The clock begins anew when a training is resumed.
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
# Share of the budget in which steps are timed before a trial or a training.
TIMED = 0.02
# A trial ends when it has taken this many times its share.
LATE = 1.3
# A second training that would end after this share of the budget makes fewer steps.
TOO_LATE = 1.1


def parse_seconds(budget: float | str) -> float:
    """Return a time budget in seconds.

    Args:
        budget: Seconds, also as a text, or a text such as `"90s"`, `"2min"` or `"1h"`.
    """
    advice = "Take seconds, or a text such as '2min'."
    try:
        seconds = _seconds_of(budget)
    except (ValueError, TypeError) as error:
        raise InputError(f"Expected a time budget, got {budget!r}. {advice}") from error
    if not 0 < seconds < float("inf"):
        raise InputError(f"Expected a positive time budget, got {budget!r}. {advice}")
    return seconds


def _seconds_of(budget: float | str) -> float:
    try:
        return float(budget)
    except ValueError:
        # A number alone would be nanoseconds here.
        return float(pd.Timedelta(budget).total_seconds())


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

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def timed(self) -> float:
        """Seconds in which steps are timed, each time."""
        return TIMED * self.seconds

    def steps_of_training(self, seconds_per_step: float, most: int, reserved: float = 0.0) -> int:
        """Return the number of steps of a training in the time that is left.

        Args:
            seconds_per_step: What a step takes, with all that goes with it.
            most: Maximum number of steps.
            reserved: Seconds for what comes besides steps.
        """
        return _between(FEWEST_STEPS, (PLANNED * (self.seconds - self.used) - reserved) / seconds_per_step, most)

    def seconds_needed(self, seconds_per_step: float, reserved: float) -> float | None:
        """Return how long a fit takes with the fewest steps. None if the budget is enough."""
        needed = self.used + reserved + FEWEST_STEPS * seconds_per_step
        return needed if needed > self.seconds else None


@dataclass
class TrialTime:
    """The time for trials, which is shared among them.

    Attributes:
        budget: The whole budget.
        num_left: Number of trials that may still come.
        num_made: Number of trials that were made.
        ends: When all of them are over, on the clock of the budget. None before the first one.
        seconds_per_step: What a step of the last trial took. 0 before the first one.
    """

    budget: TimeBudget
    num_left: int
    num_made: int = 0
    ends: float | None = None
    seconds_per_step: float = 0.0

    def begin(self, seconds: float) -> bool:
        """Begin a trial, and return whether there is time to set it up and to make a few steps.

        Args:
            seconds: What its set-up takes, as far as that is known.
        """
        used = self.budget.used
        if self.ends is None:
            self.ends = used + TRIALS * max(0.0, self.budget.seconds - used)
        return self._fits(used, seconds + FEWEST_STEPS * self.seconds_per_step, self.ends)

    def steps(self, seconds_per_step: float, other: float, most: int, fewest: int = FEWEST_STEPS) -> int:
        """Return the number of steps of the trial that was begun. 0 if there is no time for it.

        Args:
            seconds_per_step: What a step takes.
            other: Seconds for what comes besides steps, such as a validation.
            most: Maximum number of steps.
            fewest: Minimum number of steps that say something.
        """
        assert self.ends is not None
        used, fewest = self.budget.used, min(fewest, most)
        self.seconds_per_step = seconds_per_step
        number = min(most, int(((self.ends - used) / max(1, self.num_left) - other) / seconds_per_step))
        if number < fewest:
            number = fewest if self._fits(used, other + fewest * seconds_per_step, self.ends) else 0
        return number

    def lateness(self, seconds: float) -> Lateness:
        """Return what ends the trial that was begun if it takes much longer than planned."""
        return Lateness(self.budget, 0.0, 0, self.budget.used + LATE * seconds)

    def end(self, *, was_made: bool) -> None:
        """Count a trial that was made, or for which there was no time."""
        self.num_left -= 1
        self.num_made += was_made

    def _fits(self, used: float, seconds: float, ends: float) -> bool:
        # A single network is compared with nothing: there must be time for another one, and to set that up.
        return used + (seconds if self.num_made else 3 * seconds) <= ends


@dataclass
class Lateness:
    """Says when a training must end, so that what comes after it still fits into the budget.

    Attributes:
        budget: The budget.
        reserved: Seconds for what comes besides steps.
        repeated: How often the steps made so far are made again.
        ends: When the training must be over, on the clock of the budget.
        seconds_per_step: What a step took so far, with its share of what goes with it. None before the second one.
    """

    budget: TimeBudget
    reserved: float
    repeated: int
    ends: float
    seconds_per_step: float | None = None
    _first: tuple[int, float] | None = None

    def __call__(self, step: int) -> bool:
        """Return whether the training must end after a step."""
        used = self.budget.used
        if self._first is None:
            self._first = step, used
            return False
        self.seconds_per_step = (used - self._first[1]) / (step - self._first[0])
        rest = self.reserved + self.repeated * step * self.seconds_per_step
        return step >= FEWEST_STEPS and used + rest > self.ends

    def steps_again(self, best_step: int, reserved: float) -> int:
        """Return the number of steps of the second training: those of the first one, or as many as still fit.

        Args:
            best_step: The best step of the first training.
            reserved: Seconds for what comes besides steps.
        """
        if self.seconds_per_step is None:
            return best_step
        left = self.budget.seconds - self.budget.used - reserved
        allowed = left + (TOO_LATE - 1) * self.budget.seconds
        if best_step * self.seconds_per_step <= allowed:
            return best_step
        return _between(FEWEST_STEPS, left / self.seconds_per_step, best_step)


def _between(fewest: int, number: float, most: int) -> int:
    return min(most, max(fewest, int(number)))
