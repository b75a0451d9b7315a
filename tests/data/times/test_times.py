import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tdegnn import InputError
from tdegnn.data.times.steps import localize_days
from tdegnn.data.times.time_texts import as_times, read_times
from tdegnn.data.times.times import (
    check_regular,
    describe_step,
    future_times,
    regularize,
    repeated_time_hint,
    show_time,
)
from tests.data.panels import times

# Berlin changes at 02:00, New York at 02:00 to 01:00, Santiago and Havana at midnight.
CLOCK_CHANGES = ["Europe/Berlin", "America/New_York", "America/Santiago", "America/Havana", "UTC"]
CALENDAR_STEPS = [pd.offsets.Day(), pd.offsets.Day(7), pd.offsets.BusinessDay(), pd.DateOffset(months=1)]


def line(position):
    return f"line {position + 2}"


def as_texts(dates, written="%Y-%m-%d %H:%M"):
    return [time.strftime(written) for time in dates]


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


@pytest.mark.parametrize("zone", CLOCK_CHANGES)
@pytest.mark.parametrize("offset", CALENDAR_STEPS, ids=str)
@pytest.mark.parametrize("clock", ["00:00", "01:00", "02:30"])
@pytest.mark.parametrize("first", ["2024-02-26", "2024-08-26", "2024-10-21"])
def test_steps_of_the_calendar_go_by_the_clock_where_it_changes(zone, offset, clock, first):
    wall = pd.date_range(f"{first} {clock}", periods=40, freq=offset, unit="us")
    given = localize_days(wall, ZoneInfo(zone))
    regular = regularize(given[[0, *range(2, 40)]])
    assert regular.times.equals(given)
    assert (regular.times[:15].freq, describe_step(regular.times)) == (offset, describe_step(wall))
    # Wherever the known part ends, on the day of the change too, what comes next is the rest.
    for end in range(2, 39):
        assert future_times(regular.times[:end], 1).equals(given[end : end + 1])
    texts = [str(time) for time in given]
    assert (read_times(texts, line, time_zone=zone) == given).all()


@settings(deadline=None)
@given(start=st.dates(datetime.date(1980, 1, 1), datetime.date(2040, 1, 1)), hours=st.sampled_from([2, 3, 6, 12]))
def test_hours_on_the_clock_of_santiago_come_back(start, hours):
    wall = pd.date_range(start, periods=60, freq=pd.Timedelta(hours=hours), unit="us")
    given = localize_days(wall, ZoneInfo("America/Santiago"))
    regular = regularize(given)
    assert regular.times.equals(given)
    assert check_regular(regular.times[10:50]).equals(given[10:50])
    is_changing = (np.diff(given.asi8) != np.diff(given.asi8)[0]).any()
    assert any(f"{hours} hours on the clock" in note for note in regular.notes) == is_changing
    if is_changing:
        assert future_times(regular.times[:40], 20).equals(given[40:])


def test_hours_that_pass_are_not_hours_on_the_clock():
    passing = pd.date_range("2024-03-30", periods=12, freq=pd.DateOffset(hours=6), unit="us", tz="UTC")
    regular = regularize(passing.tz_convert("Europe/Berlin"))
    assert (describe_step(regular.times), regular.notes) == ("6 hours", ())
    assert check_regular(regular.times).equals(regular.times)
    daily = pd.date_range("2024-03-29 11:00", periods=6, freq="D", unit="us", tz="UTC").tz_convert("Europe/Berlin")
    assert regularize(daily).times.equals(daily)


def test_an_hour_that_comes_twice_is_two_hours():
    twice = pd.DatetimeIndex(["2024-10-27T00:00Z", "2024-10-27T01:00Z"]).tz_convert("Europe/Berlin")
    assert describe_step(regularize(twice).times) == "1 hour"


