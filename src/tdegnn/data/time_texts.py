"""Times as people write them: read from text, with nothing guessed.

ISO 8601 (`2024-03-01`, `2024-03-01 13:00`, `2024-03-01T13:00+01:00`), numbers, `20240301`, and dates such as
`31.12.2024` where the column itself shows which part is the day. `03/04/2024` alone shows nothing: then the user is
asked. One column has one time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jaxtyping import Shaped

from tdegnn.data.times import Place
from tdegnn.errors import InputError

OFFSET = re.compile(r"\d(Z|[+-]\d\d:?\d\d)$")
# 31.12.2024, 12/31/2024 or 31-12-2024, and perhaps a time of day after it.
DAY_AND_MONTH = re.compile(r"^(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T](\d{1,2}:\d\d(:\d\d)?))?$")
EXAMPLES = "such as 2024-03-01 or 2024-03-01 13:00"


def read_times(
    texts: Sequence[str], place: Place, time_format: str | None = None, time_zone: str | None = None
) -> pd.Index:
    """Read a column of times.

    Args:
        texts: The cells of the column.
        place: Says where the i-th of them stands, for messages.
        time_format: How they are written, as for `strptime`, where they do not say it themselves.
        time_zone: Name of a zone. Times without one are taken to be local to it, the others are converted.
    """
    if time_format is not None:
        return in_zone(_read_with(time_format, texts, place), time_zone)
    numbers = _as_numbers(texts)
    if numbers is not None:
        return _dates_among(numbers, time_zone)
    if any(DAY_AND_MONTH.match(text) for text in texts):
        return in_zone(_read_with(_find_format(texts, place), texts, place), time_zone)
    return _read_iso(texts, place, time_zone)


def in_zone(dates: pd.DatetimeIndex, time_zone: str | None) -> pd.DatetimeIndex:
    """Dates in a time zone: those without a zone are local to it, those with one are converted."""
    if time_zone is None:
        return dates
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"Expected a time zone such as Europe/Berlin or UTC, got {time_zone!r}.") from error
    if dates.tz is not None:
        return dates.tz_convert(zone)
    try:
        return dates.tz_localize(zone, ambiguous="infer", nonexistent="raise")
    except ValueError as error:
        # pandas names the time, after a few words of its own.
        time = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", str(error))
        when = f" at {time.group()}" if time else ""
        raise InputError(
            f"Expected local times of {time_zone}, but the clocks change there{when}: that time occurs twice or not at "
            "all. Write the times with their UTC offset, as in 2024-10-27T02:00+02:00."
        ) from error


def _as_numbers(texts: Sequence[str]) -> Shaped[np.ndarray, " times"] | None:
    for kind in (np.int64, np.float64):
        try:
            return np.array(texts).astype(kind)
        except (ValueError, OverflowError):
            continue
    return None


def _dates_among(numbers: Shaped[np.ndarray, " times"], time_zone: str | None) -> pd.Index:
    """Numbers as they are, except those that are written dates, 20240301."""
    if np.issubdtype(numbers.dtype, np.integer) and ((numbers >= 18000101) & (numbers <= 22001231)).all():
        dates = pd.to_datetime(numbers.astype(str), format="%Y%m%d", errors="coerce")
        if not dates.isna().any():
            return in_zone(pd.DatetimeIndex(dates), time_zone)
    if time_zone is not None:
        raise InputError(f"Expected dates to go with the time zone {time_zone}, got numbers such as {numbers[0]}.")
    return pd.Index(numbers)


def _read_with(time_format: str, texts: Sequence[str], place: Place) -> pd.DatetimeIndex:
    try:
        dates = pd.DatetimeIndex(pd.to_datetime(list(texts), format=time_format, errors="coerce"))
    except ValueError as error:
        raise InputError(f"Expected a time format such as '%d/%m/%Y %H:%M', got {time_format!r}: {error}.") from error
    if dates.isna().any():
        first = int(np.argmax(dates.isna()))
        raise InputError(f"Expected times written as {time_format}, got {texts[first]!r} in {place(first)}.")
    return dates


def _find_format(texts: Sequence[str], place: Place) -> str:
    """The format of dates with day, month and year; which part is the day is read off all of them together."""
    matches = [DAY_AND_MONTH.match(text) for text in texts]
    for position, match in enumerate(matches):
        if match is None:
            example = next(text for text, other in zip(texts, matches, strict=True) if other)
            raise InputError(
                f"Expected all times written alike, as {example!r}, got {texts[position]!r} in {place(position)}."
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
            f"Expected dates that show which part is the day, got {texts[0]!r} in {place(0)}. "
            "Write them as 2024-03-01, or say time_format='%d/%m/%Y'."
        )
    separator, clock = found[0][2], found[0][5]
    day_format = separator.join(("%d", "%m", "%Y") if is_day_first else ("%m", "%d", "%Y"))
    if clock is None:
        return day_format
    between = "T" if "T" in texts[0] else " "
    return day_format + between + ("%H:%M:%S" if found[0][6] else "%H:%M")


def _read_iso(texts: Sequence[str], place: Place, time_zone: str | None) -> pd.DatetimeIndex:
    texts = [text.replace("/", "-") for text in texts]
    offsets = [_offset_of(text) for text in texts]
    _check_one_zone(offsets, place, time_zone)
    dates = pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=offsets[0] is not None))
    if dates.isna().any():
        first = int(np.argmax(dates.isna()))
        raise InputError(f"Expected a time {EXAMPLES}, got {texts[first]!r} in {place(first)}.")
    if offsets[0] is None or time_zone is not None:
        return in_zone(dates, time_zone)
    return dates if offsets[0] in ("Z", "+00:00") else dates.tz_convert(f"UTC{offsets[0]}")


def _offset_of(text: str) -> str | None:
    """`+01:00`, `Z`, or None for a time without a zone."""
    match = OFFSET.search(text) if ":" in text else None
    if match is None:
        return None
    offset = match[1]
    return offset if offset == "Z" or ":" in offset else f"{offset[:3]}:{offset[3:]}"


def _check_one_zone(offsets: Sequence[str | None], place: Place, time_zone: str | None) -> None:
    other = next((position for position, offset in enumerate(offsets) if offset != offsets[0]), None)
    if other is None:
        return
    if None in offsets:
        position = other if offsets[other] is None else 0
        raise InputError(
            f"Expected a UTC offset on all times or on none, got none in {place(position)}. "
            "Write it everywhere, as in 2024-03-01T13:00+01:00."
        )
    if time_zone is None:
        raise InputError(
            f"Expected one time zone, got UTC offsets {offsets[0]} in {place(0)} and {offsets[other]} in "
            f"{place(other)}. Say which zone is meant with time_zone, as in Europe/Berlin or UTC."
        )
