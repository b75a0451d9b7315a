"""The step between times: a number, a fixed duration, days, business days, months, or hours on the clock.

Each function tries one kind of step and returns how many steps each time lies after the first, or None; `times.py`
tries them in turn. Whole numbers come first, then decimal numbers, which may be rounded, then dates. Days and months
are counted in local time, in which an hour may be skipped or occur twice; fixed durations are counted in elapsed
time.
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
# How far a number may lie from its place, as a share of the step: always, and at most if numbers are rounded.
NUMBER_TOLERANCE = 1e-3
LARGEST_NUMBER_TOLERANCE = 0.25
# Numbers with more decimals than this are results of a computation, not rounded by hand.
MOST_DECIMALS = 6
# Differences of integers up to this size fit into int64.
LARGEST_INTEGER = 2**62 - 1
# pandas cannot count steps of a fixed duration that are longer, 200 years.
LONGEST_STEP = 200 * 365 * DAY


def most_common(differences: Int[np.ndarray, " differences"]) -> int:
    """Return the most frequent difference; of several, the smallest."""
    values, counts = np.unique(differences, return_counts=True)
    return int(values[np.argmax(counts)])


def whole_steps(numbers: Int[np.ndarray, " given"], step: int) -> Int[np.ndarray, " given"] | None:
    """Return how many steps each whole number lies after the first. None if some are not whole or do not increase."""
    if (np.diff(numbers) < 1).any():
        return None
    ranks, rest = np.divmod(numbers - numbers[0], step)
    return None if rest.any() else ranks.astype(np.int64)


def rank_numbers(numbers: Float[np.ndarray, " given"]) -> Int[np.ndarray, " given"] | None:
    """Return how many steps each decimal number lies after the first. None if some are not whole."""
    differences = np.diff(numbers)
    usual = lower_median(differences)
    # The mean, since 60 times per second is written as 0.017, 0.033, 0.05: no single difference is the step.
    step = differences[(differences > usual / 2) & (differences < usual * 3 / 2)].mean()
    with np.errstate(over="ignore"):  # 1e100 may follow 1e-300
        steps = np.rint(differences / step)
    if steps.min() < 1 or steps.sum() > LARGEST_INTEGER:
        return None
    ranks = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    step = (numbers[-1] - numbers[0]) / ranks[-1]
    is_near = np.abs(numbers - numbers[0] - step * ranks) <= number_tolerance(numbers, step)
    return ranks if is_near.all() else None


def is_evenly_spaced(numbers: Float[np.ndarray, " given"]) -> bool:
    """Return whether numbers, in order and without gaps, may be a section of a regular series.

    The ends of a section may be rounded themselves, so the tolerance is twice that of a whole series.
    """
    if len(numbers) < 2 or not (np.diff(numbers) > 0).all():
        return False
    places, step = np.linspace(numbers[0], numbers[-1], len(numbers), retstep=True)
    return bool((np.abs(numbers - places) <= 2 * number_tolerance(numbers, float(step))).all())


def number_tolerance(numbers: Float[np.ndarray, " given"], step: float) -> float:
    """Return how far a number may lie from its place between the first and the last.

    If all have few decimals, this is one unit of the last decimal: half for the number itself, half for the ends.
    """
    decimals = decimals_of(numbers)
    # Whole numbers are counts, which are not rounded.
    last_digit = 10.0**-decimals if decimals else 0.0
    return max(NUMBER_TOLERANCE * step, min(last_digit, LARGEST_NUMBER_TOLERANCE * step))


def decimals_of(numbers: Float[np.ndarray, " given"]) -> int | None:
    """Return how many decimals are needed to write all numbers. None if too many."""
    candidates = range(MOST_DECIMALS + 1)
    with np.errstate(over="ignore", invalid="ignore"):  # rounding 1e305 multiplies it first
        return next((count for count in candidates if (np.round(numbers, count) == numbers).all()), None)


def lower_median(differences: Shaped[np.ndarray, " differences"]) -> float:
    """Return the median, or the smaller of the two values in the middle, so that it is one of the differences."""
    return float(np.quantile(differences, 0.5, method="lower"))


@dataclass(frozen=True)
class DateSteps:
    """A step that fits all dates, the start from which it counts, and how many steps after it each date lies.

    Steps of the calendar start at a time without a zone: they count in local time.
    """

    start: pd.Timestamp
    offset: BaseOffset
    ranks: Int[np.ndarray, " given"]


def date_range(start: pd.Timestamp, num_steps: int, offset: BaseOffset, zone: tzinfo | None) -> pd.DatetimeIndex:
    """Return equally spaced times. From a start without a zone, they count in local time, as in `localize_days`."""
    if zone is None or start.tz is not None:
        return pd.date_range(start, periods=num_steps, freq=offset, unit="us")
    # pandas 2 would move a start that the clocks skip, and all following days with it: start one step earlier.
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
    """Try steps of months: all dates lie on the same day of the month, or on its last day."""
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
    """Try steps of days or business days."""
    days = wall.asi8 // DAY
    step = most_common(np.diff(days))
    ranks = whole_steps(days, step)
    if ranks is None:
        return None
    if _has_no_weekends(wall, step):
        return DateSteps(wall[0], pd.offsets.BusinessDay(), _business_ranks(wall))
    return DateSteps(wall[0], pd.offsets.Day(step), ranks)


def as_fixed_steps(ordered: pd.DatetimeIndex) -> DateSteps | None:
    """Try steps of a fixed duration, whatever the clocks show."""
    step = most_common(np.diff(ordered.asi8))
    ranks = whole_steps(ordered.asi8, step)
    if ranks is None or step > LONGEST_STEP:
        return None
    offset = to_offset(pd.Timedelta(step, unit="us"))
    # pandas 2 turns 24 hours into a day, and counts days by the calendar.
    fixed = pd.offsets.Hour(24 * offset.n) if isinstance(offset, pd.offsets.Day) else offset
    return DateSteps(ordered[0], fixed, ranks)


def as_clock_hours(ordered: pd.DatetimeIndex) -> DateSteps | None:
    """Try steps of hours on the clock, for example 00:00, 06:00, ... in summer and winter.

    At least two hours: shorter steps would vanish when the clocks go forward.
    """
    step = most_common(np.diff(ordered.tz_localize(None).asi8))
    if step % HOUR != 0 or step < 2 * HOUR:
        return None
    wall = wall_times(ordered, step)
    ranks = None if wall is None else whole_steps(wall.asi8, step)
    return None if wall is None or ranks is None else DateSteps(wall[0], pd.DateOffset(hours=step // HOUR), ranks)


def has_known_step(times: pd.DatetimeIndex) -> bool:
    """Return whether the step is of a kind that `regularize` finds. pandas has others, such as weeks on Sundays."""
    offset = times.freq
    if offset is None or offset.n < 1:
        return False
    hours = clock_hours_of(offset)
    if hours:
        # pandas may also have counted these hours in elapsed time.
        wall = None if times.tz is None else wall_times(times, hours * HOUR)
        return wall is not None and bool((np.diff(wall.asi8) == hours * HOUR).all())
    return is_fixed(offset) or isinstance(offset, (pd.offsets.Day, pd.offsets.BusinessDay)) or months_of(offset) > 0


def is_fixed(offset: BaseOffset) -> bool:
    """Return whether a step is a fixed duration. pandas 2 calls its calendar days fixed, which they are not."""
    return isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)


def clock_hours_of(offset: BaseOffset | None) -> int:
    """Return the hours on the clock in a step; 0 if it is another kind of step."""
    return 0 if offset is None else int(getattr(offset, "kwds", {}).get("hours", 0)) * int(offset.n)


def months_of(offset: BaseOffset) -> int:
    """Return the months in a step; 0 if it is another kind of step."""
    if isinstance(offset, pd.offsets.MonthEnd):
        return int(offset.n)
    return int(getattr(offset, "kwds", {}).get("months", 0)) * int(offset.n)


def localize_days(dates: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Return local times that stand for days, or other steps of the calendar, in a time zone.

    A time that the clocks skip becomes the next one that exists; of a time that occurs twice, the first counts. In
    Santiago, one day in September starts at 01:00, and it is a day like the others.
    """
    return dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward")


def wall_times(dates: pd.DatetimeIndex, period: int) -> pd.DatetimeIndex | None:
    """Return local times if they are the same in each period (a day, six hours). None if they are not.

    Times that the clocks skip, which `localize_days` moved forward, are moved back.
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
    """Return the local times of dates whose step is known."""
    wall = wall_times(times, clock_hours_of(offset) * HOUR or DAY)
    return times.tz_localize(None) if wall is None else wall


def _has_no_weekends(wall: pd.DatetimeIndex, step: int) -> bool:
    spans_two_weekends = (wall[-1] - wall[0]).days >= 12
    return step == 1 and spans_two_weekends and bool((wall.day_of_week < 5).all())


def _business_ranks(wall: pd.DatetimeIndex) -> Int[np.ndarray, " given"]:
    days = wall.to_numpy().astype("datetime64[D]")
    return np.asarray(np.busday_count(days[0], days))