def test_what_is_given_in_order_must_be_complete():
    with pytest.raises(InputError, match="in order, got 1 step missing. Use Panel.from_array or read_panel"):
        check_regular(pd.Index([0, 1, 3]))
    for backward in (
        pd.Index([0, 2, 1]),
        pd.Index([0.5, 0.25, 0.0]),
        pd.RangeIndex(5, 0, -1),
        pd.date_range("2024-01-09", periods=5, freq="-1D"),
    ):
        with pytest.raises(InputError, match="times that are not in order"):
            check_regular(backward)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64])
def test_narrow_integers_do_not_overflow(dtype):
    given = np.array([0, 120, 60, 100, 20, 40], dtype=dtype)
    regular = regularize(pd.Index(given))
    assert (regular.times.tolist(), regular.times.dtype) == (list(range(0, 121, 20)), np.int64)
    assert regularize(pd.Index(np.array([-120, 0, 120], dtype=np.int8))).times.tolist() == [-120, 0, 120]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_are_what_they_print(dtype):
    assert regularize(as_times(np.array([0.1, 0.2, 0.4], dtype=dtype))).times.tolist() == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("complete", "step"),
    [
        ([round(1958 + month / 12, 4) for month in range(1, 400)], 1 / 12),
        (np.round(np.arange(20_000) / 60, 3), 1 / 60),
        (np.round(np.arange(300) / 7, 2), 1 / 7),
    ],
)
def test_numbers_with_few_digits_are_equally_spaced(complete, step):
    complete = pd.Index(complete)
    random = np.random.default_rng(0)
    is_kept = random.random(len(complete)) < 0.9
    is_kept[[0, -1]] = True
    for is_given in (np.ones_like(is_kept), is_kept):
        regular = regularize(complete[is_given])
        assert float(describe_step(regular.times)) == pytest.approx(step, rel=1e-3)
        assert regular.times[regular.positions].equals(complete[is_given])
        np.testing.assert_allclose(regular.times, complete, atol=complete[1] - complete[0])
        for start in random.integers(0, len(complete) - 60, size=50):
            part = regular.times[start : start + random.integers(2, 60)]
            assert check_regular(part).equals(part)


def test_numbers_with_few_digits_show_where_they_break():
    broken = np.round(np.arange(1000) / 60, 3)
    broken[500] += 0.006
    with pytest.raises(InputError, match=r"most are 0.017\), got 0.022 from 8.317 to 8.339"):
        regularize(pd.Index(broken))
    # Whole numbers count, they are not rounded: no step of 3.33 is read into these.
    with pytest.raises(InputError, match="equal steps in time"):
        regularize(pd.Index([0.0, 3.0, 7.0, 10.0, 13.0, 17.0, 20.0]))


def test_a_stock_exchange_has_nights_and_weekends_without_values():
    hours = pd.date_range("2024-01-01", periods=24 * 70, freq="h")
    is_open = (hours.hour >= 9) & (hours.hour < 16) & (hours.day_of_week < 5)
    regular = regularize(hours[is_open])
    assert describe_step(regular.times) == "1 hour"
    assert len(regular.times) > 4 * is_open.sum()


def test_gaps_that_repeat_are_no_mistyped_time():
    with pytest.raises(InputError, match="27 times for 803 steps; .* Resample to longer steps"):
        regularize(pd.Index([100 * block + step for block in range(9) for step in range(3)]))
    # Steps of 1 are there, but they are not what is usual.
    sparse = pd.Index(np.cumsum([0, 1, 1, 1, *range(5, 12), 1]))
    with pytest.raises(InputError, match="12 times for 61 steps; .* Resample to longer steps"):
        regularize(sparse)
    with pytest.raises(InputError, match=r"a usual one is 31 days\), got 28 days .* Resample"):
        regularize(pd.date_range("2020-01-01", periods=60, freq=pd.offsets.BMonthEnd()))


def test_a_time_that_comes_twice_has_one_hint():
    assert repeated_time_hint(pd.Timestamp("2024-10-27 02:00")).startswith("If the clocks went back then")
    assert repeated_time_hint(pd.Timestamp("2024-10-28 02:00")).startswith("Keep one of them")
    assert repeated_time_hint(3).startswith("Keep one of them")


