import numpy as np
import pandas as pd
import pytest

from tdegnn import InputError
from tdegnn.data.times.seasons import DAYS_IN_A_YEAR, Season, season_waves, seasons_of, step_length, step_numbers


def dates(num_steps, freq, zone=None):
    return pd.date_range("2021-02-03", periods=num_steps, freq=freq, tz=zone)


def rounded(seasons):
    return [(round(season.period, 2), season.num_waves) for season in seasons]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (dates(24 * 14, "h"), [(24, 4), (168, 10)]),
        (dates(24 * 800, "h"), [(24, 4), (168, 10), (24 * DAYS_IN_A_YEAR, 3)]),
        (dates(100, "D"), [(7, 3)]),
        (dates(800, "D"), [(7, 3), (365.24, 3)]),
        (dates(200, "7D"), [(52.18, 3)]),
        (dates(530, "B"), [(5, 2), (260.89, 3)]),
        (dates(48, "MS"), [(12, 3)]),
        (dates(48, "ME"), [(12, 3)]),
        (dates(40, "QS"), [(4, 1)]),
        (dates(100, "12h"), [(14, 6)]),  # twice a day tells nothing about its shape
        (dates(60, "6h"), [(4, 1), (28, 10)]),
        (dates(40, "YS"), []),
    ],
    ids=lambda value: getattr(value, "freqstr", ""),
)
def test_dates_have_the_seasons_their_steps_can_tell(times, expected):
    found = rounded(seasons_of(times))
    assert [waves for _, waves in found] == [waves for _, waves in expected]
    np.testing.assert_allclose([period for period, _ in found], [period for period, _ in expected], rtol=5e-3)


@pytest.mark.parametrize(
    ("num_steps", "freq", "num_seasons"),
    [(47, "h", 0), (48, "h", 1), (335, "h", 1), (336, "h", 2),
     (13, "D", 0), (14, "D", 1), (104, "7D", 0), (105, "7D", 1)],
)  # fmt: skip
def test_a_season_must_have_come_round_twice(num_steps, freq, num_seasons):
    assert len(seasons_of(dates(num_steps, freq))) == num_seasons


@pytest.mark.parametrize("times", [pd.RangeIndex(1000), pd.Index(np.arange(1000) / 7), dates(1, "D")])
def test_numbers_and_a_single_date_have_no_seasons(times):
    assert seasons_of(times) == ()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York"])
def test_a_time_zone_has_the_same_seasons(zone):
    assert rounded(seasons_of(dates(24 * 30, "h", zone))) == [(24, 4), (168, 10)]


@pytest.mark.parametrize(
    ("times", "length"),
    [
        (dates(50, "h"), 1 / 24),
        (dates(9, "7D"), 7.0),
        (pd.RangeIndex(5, 50, 3), 3.0),
        (pd.Index([0.5, 0.75, 1.0]), 0.25),
    ],
)
def test_a_step_is_counted_in_days_or_as_the_numbers_are(times, length):
    assert step_length(times) == pytest.approx(length)
    numbers = step_numbers(times, length)
    np.testing.assert_allclose(np.diff(numbers), 1.0)


def test_one_time_has_no_step():
    with pytest.raises(InputError, match="at least two times to know the step, got one"):
        step_length(pd.RangeIndex(1))


@pytest.mark.parametrize(
    "times",
    [
        dates(400, "D"),
        dates(900, "h", "Europe/Berlin"),
        dates(60, "MS"),
        dates(300, "B", "America/New_York"),
        pd.RangeIndex(-7, 500, 5),
        pd.Index(np.arange(200) / 8),
    ],
    ids=["days", "hours in Berlin", "months", "business days", "integers", "numbers"],
)
def test_a_later_part_goes_on_where_the_whole_was(times):
    """A forecaster sees the last window only, and it must stand where it stood in the series."""
    length = step_length(times)
    numbers = step_numbers(times, length)
    for part in (slice(30, None), slice(-4, None), slice(10, 11)):
        np.testing.assert_array_equal(step_numbers(times[part], length), numbers[part])


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_days_follow_the_clocks_on_the_wall(zone):
    """Eight in the morning is one place in the day, before and after the clocks change."""
    times = dates(24 * 365, "h", zone)
    waves = season_waves(step_numbers(times, 1 / 24), 24.0, 4)
    for hour in (0, 8, 23):
        at_hour = waves[times.hour == hour]
        np.testing.assert_allclose(at_hour, np.broadcast_to(at_hour[0], at_hour.shape), atol=1e-8)
    plain = step_numbers(dates(24 * 365, "h"), 1 / 24)
    np.testing.assert_allclose(step_numbers(times, 1 / 24)[:24], plain[:24])


@pytest.mark.parametrize(("period", "num_waves"), [(7.0, 3), (24.0, 4), (2.5, 1), (52.1775, 3)])
def test_waves_come_round_after_a_period(period, num_waves):
    steps = np.linspace(0.0, 20.0, 41)
    waves = season_waves(steps, period, num_waves)
    assert waves.shape == (41, 2 * num_waves)
    for rounds in (1, -3, 100):
        np.testing.assert_allclose(season_waves(steps + rounds * period, period, num_waves), waves, atol=1e-9)
    assert not np.allclose(season_waves(steps + period / 2, period, num_waves), waves, atol=1e-3)


def test_waves_are_sines_and_cosines_of_the_whole_period_and_its_parts():
    waves = season_waves(range(12), 12.0, 3)
    angles = 2 * np.pi * np.arange(12) / 12
    expected = [wave(times * angles) for wave in (np.sin, np.cos) for times in (1, 2, 3)]
    np.testing.assert_allclose(waves, np.stack(expected, axis=1), atol=1e-12)
    np.testing.assert_allclose(waves.T @ waves, 6 * np.eye(6), atol=1e-9)  # none says what another says


def test_the_phase_varies_with_time_at_whole_steps():
    """Frequencies that are whole multiples of 2 pi at whole times would be constants."""
    for season in (*seasons_of(dates(24 * 800, "h")), *seasons_of(dates(48, "MS"))):
        waves = season_waves(range(2 * int(season.period)), *season)
        assert (waves.std(axis=0) > 0.5).all()


def test_a_season_says_one_wave_unless_told_otherwise():
    assert Season(7.0) == (7.0, 1)


@pytest.mark.parametrize(
    ("period", "num_waves", "message"),
    [
        (1.0, 1, "a period of more than one step, got 1"),
        (float("inf"), 1, "period to be finite, got inf"),
        (7.0, 0, "num_waves to be at least 1, got 0"),
    ],
)
def test_wrong_waves_are_refused(period, num_waves, message):
    with pytest.raises(InputError, match=message):
        season_waves(range(3), period, num_waves)
