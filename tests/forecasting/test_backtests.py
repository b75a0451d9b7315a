"""Origins, errors and paired differences of a backtest, and its tables."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tdegnn import Graph, InputError, TrainingError
from tdegnn.data.panel import Panel
from tdegnn.forecasting.backtests.errors import ERRORS, Judge
from tdegnn.forecasting.backtests.origins import MOST_ORIGINS, choose_origins
from tdegnn.forecasting.backtests.own_training import shared_notes
from tdegnn.forecasting.backtests.paired import OriginErrors, block_length, compare, draw_origins
from tdegnn.forecasting.contenders.contender import Contender
from tdegnn.forecasting.contenders.registry import CONTENDERS, GROUPS
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.forecasting.intervals import INTERVALS
from tdegnn.forecasting.usual_networks import USUAL_NETWORKS
from tdegnn.training.devices import single_thread
from tdegnn.training.network_choice import ChosenNetwork

ROOT = Path(__file__).parent.parent.parent
NAMES = ("ant", "bee", "cat")
SMALL = dict(window=3, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=4, horizon=2, device="cpu")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def make_panel(num_steps=80):
    draw = np.random.default_rng(0)
    values = 20 + np.cumsum(draw.normal(size=(num_steps, 3)), axis=0)
    times = pd.date_range("2024-01-01", periods=num_steps, freq="D")
    return Panel.from_array(values, times=times, nodes=NAMES, graph=Graph([[0, 1], [1, 2]], 3))


class Repeated(Contender):
    """Repeats the last value, and counts its trainings."""

    num_fits = 0

    def fit(self, task):
        Repeated.num_fits += 1
        self.trained_on = task.panel.num_steps
        return self

    held_out = None

    def predict(self, panel, first_target_steps):
        assert first_target_steps[0] >= self.trained_on
        newest = panel.values[np.asarray(first_target_steps) - 1]
        return np.repeat(newest[:, None], 2, axis=1)


# Origins.


def test_all_origins_of_the_last_fifth_are_taken_with_one_training():
    origins = choose_origins(100, 4, 5)
    assert origins.firsts == range(80, 97)
    assert origins.trainings == [range(80, 97)]
    assert choose_origins(100, 4, 5, stride=5).firsts == range(81, 97, 5)
    assert choose_origins(100, 4, 5, num_folds=3).firsts == range(88, 97, 4)


def test_each_origin_has_its_own_training_with_refit():
    origins = choose_origins(100, 4, 5, refit=True)
    assert origins.trainings == [range(88, 89, 4), range(92, 93, 4), range(96, 97, 4)]


def test_origins_are_few_enough_for_memory():
    assert len(choose_origins(50_000, 12, 300).firsts) <= MOST_ORIGINS
    assert len(choose_origins(3_000, 12, 20_000).firsts) == 17
    assert choose_origins(50_000, 12, 300).firsts[-1] == 50_000 - 12


def test_a_short_series_leaves_enough_to_train_on():
    firsts = choose_origins(24, 2, 1, window=4).firsts
    assert firsts == range(22, 23)


# Errors.


def test_errors_are_what_they_are_called():
    draw = np.random.default_rng(1)
    observed, forecasts = draw.normal(size=(2, 5, 3, 2, 1))
    observed[0, 0, 0] = np.nan
    scale = np.array([[2.0], [0.5]])
    low, high = forecasts - 1, forecasts + 1
    measured = Judge(observed, scale, 0.8).measure(forecasts, low, high)
    errors = observed - forecasts
    assert measured["mae"] == pytest.approx(np.nanmean(np.abs(errors)))
    assert measured["rmse"] == pytest.approx(np.sqrt(np.nanmean(errors**2)))
    assert measured["mase"] == pytest.approx(np.nanmean(np.abs(errors) / scale))
    assert measured["coverage"] == pytest.approx(np.nanmean(np.where(np.isnan(errors), np.nan, np.abs(errors) <= 1)))
    below, above = observed - low, observed - high
    pinball = np.maximum(0.1 * below, -0.9 * below) + np.maximum(0.9 * above, -0.1 * above)
    assert measured["pinball"] == pytest.approx(np.nanmean(pinball) / 2)
    by_step = Judge(observed, scale, 0.8).measure(forecasts, low, high, per="horizon")
    assert by_step["mae"] == pytest.approx(np.nanmean(np.abs(errors), axis=(0, 2, 3)))
    by_both = Judge(observed, scale, 0.8).by_node_and_step(forecasts, low, high)
    assert by_both["mae"][:, 0] == pytest.approx(np.nanmean(np.abs(errors), axis=0)[..., 0].T)


def test_a_node_that_never_changed_has_no_scaled_error():
    observed, scale = np.ones((2, 1, 2, 1)), np.array([[0.0], [1.0]])
    measured = Judge(observed, scale, 0.9).measure(observed + 0.5, observed, observed)
    assert measured["mase"] == 0.5
    assert np.isnan(Judge(observed, 0 * scale, 0.9).measure(observed, observed, observed)["mase"])
    nothing = Judge(np.full_like(observed, np.nan), scale, 0.9).measure(observed, observed, observed, per="node")
    assert {name: values.shape for name, values in nothing.items()} == dict.fromkeys(ERRORS, (2,))


# Paired differences.


@pytest.mark.slow
def test_a_paired_interval_holds_what_is_true_about_as_often_as_it_says():
    """Errors of neighboring origins overlap, as those of forecasts of five steps do."""
    hits = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        noise = np.convolve(draw.normal(size=204), np.ones(5) / 5, mode="valid")
        ours = OriginErrors(np.full(200, 3.0), np.full(200, 9.0), np.ones(200))
        other = OriginErrors(3.2 + noise, np.full(200, 16.0), np.ones(200))
        found = compare(ours, other, block_length(200, 5, 1))
        hits += found["mae"].low <= 0.2 <= found["mae"].high
    assert 33 <= hits <= 40
    assert found["rmse"] == pytest.approx((1, 1, 1))


def test_few_origins_have_no_interval_and_unseen_ones_do_not_count():
    ours = OriginErrors(np.array([1.0, 2.0, np.nan]), np.array([1.0, 4.0, np.nan]), np.array([1.0, 3.0, 0.0]))
    other = OriginErrors(np.array([2.0, 2.0, np.nan]), np.array([4.0, 4.0, np.nan]), ours.weights)
    found = compare(ours, other, 1)["mae"]
    assert found.difference == pytest.approx(0.25)
    assert np.isnan(found.low)
    assert not found.is_clear


def test_blocks_are_neighbors_in_a_circle():
    drawn = draw_origins(10, 4)
    assert drawn.shape[1] == 10
    assert (np.diff(drawn[:, :4], axis=1) % 10 == 1).all()
    assert (block_length(300, 12, 1), block_length(300, 12, 12), block_length(2, 12, 1)) == (12, 7, 2)


# The whole.


@pytest.fixture(scope="module")
def backtest():
    return Forecaster(**SMALL).backtest(make_panel(), against=["last", "ridge", Repeated])


@pytest.mark.slow
def test_methods_are_trained_once_and_forecast_from_every_origin(backtest):
    assert Repeated.num_fits == 1
    assert backtest.num_origins == 15
    assert list(backtest.methods) == ["forecaster", "last", "ridge", "Repeated"]
    np.testing.assert_allclose(backtest.methods["Repeated"].values, backtest.methods["last"].values)
    panel = make_panel()
    trained = Forecaster(**SMALL).fit(panel[:64])
    for place in (0, 14):
        forecast = trained.predict(panel=panel[: 64 + place])
        np.testing.assert_allclose(backtest.methods["forecaster"].values[place], forecast.values)
        np.testing.assert_allclose(backtest.methods["forecaster"].low[place], forecast.low)
        np.testing.assert_array_equal(backtest.judge.observed[place], panel.values[64 + place : 66 + place])


@pytest.mark.slow
def test_methods_without_held_out_forecasts_have_no_intervals(backtest):
    means = backtest.means()
    assert np.isnan(means["Repeated"]["coverage"])
    assert np.isnan(means["Repeated"]["pinball"])
    assert 0 <= means["ridge"]["coverage"] <= 1
    assert means["last"]["mae"] == pytest.approx(means["Repeated"]["mae"])
    assert backtest.differences()["last"]["mae"].difference == pytest.approx(
        means["last"]["mae"] - means["forecaster"]["mae"]
    )


@pytest.mark.slow
def test_tables_name_their_rows(backtest):
    frame = backtest.to_frame()
    assert len(frame) == 4 * 15 * 2 * 3
    row = frame[(frame["method"] == "last") & (frame["node"] == "bee") & (frame["step"] == 2)].iloc[-1]
    assert (row["time"], row["origin"]) == (pd.Timestamp("2024-03-20"), pd.Timestamp("2024-03-19"))
    assert row["observed"] == make_panel().values[-1, 1, 0]
    by_both = backtest.by_node_and_step()
    rows = frame[(frame["method"] == "ridge") & (frame["node"] == "cat") & (frame["step"] == 1)]
    found = by_both[(by_both["method"] == "ridge") & (by_both["node"] == "cat") & (by_both["step"] == 1)]
    assert found["mae"].item() == pytest.approx(rows["error"].abs().mean())
    assert backtest.by_node().shape == (12, 2 + len(ERRORS))


@pytest.mark.slow
def test_a_backtest_says_what_the_forecaster_chose_in_each_training(monkeypatch):
    networks = iter(["walks", "alone"])

    def choose(*_):
        name = next(networks)
        return ChosenNetwork(name, USUAL_NETWORKS[name], reason=f"{name} was better.", scores={name: -1.0})

    monkeypatch.setattr(Forecaster, "_choose_network", choose)
    quick = dict(window=3, num_members=1, num_steps=2, horizon=2, device="cpu")
    found = Forecaster(**quick).backtest(make_panel(), against=["last"], num_folds=2, refit=True)
    assert [training.network.name for training in found.trainings] == ["walks", "alone"]
    assert found.orders == (3, 3)  # a window has no more
    lines = str(found).splitlines()[-2:]
    assert re.fullmatch(r"The forecaster, training 1 of 2: network walks, window 3, order 3, best step \d\.", lines[0])
    assert re.fullmatch(r"The forecaster, training 2 of 2: network alone, window 3, order 3, best step \d\.", lines[1])
    record = json.loads(json.dumps(found.to_record()))
    assert record["settings"] == json.loads(json.dumps(Forecaster(**quick).to_record()))
    assert [training["network"] for training in record["trainings"]] == [
        {"name": "walks", "settings": {}, "scores": {"walks": -1.0}},
        {"name": "alone", "settings": {"operator": "alone"}, "scores": {"alone": -1.0}},
    ]
    of_each = [training["notes"] for training in record["trainings"]]
    for notes, name, other in zip(of_each, ("walks", "alone"), ("alone", "walks"), strict=True):
        assert f"{name} was better." in notes
        assert f"{other} was better." not in notes
    shared = shared_notes(found.trainings)
    assert shared
    assert shared == [note for note in of_each[0] if note in of_each[1]]
    assert shared_notes(found.trainings[:1]) == of_each[0]


@pytest.mark.slow
def test_the_page_on_backtests_is_true(monkeypatch):
    page = (ROOT / "docs" / "backtests.md").read_text()
    monkeypatch.chdir(ROOT)
    said = {}
    exec(re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1], said)
    assert list(said["backtest"].methods) == ["forecaster", "mean", "last", "season", "ridge", "gconvgru"]
    assert len(said["figure"].axes) == 2
    assert all(f"`{name}`" in page for name in (*CONTENDERS, *GROUPS))


class Echo(Contender):
    """Trains the forecaster once more: a rival that makes the same forecasts."""

    intervals = None

    def fit(self, task):
        self.model = Forecaster(**SMALL, intervals=Echo.intervals).fit(task.panel)
        self.held_out = self.model.fitted_.held_out.forecasts
        assert len(self.held_out) == len(task.held_out_firsts)
        return self

    def predict(self, panel, first_target_steps):
        return np.stack([self.model.predict(panel=panel[:first]).values for first in first_target_steps])


def make_counts(num_steps=330):
    """Return hourly counts with gaps, of which many are zero."""
    draw = np.random.default_rng(1)
    hours = np.arange(num_steps)[:, None] % 24
    values = draw.poisson(0.05 + hours / 6 * np.array([0.1, 0.3, 0.5])).astype(float)
    values[draw.random(values.shape) < 0.03] = np.nan
    times = pd.date_range("2024-01-01", periods=num_steps, freq="h")
    return Panel.from_array(values, times=times, nodes=NAMES, graph=Graph([[0, 1], [1, 2]], 3))


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("intervals", INTERVALS.names)
def test_rivals_have_intervals_of_the_same_method(intervals, stride, monkeypatch):
    monkeypatch.setattr(Echo, "intervals", intervals)
    model = Forecaster(**SMALL, intervals=intervals)
    backtest = model.backtest(make_counts(), against=[Echo, "last"], num_folds=12, stride=stride)
    ours, same, other = (backtest.methods[name] for name in ("forecaster", "Echo", "last"))
    np.testing.assert_allclose(same.values, ours.values, rtol=1e-5, atol=1e-6)
    for end in ("low", "high"):
        np.testing.assert_allclose(getattr(same, end), getattr(ours, end), rtol=1e-4, atol=1e-5)
    if intervals != "conformal":  # all others depend on what is forecast, whoever forecasts
        assert min(np.ptp(each.high - each.low, axis=0).max() for each in (ours, same, other)) > 0.1
    assert np.isfinite(other.low).all()


class Short(Repeated):
    """Forecasts one step only."""

    def predict(self, panel, first_target_steps):
        return super().predict(panel, first_target_steps)[:, :1]


class Diverged(Repeated):
    """Cannot be trained."""

    def fit(self, task):
        raise TrainingError("Expected numbers, got none.")


@pytest.mark.slow
def test_a_method_that_cannot_be_trained_does_not_stop_the_others():
    model = Forecaster(**SMALL | dict(num_steps=1))
    backtest = model.backtest(make_panel(), against=[Diverged, "last"], num_folds=2)
    assert backtest.notes[0] == "Diverged could not be trained: Expected numbers, got none."
    means = backtest.means()
    assert list(means)[-1] == "Diverged"
    assert np.isnan(means["Diverged"]["mae"])
    assert np.isfinite(means["last"]["mae"])
    assert np.isnan(backtest.differences()["Diverged"]["mae"].difference)
    assert len(backtest.plot().axes) == 2


@pytest.mark.slow
def test_forecasts_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"forecasts of Short of shape \(1, 2, 3, 1\), got \(1, 1, 3, 1\)"):
        Forecaster(**SMALL | dict(num_steps=1)).backtest(make_panel(), against=[Short], num_folds=1)


def test_wrong_requests_are_explained():
    panel, model = make_panel(), Forecaster(**SMALL)
    for against, message in (
        (["ridges"], "Expected a method among mean, last, .* got 'ridges'. Did you mean 'ridge'?"),
        ("ridge", "Expected a list of methods, got the text 'ridge'"),
        ([Panel], "or derived from Contender, got the class Panel"),
    ):
        with pytest.raises(InputError, match=message):
            model.backtest(panel, against=against)
    numbered = Panel.from_array(panel.values)
    with pytest.raises(InputError, match="Expected a season for 'season', got series without one"):
        model.backtest(numbered, against=["season"])
    with pytest.raises(InputError, match="Expected dates over at least two days or weeks for 'calendar', got none."):
        model.backtest(numbered, against=["calendar"])