def test_a_midnight_that_the_clocks_skip_can_be_shown():
    day = localize_days(pd.DatetimeIndex(["2024-09-07", "2024-09-08"]), ZoneInfo("America/Santiago"))
    assert [show_time(time) for time in day] == ["2024-09-07", "2024-09-08 01:00:00-03:00"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.Index([1.0, np.nan]), "a time in every row, got none in entry 1"),
        (pd.Index([1.0, np.inf]), "finite times, got inf in entry 1"),
        (pd.Index(["a"]), "dates or numbers, got .* Convert them first"),
        (pd.Index([True]), "dates or numbers, got bool"),
        (pd.timedelta_range("1h", periods=2, freq="h"), "got durations such as .* Add the date from which they count"),
        (pd.Index([1, 2**63], dtype=np.uint64), "at most 18 digits, got 9223372036854775808 in entry 1. Count them"),
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
        (["20240301.0", "20240302.0"], ["2024-03-01", "2024-03-02"]),
    ],
)
def test_dates_are_read_as_people_write_them(texts, expected):
    assert read_times(texts, line).equals(pd.DatetimeIndex(expected).as_unit(read_times(texts, line).unit))


def test_numbers_stay_numbers():
    assert read_times(["3", "4"], line).tolist() == [3, 4]
    assert read_times(["0.5", "1"], line).tolist() == [0.5, 1.0]
    assert read_times(["1990", "1991"], line).tolist() == [1990, 1991]
    for start in (200_000, 20_240_000, 1_700_000_000, 1_830_000_000, 1_700_000_000_000, 20_240_000_000_000):
        numbers = list(range(start, start + 300))
        assert read_times([str(number) for number in numbers], line).tolist() == numbers


@pytest.mark.parametrize("position", [0, 59, 365])
@pytest.mark.parametrize("mistyped", ["20240230", "20242202", "2024023", "30240229", "202402299"])
def test_one_mistyped_date_does_not_make_numbers_of_the_others(position, mistyped):
    texts = as_texts(pd.date_range("2024-01-01", periods=366), "%Y%m%d")
    texts[position] = mistyped
    with pytest.raises(InputError, match=f"dates such as 20240301, got {mistyped} in line {position + 2}. Correct it"):
        read_times(texts, line)


@pytest.mark.parametrize("time_format", ["%Y%m", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_other_dates_in_one_number_are_read_when_their_format_is_said(time_format):
    dates = pd.date_range("2024-01-01", periods=6, freq="MS")
    texts = as_texts(dates, time_format)
    with pytest.raises(
        InputError, match=f"got {texts[0]} in line 2, which may be either. Pass time_format='{time_format}'"
    ):
        read_times(texts, line)
    for values in (texts, np.array(texts, dtype=np.int64), np.array(texts, dtype=np.float64)):
        assert (as_times(values, line, time_format) == dates).all()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1", "2"], "got numbers such as 1. Leave the time zone out"),
        (["1700000000", "1700003600"], r"seconds since 1970, .* pandas.to_datetime\(times, unit='s'\)"),
        (["1700000000000", "1700003600000"], r"milliseconds since 1970, .* pandas.to_datetime\(times, unit='ms'\)"),
    ],
)
def test_numbers_have_no_time_zone(texts, message):
    with pytest.raises(InputError, match=message):
        read_times(texts, line, time_zone="UTC")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["Jan 2023"],
            "a time such as 2024-03-01 or .*, got 'Jan 2023' in line 2. Write it this way, .* for example time_format=",
        ),
        (["2024/02/31"], "got '2024/02/31' in line 2"),
        (["2024-01-01T10:00Z", "yesterday"], "got 'yesterday' in line 3"),
        (["1", "99999999999999999999"], "at most 18 digits, got 99999999999999999999 in line 3"),
    ],
)
def test_what_cannot_be_read_is_shown_as_it_is_written(texts, message):
    with pytest.raises(InputError, match=message):
        read_times(texts, line)


