"""Cells of the calendar: hours of the week, as far as steps can tell them apart."""

import numpy as np
import pandas as pd
import pytest

from tdegnn.data.times.calendar import calendar_cells


def cells(start, periods, freq, zone=None):
    return calendar_cells(pd.date_range(start, periods=periods, freq=freq, tz=zone))


@pytest.mark.parametrize(
    ("periods", "freq", "names"),
    [
        (24 * 20, "h", ("hour", "weekday")),
        (24 * 3, "h", ("hour",)),
        (30, "h", None),
        (30, "D", ("weekday",)),
        (10, "D", None),
        (60, "W", None),
        (12 * 24 * 15, "5min", ("hour", "weekday")),
    ],
)
def test_cells_are_those_that_steps_can_tell_apart(periods, freq, names):
    found = cells("2024-01-01", periods, freq)
    assert (None if found is None else found.names) == names


def test_the_same_hour_of_two_weeks_is_one_cell():
    numbers = cells("2024-01-01", 24 * 21, "h").numbers
    np.testing.assert_array_equal(numbers[:168], numbers[168:336])
    assert len(np.unique(numbers)) == 168


def test_cells_follow_the_clocks():
    numbers = cells("2024-03-18", 24 * 21, "h", "Europe/Paris").numbers
    times = pd.date_range("2024-03-18", periods=24 * 21, freq="h", tz="Europe/Paris")
    before, after = (
        int(np.flatnonzero(times == pd.Timestamp(day, tz=times.tz))[0])
        for day in ("2024-03-25 08:00", "2024-04-01 08:00")
    )
    assert numbers[before] == numbers[after]
    assert after - before == 167


def test_numbers_have_no_calendar():
    assert calendar_cells(pd.Index(range(1000))) is None
