"""Simulated counts: mostly zero, with a rhythm of weeks, around a known rate."""

import numpy as np

from tdegnn.data.simulators.hourly_counts import HOURS_OF_WEEK, simulate_hourly_counts

COUNTS = simulate_hourly_counts(num_nodes=100, num_weeks=6, seed=0)


def test_most_counts_are_zero_and_all_are_counts():
    values = COUNTS.panel.values[..., 0]
    assert 0.75 < (values == 0).mean() < 0.85
    assert (values == values.round()).all()
    assert values.min() == 0


def test_rates_repeat_each_week_and_differ_between_weekdays_and_weekends():
    rates = COUNTS.rates
    np.testing.assert_allclose(rates[:HOURS_OF_WEEK], rates[HOURS_OF_WEEK : 2 * HOURS_OF_WEEK])
    by_day = rates[:HOURS_OF_WEEK].reshape(7, 24, -1)
    assert (np.abs(by_day[0] - by_day[6]).max(axis=0) > 0.5 * rates.mean(axis=0)).all()


def test_no_naive_forecast_is_better_than_the_rate():
    values = COUNTS.panel.values[..., 0]
    own = np.mean((values - COUNTS.rates) ** 2)
    assert own < np.mean((values - values.mean(axis=0)) ** 2)
    assert abs(np.mean(values - COUNTS.rates)) < 0.01


def test_a_seed_is_one_series():
    again, other = (simulate_hourly_counts(100, 6, seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.panel.values, COUNTS.panel.values)
    assert (other.panel.values != COUNTS.panel.values).any()