def test_offsets_are_one_zone():
    assert str(read_times(["2024-03-01T13:00+0100"], line).tz) == "UTC+01:00"
    assert str(read_times(["2024-03-01T13:00Z"], line).tz) == "UTC"
    texts = ["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"]
    berlin = read_times(texts, line, time_zone="Europe/Berlin")
    assert regularize(berlin).notes == ()
    with pytest.raises(InputError, match=r"one time zone, got UTC offsets \+01:00 in line 2 and \+02:00 in line 3"):
        read_times(texts, line)


@pytest.mark.parametrize(
    ("texts", "zone"),
    [
        (["2024-03-31 01:00:00+01", "2024-03-31 02:00:00+01"], "UTC+01:00"),
        (["2024-03-31 01:00:00 +0100"], "UTC+01:00"),
        (["2024-03-31 01:00:00-03:30"], "UTC-03:30"),
        (["2024-03-31 01:00:00 UTC", "2024-03-31 02:00Z", "2024-03-31 03:00+00:00"], "UTC"),
        (["20240331T010000Z"], "UTC"),
    ],
)
def test_offsets_are_read_as_databases_write_them(texts, zone):
    read = read_times(texts, line)
    assert str(read.tz) == zone
    assert read[0].tz_localize(None) == pd.Timestamp("2024-03-31 01:00")


def test_offsets_in_a_format_are_one_zone():
    winter, summer = "31/03/2024 01:00 +0100", "31/03/2024 03:00 +0200"
    written = "%d/%m/%Y %H:%M %z"
    assert str(read_times([winter, winter], line, written).tz) == "UTC+01:00"
    with pytest.raises(InputError, match=r"UTC offsets \+01:00 in line 2 and \+02:00 in line 3"):
        read_times([winter, summer], line, written)
    berlin = read_times([winter, summer], line, written, "Europe/Berlin")
    assert regularize(berlin).times.tolist() == [pd.Timestamp(f"2024-03-31T0{hour}:00Z") for hour in (0, 1)]


@pytest.mark.parametrize("step", ["h", "30min", "15min"])
def test_local_times_around_a_change_of_the_clocks(step):
    hours = pd.date_range("2024-10-26 22:00", periods=32, freq=step, tz="Europe/Berlin")
    texts = as_texts(hours.tz_localize(None))
    assert (read_times(texts, line, time_zone="Europe/Berlin") == hours).all()
    assert (read_times(texts[::-1], line, time_zone="Europe/Berlin") == hours[::-1]).all()
    texts[0], texts[1] = texts[1], texts[0]
    with pytest.raises(
        InputError, match="clocks change there at 2024-10-27 02:00:00: .* Write the times with their UTC"
    ):
        read_times(texts, line, time_zone="Europe/Berlin")


def test_unsorted_local_times_are_read_where_no_hour_comes_twice():
    texts = ["2024-05-01 10:00", "2024-05-01 08:00", "2024-05-01 09:00"]
    assert read_times(texts, line, time_zone="Europe/Berlin").tz_localize(None)[1] == pd.Timestamp(texts[1])


@pytest.mark.parametrize(
    ("zone", "first", "clock"),
    [
        ("America/Santiago", "2024-09-01", "00:00"),  # no midnight on September 8
        ("America/Havana", "2024-10-28", "00:00"),  # two midnights on November 3
        ("Europe/Berlin", "2024-03-25", "02:30"),
        ("Europe/Berlin", "2024-10-21", "02:30"),
    ],
)
def test_days_are_days_where_the_clocks_skip_or_repeat_their_time(zone, first, clock):
    days = pd.date_range(f"{first} {clock}", periods=14)
    regular = regularize(read_times(as_texts(days), line, time_zone=zone))
    assert (describe_step(regular.times), len(regular.times), regular.notes) == ("1 day", 14, ())
    assert (regular.times.tz_localize(None).normalize() == days.normalize()).all()
    texts = [*as_texts(days), as_texts(days)[6]]
    with pytest.raises(InputError, match="each time once|the clocks change there"):
        regularize(read_times(texts, line, time_zone=zone))


