"""Make equally spaced times from the times of a table, which may have gaps.

A step may be a fixed time (an hour), calendar days (23 hours when the clocks go forward), months, business days, hours
on the clock (00:00, 06:00, ... in summer and winter), or a number. `regularize` finds the step, sorts the times and
adds missing ones. If there is no common step, the error names the two rows between which the spacing breaks.
`time_texts.py` reads times from text and from other types of dates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped

from tdegnn.data.times.steps import (
    DAY,
    LARGEST_INTEGER,
    NUMBER_TOLERANCE,
    as_clock_hours,
    as_days,
    as_fixed_steps,
    as_months,
    clock_hours_of,
    date_range,
    decimals_of,
    has_known_step,
    is_evenly_spaced,
    is_fixed,
    lower_median,
    months_of,
    most_common,
    number_tolerance,
    rank_numbers,
    wall_times,
    wall_times_of_step,
    whole_steps,
)
from tdegnn.errors import Argument, InputError, Message
from tdegnn.files import check_memory

# Returns the place of the i-th time in the user's table, for example "line 7 of cases.csv".
Place: TypeAlias = Callable[[int], str]

# If there are more steps than this per observed one, a year is mistyped or there is no common step. A stock exchange
# that closes at night and on weekends has about five hours per hour that it is open.
LARGEST_GRID = 10
# The same if most times are more than one step apart: then the step itself is uncertain.
LARGEST_SPARSE_GRID = 4

# The first and the last day whose local times exist in every time zone.
CALENDAR = ("0001-01-02", "9999-12-30")
# Differences of larger numbers may overflow.
LARGEST_TIME = 1e100
# Bytes of memory that a future time takes.
TIME_COST = 32
# Number of digits of a wrong number that a message shows.
LONGEST_SHOWN = 40

SORTED = "The times were not in order; they were sorted."


@dataclass(frozen=True)
class RegularTimes:
    """Equally spaced times, and where each given time lies in them.

    Attributes:
        times: All times from the first to the last, without gaps.
        positions: Index in `times` of each given time, in the given order.
        notes: Remarks for the user.
    """

    times: pd.Index
    positions: Int[np.ndarray, " given"]
    notes: tuple[str, ...]


def regularize(given: pd.Index, place: Place = "entry {}".format) -> RegularTimes:
    """Sort times, find their step, and add the missing ones.

    Args:
        given: Dates or numbers, in any order, without duplicates.
        place: Returns the place of the i-th time, for messages.
    """
    if len(given) == 0:
        raise InputError("Expected at least one time, got none.")
    given = _as_dates_or_numbers(given, place)
    order = np.argsort(_as_plain_numbers(given), kind="stable")
    ordered = given[order]
    _check_distinct(ordered, order, place)
    notes = [] if (np.diff(order) > 0).all() else [SORTED]
    if isinstance(ordered, pd.DatetimeIndex):
        times, ranks = _date_grid(ordered, order, place)
    else:
        times, ranks = _number_grid(ordered, order, place)
    positions = np.empty(len(given), dtype=np.int64)
    positions[order] = ranks
    if isinstance(times, pd.DatetimeIndex) and isinstance(times.freq, pd.offsets.BusinessDay):
        notes.append("There are no observations on weekends: the steps are business days.")
    if isinstance(times, pd.DatetimeIndex) and clock_hours_of(times.freq):
        notes.append(f"The steps are {describe_step(times)} on the clock, longer or shorter when the clocks change.")
    if len(times) > len(given):
        notes.append(_describe_gaps(times, ranks))
    return RegularTimes(times, positions, tuple(notes))


def check_regular(times: pd.Index) -> pd.Index:
    """Return `times` with their step. Raise an `InputError` if they are not equally spaced and in order."""
    if isinstance(times, pd.RangeIndex) and times.step > 0:
        return times
    if isinstance(times, pd.DatetimeIndex) and has_known_step(times.as_unit("us")):
        return times.as_unit("us")
    times = _as_dates_or_numbers(times, "entry {}".format)
    if times.dtype == np.float64 and is_evenly_spaced(times.to_numpy()):
        return times
    found = regularize(times)
    if len(found.times) != len(times) or (np.diff(found.positions) != 1).any():
        missing = len(found.times) - len(times)
        problem = f"{_count(missing, 'step')} missing" if missing else "times that are not in order"
        raise InputError(
            f"Expected equally spaced times in order, got {problem}. "
            "Use Panel.from_array or read_panel, which sort times and add missing steps."
        )
    return found.times


def future_times(times: pd.Index, horizon: int) -> pd.Index:
    """Return the `horizon` times after the last one."""
    check_memory(TIME_COST * horizon, f"{horizon} future times")
    if isinstance(times, pd.DatetimeIndex):
        return _future_dates(times, horizon)
    if isinstance(times, pd.RangeIndex):
        if times[-1] + times.step * horizon > LARGEST_INTEGER:
            raise _no_such_future(horizon, show_time(times[-1]))
        return pd.RangeIndex(times[-1] + times.step, times[-1] + times.step * (horizon + 1), times.step)
    return pd.Index(times[-1] + _number_step(times) * np.arange(1, horizon + 1))


def _future_dates(times: pd.DatetimeIndex, horizon: int) -> pd.DatetimeIndex:
    offset = times.freq
    if offset is None:
        raise InputError("Expected at least two times to continue them, got one.")
    start = times[-1] if is_fixed(offset) else wall_times_of_step(times, offset)[-1]
    try:
        future = date_range(start, horizon + 1, offset, times.tz)[1:]
    except (ValueError, OverflowError) as error:  # pandas raises these after the year 9999
        raise _no_such_future(horizon, show_time(times[-1])) from error
    if is_beyond_calendar(future).any():
        raise _no_such_future(horizon, show_time(times[-1]))
    return future


def _no_such_future(horizon: int, last: str) -> InputError:
    return InputError(
        f"Expected {horizon} steps after {last} in the calendar, which ends with the year 9999, or of at most 18 "
        "digits, got later ones. Take a shorter horizon."
    )


def describe_step(times: pd.Index) -> str:
    """Return the step in words: `1 hour`, `7 days`, `1 month`; a number if times are numbers."""
    if not isinstance(times, pd.DatetimeIndex):
        return f"{_number_step(times):g}"
    offset = times.freq
    if offset is None:
        return "unknown"
    if isinstance(offset, pd.offsets.BusinessDay):
        return "1 business day"
    months = months_of(offset)
    if months:
        return _count(months // 12, "year") if months % 12 == 0 else _count(months, "month")
    if isinstance(offset, pd.offsets.Day):
        return _count(offset.n, "day")
    hours = clock_hours_of(offset)
    return _duration_in_words(pd.Timedelta(hours=hours) if hours else pd.Timedelta(offset))


def show_time(time: object) -> str:
    """Return a time as people write it: without 00:00 at midnight, without rounding errors."""
    if isinstance(time, pd.Timestamp):
        wall = time.tz_localize(None)
        return f"{time:%Y-%m-%d}" if wall == wall.normalize() else str(time)
    return f"{time:.12g}" if isinstance(time, float) else str(time)


def repeated_time_hint(time: object) -> Message:
    """Return what to do about a time that occurs twice."""
    if _may_be_clock_change(time):
        return Message(
            "If the clocks went back then, write times with their UTC offset; for a wide table, ",
            Argument("time_zone"),
            " is enough.",
        )
    return Message("Keep one of them, or join them first (mean, sum).")


def check_present(given: pd.Index, place: Place) -> None:
    """Raise an `InputError` if a time is missing."""
    is_missing = np.asarray(given.isna())
    if is_missing.any():
        where = place(int(np.argmax(is_missing)))
        raise InputError(f"Expected a time in every row, got none in {where}. Remove the row, or write the time.")


def too_large_error(number: str, where: str) -> InputError:
    """Return the error for an integer that is too large: int64 cannot hold it, or its distance from others."""
    shown = number if len(number) <= LONGEST_SHOWN else f"{number[:LONGEST_SHOWN]}..."
    return InputError(f"Expected times of at most 18 digits, got {shown} in {where}. Count them from a later start.")


def check_years(given: pd.DatetimeIndex, place: Place) -> None:
    """Raise an `InputError` for a date that Python's calendar does not have, in any time zone."""
    is_beyond = is_beyond_calendar(given)
    if is_beyond.any():
        where = place(int(np.argmax(is_beyond)))
        raise InputError(f"Expected dates of the years 1 to 9999, got another in {where}. Correct it.")


