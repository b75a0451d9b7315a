"""Steps of dates: a time that passes, days, business days, months, or hours on the clock.

Days and months are counted by the clock on the wall, which may skip a time or show it twice; hours that pass are not.
Each function here tries one kind of step; `times.py` asks them one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset

HOUR = 3_600_000_000  # in microseconds, the unit of all dates here
DAY = 24 * HOUR


@dataclass(frozen=True)
class DateSteps:
    """A step that fits all dates given: from where it counts, and how many of it after that each date lies.

    Steps of the calendar count from a time without a zone: they go by the clock on the wall.
    """

    start: pd.Timestamp
    offset: BaseOffset
    ranks: Int[np.ndarray, " given"]


def date_range(start: pd.Timestamp, num_steps: int, offset: BaseOffset, zone: tzinfo | None) -> pd.DatetimeIndex:
    """Times one step after the other. From a start without a zone they go by the clock, as in `localize_days`."""
    if zone is None or start.tz is not None:
        return pd.date_range(start, periods=num_steps, freq=offset, unit="us")
    # pandas 2 would move a start that the clocks skip, and with it all days that follow: begin a step before.
    lead = int(start.tz_localize(zone, ambiguous=True, nonexistent="NaT") is pd.NaT)
    longer = pd.date_range(
        start - offset if lead else start,
        periods=num_steps + lead,
        freq=offset,
        tz=zone,
        unit="us",
        ambiguous=True,
        nonexistent="shift_forward",
    )
    return longer[lead:]


def as_months(wall: pd.DatetimeIndex) -> DateSteps | None:
    """Steps in months, where all lie on one day of the month, or on its last."""
    months = np.asarray(wall.year * 12 + wall.month)
    if (np.diff(months) < 1).any() or (np.diff(wall.asi8) < 28 * DAY).any():
        return None
    step = most_common(np.diff(months))
    ranks = whole_steps(months, step)
    if ranks is None:
        return None
    if wall.is_month_end.all():
        return DateSteps(wall[0], pd.offsets.MonthEnd(step), ranks)
    if (wall.day == wall.day[0]).all() and wall.day[0] <= 28:
        return DateSteps(wall[0], pd.offsets.DateOffset(months=step), ranks)
    return None


def as_days(wall: pd.DatetimeIndex) -> DateSteps | None:
    """Steps in days or business days."""
    days = wall.asi8 // DAY
    step = most_common(np.diff(days))
    ranks = whole_steps(days, step)
    if ranks is None:
        return None
    if _has_no_weekends(wall, step):
        return DateSteps(wall[0], pd.offsets.BusinessDay(), _business_ranks(wall))
    return DateSteps(wall[0], pd.offsets.Day(step), ranks)


def as_fixed_steps(ordered: pd.DatetimeIndex) -> DateSteps | None:
    """Steps of a time that passes, whatever clocks show."""
    step = most_common(np.diff(ordered.asi8))
    ranks = whole_steps(ordered.asi8, step)
    if ranks is None:
        return None
    offset = to_offset(pd.Timedelta(step, unit="us"))
    # 24 hours are called a day by pandas 2, and its days are those of the calendar.
    fixed = pd.offsets.Hour(24 * offset.n) if isinstance(offset, pd.offsets.Day) else offset
    return DateSteps(ordered[0], fixed, ranks)


def as_clock_hours(ordered: pd.DatetimeIndex) -> DateSteps | None:
    """Steps of some hours on the clock, as in 00:00, 06:00, ... in summer and winter.

    Two hours at least: of shorter steps one or more would vanish when the clocks go forward.
    """
    step = most_common(np.diff(ordered.tz_localize(None).asi8))
    if step % HOUR != 0 or step < 2 * HOUR:
        return None
    wall = wall_times(ordered, step)
    ranks = None if wall is None else whole_steps(wall.asi8, step)
    return None if wall is None or ranks is None else DateSteps(wall[0], pd.DateOffset(hours=step // HOUR), ranks)


def has_known_step(times: pd.DatetimeIndex) -> bool:
    """Whether the step is one that `regularize` writes; pandas has others, as in a week that ends on Sunday."""
    offset = times.freq
    if offset is None or offset.n < 1:
        return False
    hours = clock_hours_of(offset)
    if hours:
        # With pandas these may as well be hours that pass.
        wall = None if times.tz is None else wall_times(times, hours * HOUR)
        return wall is not None and bool((np.diff(wall.asi8) == hours * HOUR).all())
    return is_fixed(offset) or isinstance(offset, (pd.offsets.Day, pd.offsets.BusinessDay)) or months_of(offset) > 0


def is_fixed(offset: BaseOffset) -> bool:
    """Whether a step is a time that passes. The days of pandas 2 are none, though it says so."""
    return isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)


def clock_hours_of(offset: BaseOffset | None) -> int:
    """Hours on the clock in a step; 0 where it is another kind of step."""
    return 0 if offset is None else int(getattr(offset, "kwds", {}).get("hours", 0)) * int(offset.n)


def months_of(offset: BaseOffset) -> int:
    """Months in a step; 0 where it is another kind of step."""
    if isinstance(offset, pd.offsets.MonthEnd):
        return int(offset.n)
    return int(getattr(offset, "kwds", {}).get("months", 0)) * int(offset.n)


def localize_days(dates: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Times that stand for days or other steps of the calendar, in a zone.

    Where the clocks skip such a time it is the next there is; where it comes twice, the first. Midnight in Santiago
    is 01:00 on one day in September, and the day is a day like the others.
    """
    return dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward")


