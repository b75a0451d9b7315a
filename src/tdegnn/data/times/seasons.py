"""Seasons as waves: sines and cosines of the day, the week and the year, which are known for the future too.

A season of `period` steps takes several waves, of the whole period, of half of it, of a third, because a year is not a
plain sine. With half as many waves as the period has steps, any pattern can be written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.errors import InputError, check_count, check_finite

DAYS_IN_A_YEAR = 365.2425
# Length of each season in days, and its number of waves if the steps are short enough. Add a season here.
# The week has its own three waves, the one of the day (seven per week), and three on either side of that: these change
# the course of a day from weekdays to weekends.
KNOWN_SEASONS = {"day": (1.0, 4), "week": (7.0, 10), "year": (DAYS_IN_A_YEAR, 3)}
# Number of waves of a season that the user gives: enough for its shape, too few to follow its noise.
NUM_WAVES = 3
# Number of cycles in a series that are needed to learn a season.
FEWEST_ROUNDS = 2


class Season(NamedTuple):
    """A season of a series.

    Attributes:
        period: Length in steps.
        num_waves: Number of sines, and of cosines.
    """

    period: float
    num_waves: int = 1


def season_waves(
    steps: range | Float[np.ndarray, " time"], period: float, num_waves: int = 1
) -> Float[np.ndarray, "time waves"]:
    """Return the sines and cosines of a season: of `period` steps, of half as many, of a third, ...

    Args:
        steps: The steps, counted from any fixed origin.
        period: Length of the season in steps, for example 52.1775 weeks for a year.
        num_waves: Number of sines, and of cosines.
    """
    check_count(num_waves=num_waves)
    check_finite(period=period)
    if period <= 1:
        raise InputError(f"Expected a period of more than one step, got {period}.")
    angles = 2 * np.pi / period * np.outer(np.asarray(steps), np.arange(1, num_waves + 1))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def step_length(times: pd.Index) -> float:
    """Return the mean length of a step, in days if times are dates, else in units of the numbers."""
    if len(times) < 2:
        raise InputError("Expected at least two times to know the step, got one.")
    span = times[-1] - times[0]
    length = span / pd.Timedelta(days=1) if isinstance(times, pd.DatetimeIndex) else span
    return float(length) / (len(times) - 1)


def step_numbers(times: pd.Index, length: float) -> Float[np.ndarray, " time"]:
    """Return the number of steps of `length` since an origin that is the same for all series."""
    if isinstance(times, pd.DatetimeIndex):
        wall = times.tz_localize(None) if times.tz is not None else times  # seasons follow the clocks
        return np.asarray((wall - pd.Timestamp(0)) / pd.Timedelta(days=length), dtype=np.float64)
    return np.asarray(times, dtype=np.float64) / length


def seasons_of(times: pd.Index, given: float | int | None = None) -> tuple[Season, ...]:
    """Return the seasons that dates of this step can show, if they span enough cycles.

    Args:
        times: The times of the series.
        given: Length of the only season in steps, if the user gave one.
    """
    if given is not None:
        num_waves = min(NUM_WAVES, int((given - 1e-9) // 2))
        if num_waves < 1:
            raise InputError(f"Expected a season of more than two steps, got {given:g}.")
        return (Season(float(given), num_waves),)
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return ()
    length = step_length(times)
    seasons = []
    for days, most_waves in KNOWN_SEASONS.values():
        period = days / length
        num_waves = min(most_waves, int((period - 1e-9) // 2))
        if num_waves >= 1 and len(times) >= FEWEST_ROUNDS * period:
            seasons.append(Season(period, num_waves))
    return tuple(seasons)