def is_beyond_calendar(given: pd.DatetimeIndex) -> Bool[np.ndarray, " given"]:
    """Return which dates are not in Python's calendar, in any time zone."""
    if given.unit == "ns":  # from 1677 to 2262
        return np.zeros(len(given), dtype=bool)
    first, last = (np.datetime64(day).astype(f"datetime64[{given.unit}]").astype(np.int64) for day in CALENDAR)
    return np.asarray((given.asi8 < first) | (given.asi8 > last))


def _as_dates_or_numbers(given: pd.Index, place: Place) -> pd.Index:
    """Return dates in microseconds, integers in int64, other numbers in float64. Refuse anything else."""
    check_present(given, place)
    if isinstance(given, pd.DatetimeIndex):
        check_years(given, place)
        return given.as_unit("us")
    if isinstance(given, pd.TimedeltaIndex):
        raise InputError(
            f"Expected times to be dates or numbers, got durations such as {given[0]}. Add the date from which "
            "they count, or convert them to seconds with total_seconds()."
        )
    if pd.api.types.is_integer_dtype(given.dtype):
        return pd.Index(_as_int64(given, place))
    if pd.api.types.is_float_dtype(given.dtype):
        return pd.Index(_as_float64(given, place))
    raise InputError(
        f"Expected times to be dates or numbers, got {given.dtype}. Convert them first, as pandas.to_datetime does."
    )


