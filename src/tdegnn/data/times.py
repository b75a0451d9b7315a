"""When things were observed: equally spaced times, found in what a table says, gaps and all.

A step may be a fixed time (an hour), calendar days (23 hours when the clocks go forward), months, business days, hours
on the clock (00:00, 06:00, ... in summer and winter), or a number. `regularize` finds it, sorts, and leaves a place for
every step that is missing; where there is no such step it says between which two rows the spacing breaks. Reading times
from text, and from all else that people call a date, is left to `time_texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset

from tdegnn.errors import InputError

# Says where in the user's table the i-th time stands, as in "line 7 of cases.csv".
Place: TypeAlias = Callable[[int], str]

HOUR = 3_600_000_000  # in microseconds, the unit of all dates here
DAY = 24 * HOUR
# Where more than so many steps come on one that was observed, a year is mistyped or there is no common step. A stock
# exchange that is closed at night and on weekends has five hours for each that it is open.
LARGEST_GRID = 10
# The same where most times are more than a step apart, so that the step is not much to go by.
LARGEST_SPARSE_GRID = 4
# How far a time given as a number may lie from its place, as a part of the step: in any case, and at most.
NUMBER_TOLERANCE = 1e-3
LARGEST_NUMBER_TOLERANCE = 0.25
# Numbers with more decimals than this were computed, not written.
MOST_DECIMALS = 6
# Integers up to this size have differences that int64 holds.
LARGEST_INTEGER = 2**62


@dataclass(frozen=True)
class RegularTimes:
    """Equally spaced times, and where each given time lies in them.

    Attributes:
        times: All times from the first to the last, none left out.
        positions: For each given time, in the order given, its index in `times`.
        notes: What the user should know.
    """

    times: pd.Index
    positions: Int[np.ndarray, " given"]
    notes: tuple[str, ...]


def regularize(given: pd.Index, place: Place = "entry {}".format) -> RegularTimes:
    """Sort times, find their step, and add the ones that are missing.

    Args:
        given: Dates or numbers, in any order, each once.
        place: Says where the i-th of them stands, for messages.
    """
    if len(given) == 0:
        raise InputError("Expected at least one time, got none.")
    given = _as_dates_or_numbers(given, place)
    order = np.argsort(_as_plain_numbers(given), kind="stable")
    ordered = given[order]
    _check_distinct(ordered, order, place)
    notes = [] if (np.diff(order) > 0).all() else ["The times were not in order; they were sorted."]
    if isinstance(ordered, pd.DatetimeIndex):
        times, ranks = _date_grid(ordered, order, place)
    else:
        times, ranks = _number_grid(ordered, order, place)
    positions = np.empty(len(given), dtype=np.int64)
    positions[order] = ranks
    if isinstance(times, pd.DatetimeIndex) and isinstance(times.freq, pd.offsets.BusinessDay):
        notes.append("There is nothing on weekends: the steps are business days.")
    if isinstance(times, pd.DatetimeIndex) and _clock_hours_of(times.freq):
        notes.append(f"The steps are {describe_step(times)} on the clock, longer or shorter where the clocks change.")
    if len(times) > len(given):
        notes.append(_describe_gaps(times, ranks))
    return RegularTimes(times, positions, tuple(notes))


def check_regular(times: pd.Index) -> pd.Index:
    """Return `times` with their step known; raise an `InputError` where they are not equally spaced and in order."""
    if isinstance(times, pd.RangeIndex) and times.step > 0:
        return times
    if isinstance(times, pd.DatetimeIndex) and _has_known_step(times.as_unit("us")):
        return times.as_unit("us")
    times = _as_dates_or_numbers(times, "entry {}".format)
    if times.dtype == np.float64 and _is_evenly_spaced(times.to_numpy()):
        return times
    found = regularize(times)
    if len(found.times) != len(times) or (np.diff(found.positions) != 1).any():
        missing = len(found.times) - len(times)
        problem = f"{_count(missing, 'step')} missing" if missing else "times that are not in order"
        raise InputError(
            f"Expected equally spaced times in order, got {problem}. "
            "Use Panel.from_array or read_panel, which sort them and leave a place for what is missing."
        )
    return found.times


def future_times(times: pd.Index, horizon: int) -> pd.Index:
    """The next `horizon` times after the last one."""
    if isinstance(times, pd.DatetimeIndex):
        offset = times.freq
        if offset is None:
            raise InputError("Expected at least two times to know what comes next, got one.")
        start = times[-1] if _is_fixed(offset) else _wall_times_of_step(times, offset)[-1]
        return _date_range(start, horizon + 1, offset, times.tz)[1:]
    if isinstance(times, pd.RangeIndex):
        return pd.RangeIndex(times[-1] + times.step, times[-1] + times.step * (horizon + 1), times.step)
    return pd.Index(times[-1] + _number_step(times) * np.arange(1, horizon + 1))


def describe_step(times: pd.Index) -> str:
    """The step in words: `1 hour`, `7 days`, `1 month`; a number for times that are numbers."""
    if not isinstance(times, pd.DatetimeIndex):
        return f"{_number_step(times):g}"
    offset = times.freq
    if offset is None:
        return "unknown"
    if isinstance(offset, pd.offsets.BusinessDay):
        return "1 business day"
    months = _months_of(offset)
    if months:
        return _count(months // 12, "year") if months % 12 == 0 else _count(months, "month")
    if isinstance(offset, pd.offsets.Day):
        return _count(offset.n, "day")
    hours = _clock_hours_of(offset)
    return _duration_in_words(pd.Timedelta(hours=hours) if hours else pd.Timedelta(offset))


def show_time(time: object) -> str:
    """A time as people write it: no time of day at midnight, no rounding errors."""
    if isinstance(time, pd.Timestamp):
        wall = time.tz_localize(None)
        return f"{time:%Y-%m-%d}" if wall == wall.normalize() else str(time)
    return f"{time:.12g}" if isinstance(time, float) else str(time)


def repeated_time_hint(time: object) -> str:
    """What to do about a time that comes twice."""
    if may_be_clock_change(time):
        return "If the clocks went back then, write times with their UTC offset; in a wide table time_zone is enough."
    return "Keep one of them, or join them (mean, sum) before."


def localize_days(dates: pd.DatetimeIndex, zone: tzinfo) -> pd.DatetimeIndex:
    """Times that stand for days or other steps of the calendar, in a zone.

    Where the clocks skip such a time it is the next there is; where it comes twice, the first. Midnight in Santiago
    is 01:00 on one day in September, and the day is a day like the others.
    """
    return dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward")


def check_present(given: pd.Index, place: Place) -> None:
    """Raise an `InputError` where a time is missing."""
    is_missing = np.asarray(given.isna())
    if is_missing.any():
        where = place(int(np.argmax(is_missing)))
        raise InputError(f"Expected a time in every row, got none in {where}. Remove the row, or write the time.")


def too_large_error(number: str, where: str) -> InputError:
    """The error for an integer that is no time: int64 does not hold it, or not its distance from others."""
    return InputError(f"Expected times of at most 18 digits, got {number} in {where}. Count them from a later start.")


def _as_dates_or_numbers(given: pd.Index, place: Place) -> pd.Index:
    """Dates in microseconds, integers in int64, other numbers in float64; raise an `InputError` for anything else."""
    check_present(given, place)
    if isinstance(given, pd.DatetimeIndex):
        return given.as_unit("us")
    if isinstance(given, pd.TimedeltaIndex):
        raise InputError(
            f"Expected times to be dates or numbers, got durations such as {given[0]}. Add the date that they count "
            "from, or convert them to seconds with total_seconds()."
        )
    if pd.api.types.is_integer_dtype(given.dtype):
        return pd.Index(_as_int64(given, place))
    if pd.api.types.is_float_dtype(given.dtype):
        return pd.Index(_as_float64(given, place))
    raise InputError(
        f"Expected times to be dates or numbers, got {given.dtype}. Convert them before, as with pandas.to_datetime."
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
    # 0.1 in float32 is meant as 0.1, and not as the 0.10000000149 that it is.
    return numbers if numbers.dtype == np.float64 else numbers.astype(str).astype(np.float64)


def _as_plain_numbers(times: pd.Index) -> Shaped[np.ndarray, " times"]:
    """Numbers as they are; dates as microseconds since 1970, in UTC where they have a zone."""
    return np.asarray(times.asi8 if isinstance(times, pd.DatetimeIndex) else times)


def _check_distinct(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> None:
    is_repeated = np.asarray(ordered[1:] == ordered[:-1])
    if is_repeated.any():
        first = int(np.argmax(is_repeated))
        raise InputError(
            f"Expected each time once, got {show_time(ordered[first])} in {place(int(order[first]))} and "
            f"{place(int(order[first + 1]))}. {repeated_time_hint(ordered[first])}"
        )


@dataclass(frozen=True)
class _Steps:
    """A step that fits all dates given: from where it counts, and how many of it after that each date lies.

    Steps of the calendar count from a time without a zone: they go by the clock on the wall.
    """

    start: pd.Timestamp
    offset: BaseOffset
    ranks: Int[np.ndarray, " given"]


def _date_grid(
    ordered: pd.DatetimeIndex, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.DatetimeIndex, Int[np.ndarray, " given"]]:
    """All dates from first to last, with their step as `freq`, and the rank of each given one."""
    if len(ordered) == 1:
        return pd.DatetimeIndex(ordered, freq=None), np.zeros(1, dtype=np.int64)
    wall = _wall_times(ordered, DAY)
    steps = None if wall is None else _as_months(wall) or _as_days(wall)
    steps = steps or _as_fixed_steps(ordered) or _as_clock_hours(ordered)
    if steps is None:
        raise _irregular(ordered, order, place)
    _check_length(steps.ranks, ordered)
    return _date_range(steps.start, int(steps.ranks[-1]) + 1, steps.offset, ordered.tz), steps.ranks


def _date_range(start: pd.Timestamp, num_steps: int, offset: BaseOffset, zone: tzinfo | None) -> pd.DatetimeIndex:
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


def _wall_times(dates: pd.DatetimeIndex, period: int) -> pd.DatetimeIndex | None:
    """What a clock on the wall shows, where it is the same in each period (a day, six hours); None where it is not.

    Times that the clocks skip, and that `localize_days` gave as the next there is, are put back.
    """
    wall = dates.tz_localize(None)
    delay = (wall.asi8 - _most_common(wall.asi8 % period)) % period
    if not delay.any():
        return wall
    if dates.tz is None:
        return None
    meant = pd.DatetimeIndex((wall.asi8 - delay).view("datetime64[us]"))
    is_meant = (delay == 0) | np.asarray(localize_days(meant, dates.tz) == dates)
    return meant if is_meant.all() else None


def _wall_times_of_step(times: pd.DatetimeIndex, offset: BaseOffset) -> pd.DatetimeIndex:
    wall = _wall_times(times, _clock_hours_of(offset) * HOUR or DAY)
    return times.tz_localize(None) if wall is None else wall


def _as_months(wall: pd.DatetimeIndex) -> _Steps | None:
    """Steps in months, where all lie on one day of the month, or on its last."""
    months = np.asarray(wall.year * 12 + wall.month)
    if (np.diff(months) < 1).any() or (np.diff(wall.asi8) < 28 * DAY).any():
        return None
    step = _most_common(np.diff(months))
    ranks = _whole_steps(months, step)
    if ranks is None:
        return None
    if wall.is_month_end.all():
        return _Steps(wall[0], pd.offsets.MonthEnd(step), ranks)
    if (wall.day == wall.day[0]).all() and wall.day[0] <= 28:
        return _Steps(wall[0], pd.offsets.DateOffset(months=step), ranks)
    return None


def _as_days(wall: pd.DatetimeIndex) -> _Steps | None:
    """Steps in days or business days."""
    days = wall.asi8 // DAY
    step = _most_common(np.diff(days))
    ranks = _whole_steps(days, step)
    if ranks is None:
        return None
    if _has_no_weekends(wall, step):
        return _Steps(wall[0], pd.offsets.BusinessDay(), _business_ranks(wall))
    return _Steps(wall[0], pd.offsets.Day(step), ranks)


def _as_fixed_steps(ordered: pd.DatetimeIndex) -> _Steps | None:
    """Steps of a time that passes, whatever clocks show."""
    step = _most_common(np.diff(ordered.asi8))
    ranks = _whole_steps(ordered.asi8, step)
    if ranks is None:
        return None
    offset = to_offset(pd.Timedelta(step, unit="us"))
    # 24 hours are called a day by pandas 2, and its days are those of the calendar.
    fixed = pd.offsets.Hour(24 * offset.n) if isinstance(offset, pd.offsets.Day) else offset
    return _Steps(ordered[0], fixed, ranks)


def _as_clock_hours(ordered: pd.DatetimeIndex) -> _Steps | None:
    """Steps of some hours on the clock, as in 00:00, 06:00, ... in summer and winter.

    Two hours at least: of shorter steps one or more would vanish when the clocks go forward.
    """
    step = _most_common(np.diff(ordered.tz_localize(None).asi8))
    if step % HOUR != 0 or step < 2 * HOUR:
        return None
    wall = _wall_times(ordered, step)
    ranks = None if wall is None else _whole_steps(wall.asi8, step)
    return None if wall is None or ranks is None else _Steps(wall[0], pd.DateOffset(hours=step // HOUR), ranks)


def _has_no_weekends(wall: pd.DatetimeIndex, step: int) -> bool:
    spans_two_weekends = (wall[-1] - wall[0]).days >= 12
    return step == 1 and spans_two_weekends and bool((wall.day_of_week < 5).all())


def _business_ranks(wall: pd.DatetimeIndex) -> Int[np.ndarray, " given"]:
    days = wall.to_numpy().astype("datetime64[D]")
    return np.asarray(np.busday_count(days[0], days))


def _number_grid(
    ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.Index, Int[np.ndarray, " given"]]:
    """All numbers from first to last. Given ones stay as they are, to the last digit."""
    numbers = ordered.to_numpy()
    is_integer = np.issubdtype(numbers.dtype, np.integer)
    if len(numbers) == 1:
        return (pd.RangeIndex(numbers[0], numbers[0] + 1) if is_integer else ordered), np.zeros(1, dtype=np.int64)
    step = _most_common(np.diff(numbers)) if is_integer else 0
    ranks = _whole_steps(numbers, step) if is_integer else _number_ranks(numbers)
    if ranks is None:
        raise _irregular(ordered, order, place)
    _check_length(ranks, ordered)
    if is_integer:
        return pd.RangeIndex(int(numbers[0]), int(numbers[-1]) + step, step), ranks
    times = np.linspace(numbers[0], numbers[-1], int(ranks[-1]) + 1)
    decimals = _decimals_of(numbers)
    if decimals is not None:
        # What is added has no more digits than what was given, else these would count as exact.
        times = np.round(times, decimals)
    times[ranks] = numbers
    return pd.Index(times), ranks


def _number_ranks(numbers: Float[np.ndarray, " given"]) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all."""
    differences = np.diff(numbers)
    usual = _median(differences)
    # 60 times a second is written as 0.017, 0.033, 0.05: no single difference is the step, their mean is.
    step = differences[(differences > usual / 2) & (differences < usual * 3 / 2)].mean()
    steps = np.rint(differences / step)
    if steps.min() < 1 or steps.sum() > LARGEST_INTEGER:
        return None
    ranks = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    step = (numbers[-1] - numbers[0]) / ranks[-1]
    is_near = np.abs(numbers - numbers[0] - step * ranks) <= _number_tolerance(numbers, step)
    return ranks if is_near.all() else None