def wall_times(dates: pd.DatetimeIndex, period: int) -> pd.DatetimeIndex | None:
    """What a clock on the wall shows, where it is the same in each period (a day, six hours); None where it is not.

    Times that the clocks skip, and that `localize_days` gave as the next there is, are put back.
    """
    wall = dates.tz_localize(None)
    delay = (wall.asi8 - most_common(wall.asi8 % period)) % period
    if not delay.any():
        return wall
    if dates.tz is None:
        return None
    meant = pd.DatetimeIndex((wall.asi8 - delay).view("datetime64[us]"))
    is_meant = (delay == 0) | np.asarray(localize_days(meant, dates.tz) == dates)
    return meant if is_meant.all() else None


def wall_times_of_step(times: pd.DatetimeIndex, offset: BaseOffset) -> pd.DatetimeIndex:
    """What a clock on the wall shows, at times that have a step."""
    wall = wall_times(times, clock_hours_of(offset) * HOUR or DAY)
    return times.tz_localize(None) if wall is None else wall


def _has_no_weekends(wall: pd.DatetimeIndex, step: int) -> bool:
    spans_two_weekends = (wall[-1] - wall[0]).days >= 12
    return step == 1 and spans_two_weekends and bool((wall.day_of_week < 5).all())


def _business_ranks(wall: pd.DatetimeIndex) -> Int[np.ndarray, " given"]:
    days = wall.to_numpy().astype("datetime64[D]")
    return np.asarray(np.busday_count(days[0], days))


# How far a time given as a number may lie from its place, as a part of the step: in any case, and at most.
NUMBER_TOLERANCE = 1e-3
LARGEST_NUMBER_TOLERANCE = 0.25
# Numbers with more decimals than this were computed, not written.
MOST_DECIMALS = 6
# Integers up to this size have differences that int64 holds.
LARGEST_INTEGER = 2**62


def most_common(differences: Int[np.ndarray, " differences"]) -> int:
    """The difference that occurs most often; the smallest of them."""
    values, counts = np.unique(differences, return_counts=True)
    return int(values[np.argmax(counts)])


def whole_steps(numbers: Int[np.ndarray, " given"], step: int) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all, or not more each time."""
    if (np.diff(numbers) < 1).any():
        return None
    ranks, rest = np.divmod(numbers - numbers[0], step)
    return None if rest.any() else ranks.astype(np.int64)


def rank_numbers(numbers: Float[np.ndarray, " given"]) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all."""
    differences = np.diff(numbers)
    usual = lower_median(differences)
    # 60 times a second is written as 0.017, 0.033, 0.05: no single difference is the step, their mean is.
    step = differences[(differences > usual / 2) & (differences < usual * 3 / 2)].mean()
    steps = np.rint(differences / step)
    if steps.min() < 1 or steps.sum() > LARGEST_INTEGER:
        return None
    ranks = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    step = (numbers[-1] - numbers[0]) / ranks[-1]
    is_near = np.abs(numbers - numbers[0] - step * ranks) <= number_tolerance(numbers, step)
    return ranks if is_near.all() else None


def is_evenly_spaced(numbers: Float[np.ndarray, " given"]) -> bool:
    """Whether numbers in order, none missing, lie so near to their places that they may be part of a regular series.

    Of a part the first and the last lie elsewhere than those of the whole: it may be off by twice as much.
    """
    if len(numbers) < 2 or not (np.diff(numbers) > 0).all():
        return False
    places, step = np.linspace(numbers[0], numbers[-1], len(numbers), retstep=True)
    return bool((np.abs(numbers - places) <= 2 * number_tolerance(numbers, float(step))).all())


def number_tolerance(numbers: Float[np.ndarray, " given"], step: float) -> float:
    """How far a number may lie from its place between the first and the last.

    Where all are written with few decimals it is one of the last: half for the number itself, half for the ends.
    """
    decimals = decimals_of(numbers)
    # Whole numbers count something, they are not rounded.
    last_digit = 10.0**-decimals if decimals else 0.0
    return max(NUMBER_TOLERANCE * step, min(last_digit, LARGEST_NUMBER_TOLERANCE * step))


def decimals_of(numbers: Float[np.ndarray, " given"]) -> int | None:
    """How many decimals are enough to write all numbers; None where that would be too many."""
    candidates = range(MOST_DECIMALS + 1)
    return next((count for count in candidates if (np.round(numbers, count) == numbers).all()), None)


def lower_median(differences: Shaped[np.ndarray, " differences"]) -> float:
    """The median, or the smaller of the two in the middle: a difference that there is."""
    return float(np.quantile(differences, 0.5, method="lower"))