def _as_int64(given: pd.Index, place: Place) -> Int[np.ndarray, " given"]:
    is_too_large = np.asarray((given > LARGEST_INTEGER) | (given < -LARGEST_INTEGER))
    if is_too_large.any():
        raise too_large_error(str(given[is_too_large][0]), place(int(np.argmax(is_too_large))))
    return np.asarray(given, dtype=np.int64)


def _as_float64(given: pd.Index, place: Place) -> Float[np.ndarray, " given"]:
    numbers = np.asarray(given)
    is_infinite = ~np.isfinite(numbers)
    if is_infinite.any():
        raise InputError(
            f"Expected finite times, got {numbers[is_infinite][0]} in {place(int(np.argmax(is_infinite)))}."
        )
    # Through text, so that 0.1 in float32 becomes 0.1, and not 0.10000000149.
    wide = numbers if numbers.dtype == np.float64 else numbers.astype(str).astype(np.float64)
    is_too_large = np.abs(wide) > LARGEST_TIME
    if is_too_large.any():
        raise InputError(
            f"Expected times of at most {LARGEST_TIME:g} in size, got {wide[is_too_large][0]} in "
            f"{place(int(np.argmax(is_too_large)))}. Correct it, or count from a later start."
        )
    return wide


def _as_plain_numbers(times: pd.Index) -> Shaped[np.ndarray, " times"]:
    """Return numbers as they are, and dates as microseconds since 1970 (in UTC if they have a time zone)."""
    return np.asarray(times.asi8 if isinstance(times, pd.DatetimeIndex) else times)


