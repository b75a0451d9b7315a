import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdegnn import InputError
from tdegnn.data.time_texts import read_times
from tdegnn.data.times import check_regular, describe_step, future_times, regularize
from tests.data.panels import times


def line(position):
    return f"line {position + 2}"


@pytest.mark.parametrize(
    ("given", "step", "after"),
    [
        (pd.date_range("2024-01-01", periods=5, freq="15min"), "15 minutes", "2024-01-01 01:15:00"),
        (pd.date_range("2024-01-01", periods=5, freq="90min"), "1 hour 30 minutes", "2024-01-01 07:30:00"),
        (pd.date_range("2024-01-01", periods=5, freq="W"), "7 days", "2024-02-11 00:00:00"),
        (pd.date_range("2024-01-31", periods=5, freq="ME"), "1 month", "2024-06-30 00:00:00"),
        (pd.date_range("2024-01-15", periods=5, freq=pd.DateOffset(months=1)), "1 month", "2024-06-15 00:00:00"),
        (pd.date_range("2024-01-01", periods=5, freq="QS"), "3 months", "2025-04-01 00:00:00"),
        (pd.date_range("2020-01-01", periods=5, freq="YS"), "1 year", "2025-01-01 00:00:00"),
        (pd.date_range("2024-01-01", periods=15, freq="B"), "1 business day", "2024-01-22 00:00:00"),
        (pd.Index([3, 5, 7]), "2", "9"),
        (pd.Index([0.0, 0.5, 1.0]), "0.5", "1.5"),
    ],
)
def test_the_step_is_found_and_what_comes_next(given, step, after):
    regular = regularize(given)
    assert describe_step(regular.times) == step
    assert str(future_times(regular.times, 1)[0]) == after
    assert len(regular.times) == len(given)


@settings(deadline=None)
@given(complete=times(num_steps=20), seed=st.integers(0, 2**31))
def test_shuffled_times_with_gaps_are_put_in_their_places(complete, seed):
    complete = check_regular(complete)
    random = np.random.default_rng(seed)
    # The ends stay, and most of the rest, so that the step can be seen.
    kept = np.concatenate([[0, 19], random.choice(np.arange(1, 19), size=15, replace=False)])
    random.shuffle(kept)
    regular = regularize(complete[kept])
    if isinstance(complete, pd.DatetimeIndex | pd.RangeIndex):
        assert regular.times.equals(complete)
    np.testing.assert_array_equal(regular.positions, kept)
    assert any("3 of 20 steps are missing" in note for note in regular.notes)


def test_days_in_a_time_zone_are_days_on_the_calendar():
    days = pd.date_range("2024-03-29", periods=5, freq="D", tz="Europe/Berlin")
    regular = regularize(days)
    assert describe_step(regular.times) == "1 day"
    assert all(time.hour == 0 for time in future_times(regular.times, 300))


def test_hours_in_a_time_zone_are_hours_that_pass():
    hours = pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Berlin")
    regular = regularize(hours)
    assert (len(regular.times), regular.notes) == (48, ())


def test_what_is_given_in_order_must_be_complete():
    with pytest.raises(InputError, match="equally spaced times in order, got 1 steps missing"):
        check_regular(pd.Index([0, 1, 3]))
    with pytest.raises(InputError, match="times that are not in order"):
        check_regular(pd.Index([0, 2, 1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.Index([1.0, np.nan]), "a time in every row, got none in entry 1"),
        (pd.Index([1.0, np.inf]), "finite times, got inf in entry 1"),
        (pd.Index(["a"]), "dates or numbers"),
        (pd.Index([1, 2, 2]), "each time once, got 2 in entry 1 and entry 2"),
        (pd.Index([0.0, 1.0, 2.0, 2.4]), r"most are 1\), got 0.4 from 2 to 2.4 \(entry 3\)"),
        (pd.Index([0, 3, 6, 7]), r"most are 3\), got 1 from 6 to 7 \(entry 3\)"),
        (pd.Index([0, 1, 2, 1000]), "4 times for 1,001 steps; the widest gap is from 2 to 1000"),
    ],
)
def test_times_without_a_common_step_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        regularize(given)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024-03-01", "2024-03-02"], ["2024-03-01", "2024-03-02"]),
        (["2024/03/01"], ["2024-03-01"]),
        (["20240301", "20240302"], ["2024-03-01", "2024-03-02"]),
        (["31.12.2024 10:00", "1.1.2025 11:00"], ["2024-12-31 10:00", "2025-01-01 11:00"]),
        (["12/31/2024", "01/01/2025"], ["2024-12-31", "2025-01-01"]),
        (["2024-01", "2024-02"], ["2024-01-01", "2024-02-01"]),
    ],
)
def test_dates_are_read_as_people_write_them(texts, expected):
    assert read_times(texts, line).equals(pd.DatetimeIndex(expected).as_unit(read_times(texts, line).unit))


def test_numbers_stay_numbers():
    assert read_times(["3", "4"], line).tolist() == [3, 4]
    assert read_times(["0.5", "1"], line).tolist() == [0.5, 1.0]
    assert read_times(["1990", "1991"], line).tolist() == [1990, 1991]


def test_offsets_are_one_zone():
    assert str(read_times(["2024-03-01T13:00+0100"], line).tz) == "UTC+01:00"
    assert str(read_times(["2024-03-01T13:00Z"], line).tz) == "UTC"
    texts = ["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"]
    berlin = read_times(texts, line, time_zone="Europe/Berlin")
    assert regularize(berlin).notes == ()
    with pytest.raises(InputError, match=r"one time zone, got UTC offsets \+01:00 in line 2 and \+02:00 in line 3"):
        read_times(texts, line)


def test_local_times_around_a_change_of_the_clocks():
    hours = pd.date_range("2024-10-26 22:00", periods=8, freq="h", tz="Europe/Berlin")
    texts = [str(hour) for hour in hours.tz_localize(None)]
    assert (read_times(texts, line, time_zone="Europe/Berlin") == hours).all()


def test_a_format_that_is_none_is_refused():
    with pytest.raises(InputError, match="a time format such as"):
        read_times(["1"], line, time_format="%Q")
    with pytest.raises(InputError, match="day first in all dates, or the month, got both"):
        read_times(["31/12/2024", "12/31/2024"], line)