def test_a_single_time_that_the_clocks_skip_is_refused():
    with pytest.raises(
        InputError, match="local times of Europe/Berlin, but the clocks change there at 2024-03-31 02:30"
    ):
        read_times(["2024-03-31 02:30"], line, time_zone="Europe/Berlin")


def test_six_hours_on_the_clock_are_steps_where_it_changes():
    texts = as_texts(pd.date_range("2024-03-28", periods=40, freq="6h"))
    regular = regularize(read_times(texts, line, time_zone="Europe/Berlin"))
    assert as_texts(regular.times) == texts
    assert regular.notes == ("The steps are 6 hours on the clock, longer or shorter when the clocks change.",)


DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]


@pytest.mark.parametrize(
    "values",
    [
        DATES,
        pd.Index(DATES, dtype=object),
        [pd.Timestamp(DATES[0]), DATES[1]],
        [np.datetime64("2024-01-01"), np.datetime64("2024-01-02")],
        np.array(DATES, dtype="datetime64[D]"),
        pd.Series(DATES),
        pd.Series(DATES).astype(pd.ArrowDtype(pa.date32())),
        pd.Series(["2024-01-01 ", "2024-01-02"], dtype="string"),
        pd.Categorical(["2024-01-01", "2024-01-02"]),
        pd.period_range("2024-01-01", periods=2, freq="D"),
        [20240101, 20240102],
        [20240101.0, 20240102.0],
    ],
    ids=str,
)
def test_whatever_people_call_dates_is_taken_as_dates(values):
    assert (as_times(values) == pd.DatetimeIndex(DATES)).all()
    assert str(as_times(values, time_zone="Asia/Kolkata").tz) == "Asia/Kolkata"


def test_dates_of_one_zone_stay_in_it():
    zone = ZoneInfo("Europe/Berlin")
    stamps = [datetime.datetime(2024, 3, day, tzinfo=zone) for day in (30, 31)] + [
        datetime.datetime(2024, 4, 1, tzinfo=zone)
    ]
    regular = regularize(as_times(pd.Index(stamps, dtype=object)))
    assert (str(regular.times.tz), describe_step(regular.times)) == ("Europe/Berlin", "1 day")


def test_numbers_of_any_type_are_numbers():
    assert as_times(pd.array([1, 2], dtype="Int64")).tolist() == [1, 2]
    assert as_times([Decimal("0.1"), Decimal("0.2")]).tolist() == [0.1, 0.2]
    assert as_times(torch.tensor([3, 4])).tolist() == [3, 4]
    assert as_times(pd.RangeIndex(200_001, 200_004)).tolist() == [200_001, 200_002, 200_003]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([DATES[0], None], "a time in every row, got none in entry 1. Remove the row"),
        ([DATES[0], "2024-01-02"], "all dates, all numbers or all text, got '2024-01-02' in entry 1"),
        ([(1, 2), (3, 4)], r"all dates, all numbers or all text, got \(1, 2\) in entry 0"),
        (np.ones((2, 2)), "a list of times, got ndarray"),
        (5, "a list of times, got int"),
        ([1, 2**70], "at most 18 digits, got 1180591620717411303424 in entry 1"),
        ([pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-02")], "UTC offset on all times or on none"),
        (
            [pd.Timestamp("2024-01-01T00:00Z"), pd.Timestamp("2024-01-01T00:00-01:00")],
            r"UTC offsets \+00:00 in entry 0 and -01:00 in entry 1",
        ),
    ],
)
def test_what_is_no_list_of_times_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        as_times(values)


def test_a_format_that_is_none_is_refused():
    with pytest.raises(InputError, match="a time format such as"):
        read_times(["1"], line, time_format="%Q")
    with pytest.raises(InputError, match="day first in all dates, or the month, got both"):
        read_times(["31/12/2024", "12/31/2024"], line)
