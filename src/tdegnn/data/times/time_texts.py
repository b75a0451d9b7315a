"""Times as people write them, read without guessing.

Text may be ISO 8601 (`2024-03-01`, `2024-03-01 13:00`, `2024-03-01T13:00+01:00`), numbers, `20240301`, or dates such as
`31.12.2024` if the column itself shows which number is the day. `03/04/2024` alone does not show it: then the user has
to pass the format. Dates, periods and numbers of any type are read too. One column has one time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jaxtyping import Shaped

from tdegnn.data.times.steps import LARGEST_INTEGER, localize_days
from tdegnn.data.times.times import Place, check_present, check_years, is_beyond_calendar, too_large_error
from tdegnn.errors import Argument, InputError

# At the end of a time of day: 13:00Z, 13:00 UTC, 13:00+01:00, 13:00 +0100; PostgreSQL writes 13:00+01.
OFFSET = re.compile(r"(?<=\d) ?(Z|UTC|[+-]\d\d(?::?\d\d)?)$")
# Anywhere in the text, for a format that the user gives. The last match counts, since 2024-0301 looks like one too.
OFFSET_ANYWHERE = re.compile(r"Z|[+-]\d\d:?\d\d")
# 31.12.2024, 12/31/2024 or 31-12-2024, perhaps followed by a time of day.
DAY_AND_MONTH = re.compile(r"^(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}:\d\d(:\d\d)?))?$")
WHOLE_NUMBER = re.compile(r"[+-]?\d+$")
# Formats of dates written as one number, by its number of digits. Only eight digits are read without a time format.
FORMATS_OF_DIGITS = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
FIRST_YEAR, LAST_YEAR = 1800, 2200
EXAMPLES = "such as 2024-03-01 or 2024-03-01 13:00"


def read_times(
    texts: Sequence[str], place: Place, time_format: str | None = None, time_zone: str | None = None
) -> pd.Index:
    """Read a column of times.

    Args:
        texts: The cells of the column.
        place: Returns the place of the i-th cell, for messages.
        time_format: How times are written, as for `strptime`. If None, found in the column.
        time_zone: Name of a time zone. Times without a UTC offset are local times of it, other times are converted.
    """
    if time_format is not None:
        return _read_with(time_format, texts, place, time_zone)
    numbers = _as_plain_numbers(texts, place)
    if numbers is not None:
        return _dates_among(numbers, place, time_zone)
    if any(DAY_AND_MONTH.match(text) for text in texts):
        return _read_with(_find_format(texts, place), texts, place, time_zone)
    return _read_iso(texts, place, time_zone)


def as_times(
    values: Any,
    place: Place = "entry {}".format,
    time_format: str | None = None,
    time_zone: str | None = None,
) -> pd.Index:
    """Return dates or numbers for `regularize`, from times of any type.

    Args:
        values: One-dimensional: text, dates of Python, NumPy, pandas or Arrow, periods (their start counts), numbers.
        place: Returns the place of the i-th value, for messages.
        time_format: How text and numbers are written, see `read_times`.
        time_zone: Name of a time zone, see `in_zone`.
    """
    index = _as_index(values)
    check_present(index, place)
    if isinstance(index, pd.PeriodIndex):
        try:
            index = index.to_timestamp()
        except pd.errors.OutOfBoundsDatetime as error:
            raise InputError(f"Expected periods of the years 1 to 9999, got others: {error}.") from error
    if isinstance(index, pd.DatetimeIndex):
        return in_zone(index, time_zone, place)
    if not isinstance(index.dtype, np.dtype) or index.dtype == object:
        return _from_objects(index.tolist(), place, time_format, time_zone)
    if index.dtype.kind not in "iuf":
        return index  # durations and other types, which `regularize` refuses
    if time_format is not None:
        return _read_with(time_format, [_shortest(number) for number in index], place, time_zone)
    if isinstance(index, pd.RangeIndex) and time_zone is None:
        return index
    return _dates_among(index.to_numpy(), place, time_zone)


def in_zone(dates: pd.DatetimeIndex, time_zone: str | None, place: Place = "entry {}".format) -> pd.DatetimeIndex:
    """Return dates in a time zone: dates without a zone are local times of it, other dates are converted."""
    check_years(dates, place)
    if time_zone is None:
        return dates
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"Expected a time zone such as Europe/Berlin or UTC, got {time_zone!r}.") from error
    if dates.tz is not None:
        return dates.tz_convert(zone)
    if _is_once_a_day(dates):
        return localize_days(dates, zone)
    # The order of the rows tells the two hours apart that have the same local time.
    is_newest_first = dates[-1] < dates[0]
    return _localize(dates[::-1], zone)[::-1] if is_newest_first else _localize(dates, zone)


def _is_once_a_day(dates: pd.DatetimeIndex) -> bool:
    """Return whether dates without a zone are whole days, or the same time of day on different days."""
    clock = dates - dates.normalize()
    if (clock != clock[0]).any():
        return False
    return clock[0] == pd.Timedelta(0) or (len(dates) > 1 and dates.is_unique)


def _localize(dates: pd.DatetimeIndex, zone: ZoneInfo) -> pd.DatetimeIndex:
    """Return local times of a zone. Dates are in order, at least around a change of the clocks."""
    try:
        local = dates.tz_localize(zone, ambiguous="infer", nonexistent="raise")
    except Exception as error:  # pandas 2 raises errors of pytz, which share no base class but this
        # The message of pandas contains the time.
        time = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", str(error))
        raise _clock_change_error(zone, time.group() if time else None) from error
    if not local.is_monotonic_increasing:
        comes_twice = np.asarray(dates.tz_localize(zone, ambiguous="NaT").isna())
        if comes_twice.any():
            raise _clock_change_error(zone, str(dates[comes_twice][0]))
    return local


def _clock_change_error(zone: ZoneInfo, time: str | None) -> InputError:
    when = f" at {time}" if time else ""
    return InputError(
        f"Expected local times of {zone}, but the clocks change there{when}: that time occurs twice or not at all. "
        "Write the times with their UTC offset, for example 2024-10-27T02:00+02:00."
    )


def _as_index(values: Any) -> pd.Index:
    """Return an index of the narrowest type that pandas finds for the values."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()  # a tensor
    dtype = getattr(values, "dtype", None)
    if dtype == np.float16:
        values = np.asarray(values).astype(str).astype(np.float64)  # pandas has no index of this type
    if dtype == np.dtype(object) or isinstance(dtype, (pd.CategoricalDtype, pd.ArrowDtype)):
        values = list(values)
    try:
        return pd.Index(values, tupleize_cols=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected a list of times, got {type(values).__name__}: {error}.") from error


def _from_objects(values: list[Any], place: Place, time_format: str | None, time_zone: str | None) -> pd.Index:
    """Return times from Python objects of one kind: text, dates or numbers."""
    if all(isinstance(value, str) for value in values):
        return read_times([value.strip() for value in values], place, time_format, time_zone)
    if all(isinstance(value, (date, np.datetime64)) for value in values):
        return _from_dates([pd.Timestamp(value) for value in values], place, time_zone)
    if all(isinstance(value, (Real, Decimal)) and not isinstance(value, bool) for value in values):
        return read_times([_shortest(value) for value in values], place, time_format, time_zone)
    other = next((position for position, value in enumerate(values) if type(value) is not type(values[0])), 0)
    raise InputError(
        f"Expected times that are all dates, all numbers or all text, got {values[other]!r} in {place(other)}. "
        "Write all of them the same way."
    )


def _from_dates(dates: list[pd.Timestamp], place: Place, time_zone: str | None) -> pd.DatetimeIndex:
    offsets = [None if stamp.tz is None else _canonical_offset(f"{stamp:%z}") for stamp in dates]
    _check_one_zone(offsets, place, time_zone)
    return _with_offset(pd.DatetimeIndex(pd.to_datetime(dates, utc=True)), offsets[0], time_zone, place)


def _shortest(number: Any) -> str:
    """Return a number as text, without `.0` if it is whole."""
    return str(int(number)) if number == number // 1 else str(number)


def _as_plain_numbers(texts: Sequence[str], place: Place) -> Shaped[np.ndarray, " times"] | None:
    """Return the numbers in the cells, in int64 if all are whole. None if some cell is not a number."""
    cells = np.array(texts)
    try:
        return np.asarray(cells.astype(np.int64))
    except (ValueError, OverflowError):
        pass
    try:
        numbers = np.asarray(cells.astype(np.float64))
    except ValueError:
        return None
    # In float64 the limit itself is rounded up.
    for position in np.flatnonzero(np.abs(numbers) >= LARGEST_INTEGER).tolist():
        if WHOLE_NUMBER.match(texts[position]):
            raise too_large_error(texts[position], place(position))
    return numbers


def _dates_among(numbers: Shaped[np.ndarray, " times"], place: Place, time_zone: str | None) -> pd.Index:
    """Return numbers as they are, unless they are dates such as 20240301."""
    num_digits = _count_digits(numbers)
    if num_digits in FORMATS_OF_DIGITS:
        texts = [str(number) for number in numbers.astype(np.int64)]
        time_format = FORMATS_OF_DIGITS[num_digits]
        dates = pd.DatetimeIndex(pd.to_datetime(texts, format=time_format, errors="coerce"))
        # pandas reads 2024011 as January 1.
        is_long = np.array([len(text) == num_digits for text in texts])
        is_date = is_long & np.asarray((dates.year >= FIRST_YEAR) & (dates.year <= LAST_YEAR))
        # Among plain numbers, at most one in eight looks like a date.
        if 2 * np.count_nonzero(is_date) >= len(texts):
            _check_written_dates(texts, is_date, time_format, place)
            return in_zone(dates, time_zone)
    if time_zone is not None:
        raise InputError(
            f"Expected dates to go with the time zone {time_zone}, got numbers such as {numbers[0]}. "
            + _zone_cure(numbers)
        )
    return pd.Index(numbers)


def _count_digits(numbers: Shaped[np.ndarray, " times"]) -> int:
    """Return the number of digits of the median. 0 if some numbers are not whole, or too long for a date."""
    is_short = np.abs(numbers) < LARGEST_INTEGER
    if len(numbers) == 0 or not is_short.all() or (numbers != np.rint(numbers)).any():
        return 0
    return len(str(int(np.median(numbers))))


def _check_written_dates(
    texts: Sequence[str], is_date: Shaped[np.ndarray, " times"], time_format: str, place: Place
) -> None:
    if time_format != FORMATS_OF_DIGITS[8]:
        raise InputError(
            f"Expected dates such as 2024-03-01, or plain numbers, got {texts[0]} in {place(0)}, which may be either. "
            "Pass ",
            Argument("time_format", time_format),
            ", or number the steps from 0.",
        )
    if not is_date.all():
        first = int(np.argmin(is_date))
        raise InputError(f"Expected dates such as 20240301, got {texts[first]} in {place(first)}. Correct it.")


def _zone_cure(numbers: Shaped[np.ndarray, " times"]) -> str:
    for unit, name, second in (("s", "seconds", 1), ("ms", "milliseconds", 1000)):
        # From 2001 to 2036.
        if ((numbers >= 1e9 * second) & (numbers <= 2.1e9 * second)).all():
            return f"If they are {name} since 1970, convert them first: pandas.to_datetime(times, unit='{unit}')."
    return "Leave the time zone out."


def _read_with(time_format: str, texts: Sequence[str], place: Place, time_zone: str | None) -> pd.DatetimeIndex:
    has_offset = "%z" in time_format
    try:
        parsed = pd.to_datetime(list(texts), format=time_format, errors="coerce", utc=has_offset)
    except (ValueError, re.error) as error:
        raise InputError(f"Expected a time format such as '%d/%m/%Y %H:%M', got {time_format!r}: {error}.") from error
    dates = pd.DatetimeIndex(parsed)
    is_wrong = np.asarray(dates.isna()) | is_beyond_calendar(dates)
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        raise InputError(f"Expected times written as {time_format}, got {texts[first]!r} in {place(first)}.")
    if not has_offset:
        return in_zone(dates, time_zone, place)
    offsets = [_canonical_offset(OFFSET_ANYWHERE.findall(text)[-1]) for text in texts]
    _check_one_zone(offsets, place, time_zone)
    return _with_offset(dates, offsets[0], time_zone, place)


def _find_format(texts: Sequence[str], place: Place) -> str:
    """Return the format of dates with day, month and year. All dates together tell which number is the day."""
    matches = [DAY_AND_MONTH.match(text) for text in texts]
    for position, match in enumerate(matches):
        if match is None:
            example = next(text for text, other in zip(texts, matches, strict=True) if other)
            raise InputError(
                f"Expected all times written alike, like {example!r}, got {texts[position]!r} in {place(position)}."
            )
    found = [match for match in matches if match is not None]
    is_day_first = any(int(match[1]) > 12 for match in found)
    is_month_first = any(int(match[3]) > 12 for match in found)
    if is_day_first and is_month_first:
        raise InputError(
            f"Expected the day first in all dates, or the month, got both: {texts[0]!r} ... Write dates as 2024-03-01."
        )
    if not is_day_first and not is_month_first:
        raise InputError(
            f"Expected dates that show which number is the day, got {texts[0]!r} in {place(0)}. "
            "Write them as 2024-03-01, or pass ",
            Argument("time_format", "%d/%m/%Y"),
            ".",
        )
    separator, clock = found[0][2], found[0][5]
    day_format = separator.join(("%d", "%m", "%Y") if is_day_first else ("%m", "%d", "%Y"))
    if clock is None:
        return day_format
    between = "T" if "T" in texts[0] else " "
    return day_format + between + ("%H:%M:%S" if found[0][6] else "%H:%M")


def _read_iso(texts: Sequence[str], place: Place, time_zone: str | None) -> pd.DatetimeIndex:
    offsets = [_offset_of(text) for text in texts]
    plain = [
        text.replace("/", "-") if offset is None else OFFSET.sub(offset, text.replace("/", "-"))
        for text, offset in zip(texts, offsets, strict=True)
    ]
    dates = pd.DatetimeIndex(pd.to_datetime(plain, format="ISO8601", errors="coerce", utc=True))
    is_wrong = np.asarray(dates.isna()) | is_beyond_calendar(dates)
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        raise InputError(
            f"Expected a time {EXAMPLES}, got {texts[first]!r} in {place(first)}. "
            "Write it this way, or pass the format, for example ",
            Argument("time_format", "%d/%m/%Y"),
            ".",
        )
    _check_one_zone(offsets, place, time_zone)
    return _with_offset(dates, offsets[0], time_zone, place)


def _with_offset(dates: pd.DatetimeIndex, offset: str | None, time_zone: str | None, place: Place) -> pd.DatetimeIndex:
    """Return times that were read as UTC in the given time zone, else with the offset that they were written with."""
    if offset is None:
        return in_zone(dates.tz_localize(None), time_zone, place)
    if time_zone is not None or offset == "+00:00":
        return in_zone(dates, time_zone, place)
    return dates.tz_convert(f"UTC{offset}")


def _offset_of(text: str) -> str | None:
    """Return the UTC offset at the end of a time, for example `+01:00`. None if there is none."""
    # Only in a time of day: the date 2024-03 ends like a time with the offset -03.
    match = OFFSET.search(text) if ":" in text or "T" in text else None
    return None if match is None else _canonical_offset(match[1])


def _canonical_offset(offset: str) -> str:
    """Return `+01:00` for `+01`, `+0100` and `+01:00`; `+00:00` for UTC."""
    digits = "".join(character for character in offset if character.isdigit()).ljust(4, "0")[:4]
    return "+00:00" if digits == "0000" else f"{offset[0]}{digits[:2]}:{digits[2:]}"


def _check_one_zone(offsets: Sequence[str | None], place: Place, time_zone: str | None) -> None:
    other = next((position for position, offset in enumerate(offsets) if offset != offsets[0]), None)
    if other is None:
        return
    if None in offsets:
        position = other if offsets[other] is None else 0
        raise InputError(
            f"Expected a UTC offset on all times or on none, got none in {place(position)}. "
            "Write it everywhere, for example 2024-03-01T13:00+01:00."
        )
    if time_zone is None:
        raise InputError(
            f"Expected one time zone, got UTC offsets {offsets[0]} in {place(0)} and {offsets[other]} in "
            f"{place(other)}. Pass the zone with ",
            Argument("time_zone"),
            ", for example Europe/Berlin or UTC.",
        )