def _is_evenly_spaced(numbers: Float[np.ndarray, " given"]) -> bool:
    """Whether numbers in order, none missing, lie so near to their places that they may be part of a regular series.

    Of a part the first and the last lie elsewhere than those of the whole: it may be off by twice as much.
    """
    if len(numbers) < 2 or not (np.diff(numbers) > 0).all():
        return False
    places, step = np.linspace(numbers[0], numbers[-1], len(numbers), retstep=True)
    return bool((np.abs(numbers - places) <= 2 * _number_tolerance(numbers, float(step))).all())


def _number_tolerance(numbers: Float[np.ndarray, " given"], step: float) -> float:
    """How far a number may lie from its place between the first and the last.

    Where all are written with few decimals it is one of the last: half for the number itself, half for the ends.
    """
    decimals = _decimals_of(numbers)
    # Whole numbers count something, they are not rounded.
    last_digit = 10.0**-decimals if decimals else 0.0
    return max(NUMBER_TOLERANCE * step, min(last_digit, LARGEST_NUMBER_TOLERANCE * step))


def _decimals_of(numbers: Float[np.ndarray, " given"]) -> int | None:
    """How many decimals are enough to write all numbers; None where that would be too many."""
    candidates = range(MOST_DECIMALS + 1)
    return next((count for count in candidates if (np.round(numbers, count) == numbers).all()), None)