def _check_distinct(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> None:
    is_repeated = np.asarray(ordered[1:] == ordered[:-1])
    if is_repeated.any():
        first = int(np.argmax(is_repeated))
        raise InputError(
            f"Expected each time once, got {show_time(ordered[first])} in {place(int(order[first]))} and "
            f"{place(int(order[first + 1]))}. ",
            repeated_time_hint(ordered[first]),
        )


def _date_grid(
    ordered: pd.DatetimeIndex, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.DatetimeIndex, Int[np.ndarray, " given"]]:
    """Return all dates from the first to the last, with their step as `freq`, and the rank of each given one."""
    if len(ordered) == 1:
        return pd.DatetimeIndex(ordered, freq=None), np.zeros(1, dtype=np.int64)
    wall = wall_times(ordered, DAY)
    steps = None if wall is None else as_months(wall) or as_days(wall)
    steps = steps or as_fixed_steps(ordered) or as_clock_hours(ordered)
    if steps is None:
        raise _irregular(ordered, order, place)
    _check_length(steps.ranks, ordered)
    return date_range(steps.start, int(steps.ranks[-1]) + 1, steps.offset, ordered.tz), steps.ranks


def _number_grid(
    ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.Index, Int[np.ndarray, " given"]]:
    """Return all numbers from the first to the last, and the rank of each given one. Given numbers do not change."""
    numbers = ordered.to_numpy()
    is_integer = np.issubdtype(numbers.dtype, np.integer)
    if len(numbers) == 1:
        return (pd.RangeIndex(numbers[0], numbers[0] + 1) if is_integer else ordered), np.zeros(1, dtype=np.int64)
    step = most_common(np.diff(numbers)) if is_integer else 0
    ranks = whole_steps(numbers, step) if is_integer else rank_numbers(numbers)
    if ranks is None:
        raise _irregular(ordered, order, place)
    _check_length(ranks, ordered)
    if is_integer:
        return pd.RangeIndex(int(numbers[0]), int(numbers[-1]) + step, step), ranks
    times = np.linspace(numbers[0], numbers[-1], int(ranks[-1]) + 1)
    decimals = decimals_of(numbers)
    if decimals is not None:
        # With more digits than the given ones, the added numbers would make all count as exact.
        times = np.round(times, decimals)
    times[ranks] = numbers
    return pd.Index(times), ranks


def _number_step(times: pd.Index) -> float:
    if isinstance(times, pd.RangeIndex):
        return float(times.step)
    return 1.0 if len(times) == 1 else float((times[-1] - times[0]) / (len(times) - 1))


def _irregular(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> InputError:
    """Return the error for times without a common step. It names the first pair that breaks it."""
    numbers = _as_plain_numbers(ordered)
    differences = np.diff(numbers)
    is_date = isinstance(ordered, pd.DatetimeIndex)
    is_whole = np.issubdtype(numbers.dtype, np.integer)
    usual = most_common(differences) if is_date else lower_median(differences)
    # Both numbers of a difference may be off.
    tolerance = NUMBER_TOLERANCE if is_whole else 2 * number_tolerance(numbers, usual) / usual
    with np.errstate(over="ignore", invalid="ignore"):  # 1e100 may follow 1e-300
        in_steps = differences / usual
        remainder = np.nan_to_num(np.abs(in_steps - np.rint(in_steps)))
    is_broken = (remainder > tolerance) | (differences < usual * (1 - tolerance))
    # If no pair is far off, many are slightly off: then name the worst.
    broken = int(np.argmax(is_broken if is_broken.any() else remainder))
    is_usual = np.abs(in_steps - 1) <= tolerance
    most_are = "most are" if 2 * np.count_nonzero(is_usual) >= len(differences) else "a usual one is"
    common, came = (
        _duration_in_words(pd.Timedelta(int(step), unit="us")) if is_date else f"{step:g}"
        for step in (usual, differences[broken])
    )
    return InputError(
        f"Expected equal steps in time ({most_are} {common}), got {came} from {show_time(ordered[broken])} to "
        f"{show_time(ordered[broken + 1])} ({place(int(order[broken + 1]))}). Resample to equal steps first, for "
        "example with pandas' resample."
    )


def _check_length(ranks: Int[np.ndarray, " given"], ordered: pd.Index) -> None:
    """Raise an `InputError` if far more steps are missing than given."""
    gaps = np.diff(ranks)
    is_sparse = 2 * np.count_nonzero(gaps == 1) < len(gaps)
    most = (LARGEST_SPARSE_GRID if is_sparse else LARGEST_GRID) * len(ordered)
    num_steps = int(ranks[-1]) + 1
    if num_steps <= most:
        return
    widest = int(np.argmax(gaps))
    # One wide gap is a mistyped time, many are not.
    is_mistyped = num_steps - gaps[widest] < most
    cure = "Correct a mistyped time, or resample." if is_mistyped else "Resample to longer steps, as pandas does."
    raise InputError(
        f"Expected equal steps in time, got {len(ordered)} times for {num_steps:,} steps; the widest gap is from "
        f"{show_time(ordered[widest])} to {show_time(ordered[widest + 1])}. {cure}"
    )


def _describe_gaps(times: pd.Index, ranks: Int[np.ndarray, " given"]) -> Message:
    is_missing = np.ones(len(times), dtype=bool)
    is_missing[ranks] = False
    missing = times[is_missing]
    verb = "is" if len(missing) == 1 else "are"
    found = f"{len(missing)} of {len(times)} steps {verb} missing, the first is {show_time(missing[0])}. "
    if all(_may_be_clock_change(time, months=(3, 4)) for time in missing):
        return Message(found, "The clocks go forward then: with ", Argument("time_zone"), " nothing is missing.")
    return Message(found, "Missing steps count as not observed.")


def _may_be_clock_change(time: object, months: tuple[int, ...] = (9, 10, 11)) -> bool:
    """Return whether the clocks may change at this local time: early on a Sunday in one of these months."""
    if not isinstance(time, pd.Timestamp) or time.tzinfo is not None:
        return False
    return time.day_of_week == 6 and time.month in months and time.hour <= 3


def _duration_in_words(duration: pd.Timedelta) -> str:
    """Return `1 hour`, `90 minutes`, `1 day 3 hours`."""
    counts = duration.components._asdict()
    return " ".join(_count(number, name.rstrip("s")) for name, number in counts.items() if number) or "0 seconds"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
