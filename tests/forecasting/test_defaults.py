"""What a forecaster does without a word: the calendar, counts, and steps that chose nothing."""

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, InputError, Panel
from tdegnn.data.simulators.hourly_counts import simulate_hourly_counts
from tdegnn.forecasting.held_out import OURS, naive_methods, split_for_forecast
from tdegnn.forecasting.usual_networks import USUAL_NETWORKS
from tdegnn.training.devices import single_thread

SMALL = dict(horizon=3, window=4, hidden_channels=8, num_layers=1, num_members=1, num_steps=5, device="cpu")
COUNTS = simulate_hourly_counts(num_nodes=6, num_weeks=3, seed=0).panel
BY_HOUR = "the mean by hour and weekday"
LIMIT = "All values are counts, whole numbers from 0 on, so no forecast and no interval goes below 0. Pass lowest= for"


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(**SMALL).fit(COUNTS)


@pytest.mark.slow
def test_hour_and_weekday_enter_by_themselves_and_can_be_left_out(fitted, tmp_path):
    assert [round(season.period) for season in fitted.maker_.seasons] == [24, 168]
    without = Forecaster(**SMALL, calendar=False).fit(COUNTS)
    assert without.maker_.seasons == ()
    assert not {BY_HOUR, "the last season"} & {*without.summary_["held_out"]}
    given = Forecaster(**SMALL, calendar=False, season=12).fit(COUNTS)
    assert [season.period for season in given.maker_.seasons] == [12]
    without.save(tmp_path / "run")
    assert Forecaster.load(tmp_path / "run").calendar is False
    with pytest.raises(InputError, match="calendar to be True or False, got 'day'"):
        Forecaster(calendar="day").fit(COUNTS)


@pytest.mark.slow
def test_the_season_of_the_year_enters_if_two_years_were_seen():
    times = pd.date_range("2020-01-01", periods=3 * 365, freq="D")
    values = np.random.default_rng(0).standard_normal((len(times), 2))
    seasons = Forecaster().seasons_of(Panel.from_array(values, times=times).times)
    assert [round(season.period) for season in seasons] == [7, 365]
    assert Forecaster().seasons_of(pd.RangeIndex(100)) == ()


@pytest.mark.slow
def test_a_mean_by_hour_and_weekday_joins_the_naive_forecasts(fitted):
    errors = fitted.summary_["held_out"]
    assert list(errors)[2:] == [OURS, "the mean", "the last value", "the last season", BY_HOUR]
    split = split_for_forecast(COUNTS.num_steps, 4, 3)
    judged = split.judging(3)
    values, cells = COUNTS.values[..., 0], np.arange(COUNTS.num_steps) % 168  # the first step is a Monday's midnight
    learned = slice(0, split.training.stop)
    means = np.stack([values[learned][cells[learned] == cell].mean(axis=0) for cell in range(168)])
    steps = np.arange(judged.start, judged.stop - 2)[:, None] + np.arange(3)
    assert errors[BY_HOUR]["mse"] == pytest.approx(np.mean((values[steps] - means[cells[steps]]) ** 2))
    assert list(naive_methods((), ("weekday",)))[-1] == "the mean by weekday"


@pytest.mark.slow
def test_forecasts_of_counts_stay_above_zero_and_a_note_says_so(fitted, tmp_path):
    forecast = fitted.predict(6)
    assert forecast.values.min() >= 0
    assert forecast.low.min() >= 0
    (note,) = (note for note in fitted.notes_ if "counts" in note)
    assert note.startswith(LIMIT)
    assert note.as_options().endswith("Pass --lowest for another limit.")
    fitted.save(tmp_path / "run")
    loaded = Forecaster.load(tmp_path / "run")
    assert loaded.lowest is None
    np.testing.assert_array_equal(loaded.predict(6).low, forecast.low)
    assert fitted.summary_["intervals"]["method"] == "auto: counts"


@pytest.mark.slow
def test_other_series_and_another_limit_are_left_alone():
    shifted = Panel.from_array(COUNTS.values[..., 0] - 0.5, times=COUNTS.times)
    model = Forecaster(**SMALL).fit(shifted)
    assert not any("counts" in note for note in model.notes_)
    assert model.predict().low.min() < 0
    given = Forecaster(**SMALL, lowest=-2.0).fit(COUNTS)
    assert not any(LIMIT in note for note in given.notes_)


def test_the_last_third_of_the_held_out_windows_chooses_nothing():
    split = split_for_forecast(1000, 10, 4)
    choosing, judging = split.choosing(4), split.judging(4)
    assert (choosing.start, choosing.stop, judging.stop) == (split.validation.start, judging.start, 1000)
    assert len(judging) - 3 == (len(split.validation) - 3) // 3
    short = split_for_forecast(60, 10, 4)
    assert short.choosing(4) == short.judging(4) == short.validation


@pytest.mark.slow
def test_errors_are_those_of_steps_that_chose_nothing(fitted):
    facts = fitted.summary_["held_out"]
    split = split_for_forecast(COUNTS.num_steps, 4, 3)
    assert facts["chose_nothing"] is True
    assert facts["steps"] == len(split.judging(3)) - 2
    # Other values in these steps change no choice: neither window nor best step.
    values = COUNTS.values.copy()
    values[split.judging(3).start :] += 3
    settings = SMALL | dict(window=None, num_steps=40, validate_every=5)
    chosen = [
        Forecaster(**settings).fit(Panel.from_array(each[..., 0], times=COUNTS.times))
        for each in (COUNTS.values, values)
    ]
    assert chosen[0].history_ == chosen[1].history_
    assert chosen[0].summary_["window"] == chosen[1].summary_["window"]
    assert chosen[0].summary_["held_out"][OURS] != chosen[1].summary_["held_out"][OURS]


@pytest.mark.slow
def test_a_default_training_on_noise_ends_before_the_planned_steps():
    noise = Panel.from_array(np.random.default_rng(0).standard_normal((200, 2)))
    model = Forecaster(device="cpu").fit(noise)
    planned, patience = (USUAL_NETWORKS["frames"][name] for name in ("num_steps", "patience"))
    assert model.network_choice_.name == "frames"
    assert model.best_step_ + patience <= model.history_[-1]["step"] < planned


@pytest.mark.slow
def test_a_training_ends_when_held_out_steps_say_so():
    assert Forecaster().patience == 1000
    still = dict(learning_rate=0.0, c_learning_rate=0.0, validate_every=1)
    model = Forecaster(**SMALL | still | dict(num_steps=50, patience=3)).fit(COUNTS)
    assert model.history_[-1]["step"] == model.best_step_ + 3 == 4
