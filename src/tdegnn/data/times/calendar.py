"""The calendar: hour, weekday and week of year as channels, each as a sine and a cosine; hours of the week as cells.

They are known for the future too. If times have a time zone, they follow local time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int64

from tdegnn.data.times.seasons import DAYS_IN_A_YEAR
from tdegnn.errors import InputError


@dataclass(frozen=True)
class CalendarChannels:
    """Values of calendar features and the names of their channels."""

    values: Float[np.ndarray, "time channels"]
    names: tuple[str, ...]


def calendar_channels(times: pd.Index, features: Sequence[str] = ()) -> CalendarChannels:
    """Return a sine and a cosine per feature at each time. Default: the features that the steps can tell apart."""
    if not isinstance(times, pd.DatetimeIndex):
        raise InputError(f"Expected dates for calendar features, got times that are numbers, such as {times[0]}.")
    unknown = [feature for feature in features if feature not in _TURNS]
    if unknown:
        raise InputError(f"Expected calendar features among {', '.join(_TURNS)}, got {unknown[0]!r}.")
    chosen = tuple(dict.fromkeys(features)) or _features_of(times)
    angles = [2 * np.pi * _TURNS[feature](times) for feature in chosen]
    columns = [column for angle in angles for column in (np.sin(angle), np.cos(angle))]
    names = [f"{feature} {kind}" for feature in chosen for kind in ("sine", "cosine")]
    return CalendarChannels(np.stack(columns, axis=1), tuple(names))


@dataclass(frozen=True)
class CalendarCells:
    """The cell of the calendar in which each step lies, such as one of the 168 hours of a week.

    Attributes:
        numbers: The number of the cell of each step.
        names: What a cell is made of: hour, weekday, or both.
    """

    numbers: Int64[np.ndarray, " time"]
    names: tuple[str, ...]


def calendar_cells(times: pd.Index) -> CalendarCells | None:
    """Return the hour and weekday of each step, as far as steps are shorter and the times span two of their cycles.

    Returns:
        The cells. None if times are numbers, or neither hours nor weekdays can be told apart.
    """
    if not isinstance(times, pd.DatetimeIndex) or len(times) < 2:
        return None
    span = times[-1] - times[0]
    step, day = span / (len(times) - 1), pd.Timedelta(days=1)
    parts = {
        "hour": (24, times.hour) if step < day and span >= 2 * day else None,
        "weekday": (7, times.day_of_week) if step < 7 * day and span >= 14 * day else None,
    }
    numbers = np.zeros(len(times), dtype=np.int64)
    for part in parts.values():
        if part is not None:
            numbers = part[0] * numbers + np.asarray(part[1], dtype=np.int64)
    names = tuple(name for name, part in parts.items() if part is not None)
    return CalendarCells(numbers, names) if names else None


def _features_of(times: pd.DatetimeIndex) -> tuple[str, ...]:
    """Return the features that steps of this length can tell apart, if the times span at least one cycle."""
    span = times[-1] - times[0]
    step = span / max(len(times) - 1, 1)
    is_useful = {
        "hour": step < pd.Timedelta(days=1),
        "weekday": step < pd.Timedelta(days=7) and span >= pd.Timedelta(days=7),
        "week_of_year": span >= pd.Timedelta(days=60),
    }
    return tuple(feature for feature in _TURNS if is_useful[feature]) or ("week_of_year",)


def _hour(times: pd.DatetimeIndex) -> Float[np.ndarray, " time"]:
    """Return the elapsed share of the day."""
    return np.asarray((times.hour + times.minute / 60 + times.second / 3600) / 24, dtype=np.float64)


def _weekday(times: pd.DatetimeIndex) -> Float[np.ndarray, " time"]:
    """Return the elapsed share of the week, in whole days."""
    return np.asarray(times.day_of_week / 7, dtype=np.float64)


def _week_of_year(times: pd.DatetimeIndex) -> Float[np.ndarray, " time"]:
    """Return the elapsed share of the year, in whole weeks from January 1."""
    return np.asarray(((times.day_of_year - 1) // 7) * 7 / DAYS_IN_A_YEAR, dtype=np.float64)


_TURNS: dict[str, Callable[[pd.DatetimeIndex], Float[np.ndarray, " time"]]] = {
    "hour": _hour,
    "weekday": _weekday,
    "week_of_year": _week_of_year,
}
