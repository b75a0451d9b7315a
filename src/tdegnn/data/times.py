"""When things were observed: equally spaced times, found in what a table says, gaps and all.

A step may be a fixed time (an hour), calendar days (23 hours when the clocks go forward), months, business days, or a
number. `regularize` finds it, sorts, and leaves a place for every step that is missing; where there is no such step
it says between which two rows the spacing breaks. Reading times from text is left to `time_texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Int, Shaped
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset

from tdegnn.errors import InputError

# Says where in the user's table the i-th time stands, as in "line 7 of cases.csv".
Place: TypeAlias = Callable[[int], str]

DAY = 86_400_000_000  # in microseconds, the unit of all dates here
# Where more than so many steps come on one that was observed, a year is mistyped or there is no common step.
LARGEST_GRID = 4
# How far a time given as a number may lie from its place, as a part of the step.
NUMBER_TOLERANCE = 1e-3


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
    given = to_microseconds(given, place)
    order = np.argsort(_as_numbers(given), kind="stable")
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
    if len(times) > len(given):
        notes.append(_describe_gaps(times, ranks))
    return RegularTimes(times, positions, tuple(notes))


def check_regular(times: pd.Index) -> pd.Index:
    """Return `times` with their step known; raise an `InputError` where they are not equally spaced and in order."""
    if isinstance(times, pd.RangeIndex) and times.step > 0:
        return times
    if isinstance(times, pd.DatetimeIndex) and _is_known(times.freq):
        return times.as_unit("us")
    found = regularize(times)
    if len(found.times) != len(times) or (np.diff(found.positions) != 1).any():
        missing = len(found.times) - len(times)
        problem = f"{missing} steps missing" if missing else "times that are not in order"
        raise InputError(f"Expected equally spaced times in order, got {problem}. Read them with read_panel.")
    return found.times


def future_times(times: pd.Index, horizon: int) -> pd.Index:
    """The next `horizon` times after the last one."""
    if isinstance(times, pd.DatetimeIndex):
        if times.freq is None:
            raise InputError("Expected at least two times to know what comes next, got one.")
        return pd.date_range(times[-1], periods=horizon + 1, freq=times.freq)[1:]
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
    return _in_words(pd.Timedelta(offset))


def show_time(time: object) -> str:
    """A time as people write it: no time of day at midnight, no rounding errors."""
    if isinstance(time, pd.Timestamp):
        is_midnight = time == time.normalize()
        return f"{time:%Y-%m-%d}" if is_midnight else str(time)
    return f"{time:.12g}" if isinstance(time, float) else str(time)


def to_microseconds(given: pd.Index, place: Place) -> pd.Index:
    """Dates in microseconds, without missing ones; numbers as they are, but finite."""
    is_missing = np.asarray(given.isna())
    if is_missing.any():
        raise InputError(f"Expected a time in every row, got none in {place(int(np.argmax(is_missing)))}.")
    if isinstance(given, pd.DatetimeIndex):
        return given.as_unit("us")
    numbers = given.to_numpy()
    if not np.issubdtype(numbers.dtype, np.number) or np.iscomplexobj(numbers):
        raise InputError(f"Expected times to be dates or numbers, got {given.dtype}.")
    is_infinite = ~np.isfinite(numbers)
    if is_infinite.any():
        raise InputError(
            f"Expected finite times, got {numbers[is_infinite][0]} in {place(int(np.argmax(is_infinite)))}."
        )
    return given


def _as_numbers(times: pd.Index) -> Shaped[np.ndarray, " times"]:
    """Numbers as they are; dates as microseconds since 1970, in UTC where they have a zone."""
    return np.asarray(times.asi8 if isinstance(times, pd.DatetimeIndex) else times)


def _check_distinct(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> None:
    is_repeated = np.asarray(ordered[1:] == ordered[:-1])
    if not is_repeated.any():
        return
    first = int(np.argmax(is_repeated))
    time = ordered[first]
    hint = "Keep one of them, or join them (mean, sum) before."
    if may_be_clock_change(time):
        hint = "If the clocks went back then, write times with their UTC offset, or say the time_zone."
    raise InputError(
        f"Expected each time once, got {show_time(time)} in {place(int(order[first]))} and "
        f"{place(int(order[first + 1]))}. {hint}"
    )


def _date_grid(
    ordered: pd.DatetimeIndex, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.DatetimeIndex, Int[np.ndarray, " given"]]:
    """All dates from first to last, with their step as `freq`, and the rank of each given one."""
    if len(ordered) == 1:
        return pd.DatetimeIndex(ordered, freq=None), np.zeros(1, dtype=np.int64)
    # What a clock on the wall shows. Days and months are counted in it, fixed times are not.
    wall = ordered.tz_localize(None).asi8
    months = _as_months(ordered)
    if months is not None:
        return _ranked(ordered, *months)
    if (np.diff(wall) % DAY == 0).all():
        step = _most_common(np.diff(wall) // DAY)
        ranks = _whole_steps(wall // DAY, step)
        if ranks is not None and _has_no_weekends(ordered, step):
            return _ranked(ordered, pd.offsets.BusinessDay(), _business_ranks(ordered))
        if ranks is not None:
            return _ranked(ordered, pd.offsets.Day(step), ranks)
    else:
        step = _most_common(np.diff(ordered.asi8))
        ranks = _whole_steps(ordered.asi8, step)
        if ranks is not None:
            return _ranked(ordered, to_offset(pd.Timedelta(step, unit="us")), ranks)
    raise _irregular(ordered, order, place)


def _ranked(
    ordered: pd.DatetimeIndex, offset: BaseOffset, ranks: Int[np.ndarray, " given"]
) -> tuple[pd.DatetimeIndex, Int[np.ndarray, " given"]]:
    _check_length(int(ranks[-1]) + 1, ordered)
    times = pd.date_range(ordered[0], periods=int(ranks[-1]) + 1, freq=offset, unit="us")
    return times, ranks


def _as_months(ordered: pd.DatetimeIndex) -> tuple[BaseOffset, Int[np.ndarray, " given"]] | None:
    """The step in months and the rank of each date, where all lie on one day of the month, or on its last."""
    wall = ordered.tz_localize(None)
    months = np.asarray(wall.year * 12 + wall.month)
    if (np.diff(months) < 1).any() or (np.diff(wall.asi8) < 28 * DAY).any():
        return None
    if (wall.asi8 % DAY != wall.asi8[0] % DAY).any():
        return None
    step = _most_common(np.diff(months))
    ranks = _whole_steps(months, step)
    if ranks is None:
        return None
    if wall.is_month_end.all():
        return pd.offsets.MonthEnd(step), ranks
    if (wall.day == wall.day[0]).all() and wall.day[0] <= 28:
        return pd.offsets.DateOffset(months=step), ranks
    return None


def _has_no_weekends(ordered: pd.DatetimeIndex, step: int) -> bool:
    spans_two_weekends = (ordered[-1] - ordered[0]).days >= 12
    return step == 1 and spans_two_weekends and bool((ordered.day_of_week < 5).all())


def _business_ranks(ordered: pd.DatetimeIndex) -> Int[np.ndarray, " given"]:
    days = ordered.tz_localize(None).to_numpy().astype("datetime64[D]")
    return np.asarray(np.busday_count(days[0], days))


def _number_grid(
    ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place
) -> tuple[pd.Index, Int[np.ndarray, " given"]]:
    """All numbers from first to last. Given ones stay as they are, to the last digit."""
    numbers = ordered.to_numpy()
    if len(numbers) == 1:
        ranks: Int[np.ndarray, " given"] | None = np.zeros(1, dtype=np.int64)
        step = 1
    elif np.issubdtype(numbers.dtype, np.integer):
        step = _most_common(np.diff(numbers))
        ranks = _whole_steps(numbers, step)
    else:
        distances = (numbers - numbers[0]) / np.median(np.diff(numbers))
        ranks = np.rint(distances).astype(np.int64)
        if np.abs(distances - ranks).max() > NUMBER_TOLERANCE or (np.diff(ranks) < 1).any():
            ranks = None
    if ranks is None:
        raise _irregular(ordered, order, place)
    _check_length(int(ranks[-1]) + 1, ordered)
    if np.issubdtype(numbers.dtype, np.integer):
        return pd.RangeIndex(int(numbers[0]), int(numbers[-1]) + step, step), ranks
    return pd.Index(np.interp(np.arange(ranks[-1] + 1), ranks, numbers)), ranks


def _number_step(times: pd.Index) -> float:
    if isinstance(times, pd.RangeIndex):
        return float(times.step)
    return 1.0 if len(times) == 1 else float((times[-1] - times[0]) / (len(times) - 1))


def _most_common(differences: Int[np.ndarray, " differences"]) -> int:
    values, counts = np.unique(differences, return_counts=True)
    return int(values[np.argmax(counts)])


def _whole_steps(numbers: Int[np.ndarray, " given"], step: int) -> Int[np.ndarray, " given"] | None:
    """How many steps each number lies after the first; None where that is not whole for all."""
    ranks, rest = np.divmod(numbers - numbers[0], step)
    return None if rest.any() else ranks.astype(np.int64)


def _irregular(ordered: pd.Index, order: Int[np.ndarray, " given"], place: Place) -> InputError:
    """The error for times without a common step, naming the first pair that breaks it."""
    differences = np.diff(_as_numbers(ordered))
    is_date = isinstance(ordered, pd.DatetimeIndex)
    usual = _most_common(differences) if is_date else np.median(differences)
    remainder = np.abs(differences / usual - np.rint(differences / usual))
    broken = int(np.argmax((remainder > NUMBER_TOLERANCE) | (differences < usual * (1 - NUMBER_TOLERANCE))))
    common, came = (
        _in_words(pd.Timedelta(int(step), unit="us")) if is_date else f"{step:g}"
        for step in (usual, differences[broken])
    )
    return InputError(
        f"Expected equal steps in time (most are {common}), got {came} from {show_time(ordered[broken])} to "
        f"{show_time(ordered[broken + 1])} ({place(int(order[broken + 1]))}). Resample to equal steps before, "
        "as with pandas' resample."
    )


def _check_length(num_steps: int, ordered: pd.Index) -> None:
    if num_steps > LARGEST_GRID * len(ordered):
        widest = int(np.argmax(np.diff(_as_numbers(ordered))))
        raise InputError(
            f"Expected equal steps in time, got {len(ordered)} times for {num_steps:,} steps; the widest gap is from "
            f"{show_time(ordered[widest])} to {show_time(ordered[widest + 1])}. Correct a mistyped time, or resample."
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


def _is_known(offset: BaseOffset | None) -> bool:
    """Whether a step is written as `regularize` writes it. pandas has other ways, as in a week that ends on Sunday."""
    fixed = (pd.offsets.Tick, pd.offsets.Day, pd.offsets.BusinessDay)
    return offset is not None and (isinstance(offset, fixed) or _months_of(offset) > 0)


def _months_of(offset: BaseOffset) -> int:
    if isinstance(offset, pd.offsets.MonthEnd):
        return int(offset.n)
    return int(getattr(offset, "kwds", {}).get("months", 0)) * int(offset.n)


def _in_words(duration: pd.Timedelta) -> str:
    """`1 hour`, `90 minutes`, `1 day 3 hours`."""
    counts = duration.components._asdict()
    return " ".join(_count(number, name.rstrip("s")) for name, number in counts.items() if number) or "0 seconds"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