def _median(differences: Shaped[np.ndarray, " differences"]) -> float:
    """The median, or the smaller of the two in the middle: a difference that there is."""
    return float(np.quantile(differences, 0.5, method="lower"))


def _number_step(times: pd.Index) -> float:
    if isinstance(times, pd.RangeIndex):
        return float(times.step)
    return 1.0 if len(times) == 1 else float((times[-1] - times[0]) / (len(times) - 1))


def _most_common(differences: Int[np.ndarray, " differences"]) -> int:
    values, counts = np.unique(differences, return_counts=True)
    return int(values[np.argmax(counts)])


def _whole_steps(numbers: Int[np.ndarray, " given"], step: int) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all, or not more each time."""
    if (np.diff(numbers) < 1).any():
        return None
    ranks, rest = np.divmod(numbers - numbers[0], step)
    return None if rest.any() else ranks.astype(np.int64)


def _irregular(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> InputError:
    """The error for times without a common step, naming the first pair that breaks it."""
    numbers = _as_plain_numbers(ordered)
    differences = np.diff(numbers)
    is_date = isinstance(ordered, pd.DatetimeIndex)
    is_whole = np.issubdtype(numbers.dtype, np.integer)
    usual = _most_common(differences) if is_date else _median(differences)
    # A difference has two numbers that may each be off.
    tolerance = NUMBER_TOLERANCE if is_whole else 2 * _number_tolerance(numbers, usual) / usual
    remainder = np.abs(differences / usual - np.rint(differences / usual))
    is_broken = (remainder > tolerance) | (differences < usual * (1 - tolerance))
    # Where no pair is far off, many are a little: then the worst is named.
    broken = int(np.argmax(is_broken if is_broken.any() else remainder))
    is_usual = np.abs(differences / usual - 1) <= tolerance
    most_are = "most are" if 2 * np.count_nonzero(is_usual) >= len(differences) else "a usual one is"
    common, came = (
        _duration_in_words(pd.Timedelta(int(step), unit="us")) if is_date else f"{step:g}"
        for step in (usual, differences[broken])
    )
    return InputError(
        f"Expected equal steps in time ({most_are} {common}), got {came} from {show_time(ordered[broken])} to "
        f"{show_time(ordered[broken + 1])} ({place(int(order[broken + 1]))}). Resample to equal steps before, "
        "as with pandas' resample."
    )


def _check_length(ranks: Int[np.ndarray, " given"], ordered: pd.Index) -> None:
    """Raise an `InputError` where far more steps are missing than given."""
    gaps = np.diff(ranks)
    is_sparse = 2 * np.count_nonzero(gaps == 1) < len(gaps)
    most = (LARGEST_SPARSE_GRID if is_sparse else LARGEST_GRID) * len(ordered)
    num_steps = int(ranks[-1]) + 1
    if num_steps <= most:
        return
    widest = int(np.argmax(gaps))
    # One wide gap is a mistake, many are not.
    is_mistyped = num_steps - gaps[widest] < most
    cure = "Correct a mistyped time, or resample." if is_mistyped else "Resample to longer steps, as with pandas."
    raise InputError(
        f"Expected equal steps in time, got {len(ordered)} times for {num_steps:,} steps; the widest gap is from "
        f"{show_time(ordered[widest])} to {show_time(ordered[widest + 1])}. {cure}"
    )


def _describe_gaps(times: pd.Index, ranks: Int[np.ndarray, " given"]) -> str:
    is_missing = np.ones(len(times), dtype=bool)
    is_missing[ranks] = False
    missing = times[is_missing]
    more = " They count as not observed."
    if all(may_be_clock_change(time, months=(3, 4)) for time in missing):
        more = " The clocks go forward then: say the time_zone, and nothing is missing."
    verb = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {len(times)} steps {verb} missing, the first is {show_time(missing[0])}.{more}"


def may_be_clock_change(time: object, months: tuple[int, ...] = (9, 10, 11)) -> bool:
    """Whether clocks may change at this time without a zone: a Sunday, in the small hours; back in autumn."""
    if not isinstance(time, pd.Timestamp) or time.tzinfo is not None:
        return False
    return time.day_of_week == 6 and time.month in months and time.hour <= 3


def _has_known_step(times: pd.DatetimeIndex) -> bool:
    """Whether the step is one that `regularize` writes; pandas has others, as in a week that ends on Sunday."""
    offset = times.freq
    if offset is None or offset.n < 1:
        return False
    hours = _clock_hours_of(offset)
    if hours:
        # With pandas these may as well be hours that pass.
        wall = None if times.tz is None else _wall_times(times, hours * HOUR)
        return wall is not None and bool((np.diff(wall.asi8) == hours * HOUR).all())
    return _is_fixed(offset) or isinstance(offset, (pd.offsets.Day, pd.offsets.BusinessDay)) or _months_of(offset) > 0


def _is_fixed(offset: BaseOffset) -> bool:
    """Whether a step is a time that passes. The days of pandas 2 are none, though it says so."""
    return isinstance(offset, pd.offsets.Tick) and not isinstance(offset, pd.offsets.Day)


def _clock_hours_of(offset: BaseOffset | None) -> int:
    return 0 if offset is None else int(getattr(offset, "kwds", {}).get("hours", 0)) * int(offset.n)


def _months_of(offset: BaseOffset) -> int:
    if isinstance(offset, pd.offsets.MonthEnd):
        return int(offset.n)
    return int(getattr(offset, "kwds", {}).get("months", 0)) * int(offset.n)


def _duration_in_words(duration: pd.Timedelta) -> str:
    """`1 hour`, `90 minutes`, `1 day 3 hours`."""
    counts = duration.components._asdict()
    return " ".join(_count(number, name.rstrip("s")) for name, number in counts.items() if number) or "0 seconds"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
