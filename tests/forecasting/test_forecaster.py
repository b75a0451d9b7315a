from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone
from sklearn.metrics import r2_score

from tdegnn import Graph, InputError, NotFittedError, TrainingError, simulate_wave
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season
from tdegnn.data.times.times import show_time
from tdegnn.forecasting import training as forecaster_training
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.forecasting.held_out import OURS, choose_window, fewest_steps, split_for_forecast
from tdegnn.forecasting.intervals import measure_coverage
from tdegnn.parts import Part
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import single_thread

STEPS, NODES = 60, 4
NAMES = ["ant", "bee", "cat", "dog"]
GRAPH = Graph([[0, 1, 2], [1, 2, 3]], NODES)
SMALL = dict(
    window=3, order=2, hidden_channels=4, num_layers=1, dropout=0.1, learning_rate=0.03, num_members=1, num_steps=6,
    validate_every=2, horizon=1, device="cpu",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def simulate(num_steps=STEPS, num_nodes=NODES, seed=0, own=0.7, others=0.2, warm_up=30):
    """A stationary AR(1) on a ring: a node follows itself, the one before it, and chance."""
    draw = np.random.default_rng(seed)
    values = np.zeros((warm_up + num_steps, num_nodes))
    for step in range(1, len(values)):
        noise = draw.normal(size=num_nodes)
        values[step] = own * values[step - 1] + others * np.roll(values[step - 1], 1) + noise
    return values[warm_up:]


def make_panel(values=None, times=None, graph=GRAPH, **options):
    values = 100 + 10 * simulate() if values is None else values
    times = pd.date_range("2021-03-01", periods=len(values), freq="D") if times is None else times
    return Panel.from_array(values, times=times, nodes=NAMES[: values.shape[1]], graph=graph, **options)


PANEL = make_panel()


@pytest.fixture(scope="module")
def fitted():
    """Two networks, two steps ahead, with a weekly season."""
    return Forecaster(**SMALL | dict(horizon=2, num_members=2)).fit(PANEL)


@pytest.fixture(scope="module")
def one_step():
    return Forecaster(**SMALL).fit(PANEL)


def extended(panel, forecast):
    """A panel with forecasts as if they had been observed, made by hand."""
    values = np.concatenate([panel.values, forecast.values])
    return make_panel(values, times=pd.date_range("2021-03-01", periods=len(values), freq="D"))


def assert_same(one, other):
    for name in ("values", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.times.equals(other.times)
    assert (one.nodes, one.channels, one.coverage, one.notes) == (
        other.nodes,
        other.channels,
        other.coverage,
        other.notes,
    )


# What a forecast is.


def test_a_forecast_has_the_names_and_times_of_what_comes_next(fitted):
    forecast = fitted.predict()
    assert forecast.values.shape == forecast.low.shape == forecast.high.shape == (2, NODES, 1)
    assert forecast.times.equals(pd.date_range("2021-04-30", periods=2, freq="D", unit="us"))
    assert (forecast.low < forecast.values).all()
    assert (forecast.values < forecast.high).all()
    frame = forecast.to_frame()
    assert list(frame) == ["time", "node", "forecast", "low", "high"]
    assert frame["node"].tolist() == NAMES * 2
    assert frame["time"].tolist() == [*[pd.Timestamp("2021-04-30")] * NODES, *[pd.Timestamp("2021-05-01")] * NODES]
    for row in frame.itertuples():
        place = list(forecast.times).index(row.time), NAMES.index(row.node), 0
        assert (row.forecast, row.low, row.high) == tuple(
            part[place] for part in (forecast.values, forecast.low, forecast.high)
        )
    panel = forecast.to_panel()
    assert (panel.nodes, panel.channels) == (tuple(NAMES), ("value",))
    np.testing.assert_array_equal(panel.values, forecast.values)


def test_several_targets_have_a_column_for_their_names():
    values = np.stack([simulate(seed=0), 1000 * simulate(seed=1), simulate(seed=2)], axis=-1)
    times = pd.date_range("2021-10-20 22:00", periods=STEPS, freq="h", tz="Europe/Berlin")
    panel = make_panel(values, times, channels=["cases", "tests", "heat"], num_targets=2)
    forecast = Forecaster(**SMALL).fit(panel).predict(3)
    frame = forecast.to_frame()
    assert list(frame) == ["time", "node", "channel", "forecast", "low", "high"]
    assert frame["channel"].tolist() == ["cases", "tests"] * NODES * 3
    assert frame["node"].tolist() == [name for name in NAMES for _ in range(2)] * 3
    assert str(frame["time"].dt.tz) == "Europe/Berlin"
    assert frame["time"].iloc[0] == times[-1] + pd.Timedelta(hours=1)
    assert np.abs(forecast.values[..., 1]).mean() > 10 * np.abs(forecast.values[..., 0]).mean()  # in their units


@pytest.mark.slow
def test_counts_are_not_forecast_below_zero(tmp_path):
    counts = make_panel(np.random.default_rng(0).poisson(0.3, (STEPS, NODES)).astype(float))
    settings = SMALL | dict(horizon=2)
    free = Forecaster(**settings, lowest=-100).fit(counts)
    assert free.predict().low.min() < 0
    Forecaster(**settings).fit(counts, run=tmp_path / "by itself")
    bounded = Forecaster(**settings, lowest=0).fit(counts, run=tmp_path / "run")
    unasked = Forecaster.load(tmp_path / "by itself").predict(6)
    np.testing.assert_array_equal(unasked.low, bounded.predict(6).low)
    for model in (bounded, Forecaster.load(tmp_path / "run")):
        forecast = model.predict(6)
        assert forecast.values.min() >= 0
        assert np.nanmin(forecast.low) == 0
        assert not any("below 0" in note for note in model.notes_)
    np.testing.assert_array_equal(forecast.values[:2], np.maximum(free.predict().values, 0))


@pytest.mark.slow
def test_intervals_below_zero_have_a_note_if_nothing_below_it_was_observed():
    values = np.random.default_rng(0).exponential(0.3, (STEPS, NODES))
    model = Forecaster(**SMALL).fit(make_panel(values))
    assert [note for note in model.notes_ if note.endswith("If there can be nothing below 0, pass lowest=0.")]


@pytest.mark.slow
def test_values_far_above_zero_or_on_both_sides_of_it_need_no_note(fitted):
    around_zero = Forecaster(**SMALL).fit(make_panel(simulate() - simulate().mean()))
    for model in (fitted, around_zero):
        assert not any("below 0" in note for note in model.notes_)


def test_a_forecast_is_shown_in_one_line(fitted):
    forecast = fitted.predict()
    first, last = (f"{time:%Y-%m-%d}" for time in forecast.times)
    assert repr(forecast) == f"Forecast(2 steps, {first} to {last}; 4 nodes; value; 90% intervals)"
    assert repr(fitted.predict(1)) == f"Forecast(1 step, {first}; 4 nodes; value; 90% intervals)"
    assert repr(replace(forecast, low=forecast.low * np.nan)).endswith("; no intervals)")


def test_the_forecast_is_the_mean_of_the_networks(fitted):
    single = []
    for network in fitted.networks_:
        alone = clone(fitted)
        alone.fitted_ = replace(fitted.fitted_, ensemble=replace(fitted.fitted_.ensemble, networks=(network,)))
        single.append(alone.predict().values)
    assert not np.allclose(single[0], single[1])
    np.testing.assert_allclose(fitted.predict().values, np.mean(single, axis=0))


def test_only_the_last_window_matters(one_step):
    later = one_step.predict(panel=PANEL[-3:])
    np.testing.assert_array_equal(later.values, one_step.predict().values)
    moved = replace(PANEL, values=np.where(np.arange(STEPS)[:, None, None] < STEPS - 3, 0.0, PANEL.values))
    np.testing.assert_array_equal(one_step.predict(panel=moved).values, one_step.predict().values)


@pytest.mark.slow
def test_a_node_that_is_moved_to_other_units_moves_its_forecast():
    factors, shifts = np.array([1.0, 10.0, 0.1, 1000.0])[:, None], np.array([0.0, -5.0, 1.0, 1e4])[:, None]
    moved = replace(PANEL, values=PANEL.values * factors + shifts)
    ours, theirs = (Forecaster(**SMALL).fit(panel).predict() for panel in (PANEL, moved))
    for name in ("values", "low", "high"):
        np.testing.assert_allclose(getattr(ours, name) * factors + shifts, getattr(theirs, name), rtol=1e-4)


# Beyond the horizon.


def test_beyond_the_horizon_forecasts_are_made_from_forecasts(one_step):
    seen, by_hand = PANEL, []
    for _ in range(4):
        by_hand.append(one_step.predict(panel=seen))
        seen = extended(seen, by_hand[-1])
    forecast = one_step.predict(4)
    np.testing.assert_allclose(forecast.values, np.concatenate([each.values for each in by_hand]), rtol=1e-6)
    assert forecast.times.tolist() == [each.times[0] for each in by_hand]
    np.testing.assert_array_equal(forecast.low[0], by_hand[0].low[0])
    # One step cannot tell how widths grow: as those of a series that wanders.
    widths = forecast.high - forecast.low
    np.testing.assert_allclose(widths, widths[0] * np.sqrt(np.arange(1, 5))[:, None, None])
    assert forecast.notes == (
        "Steps after the first 1 are forecast from forecasts. "
        "Their intervals are extrapolated: no held-out forecast was that long.",
    )


def test_steps_come_in_blocks_of_the_horizon(fitted):
    first = fitted.predict()
    second = fitted.predict(panel=extended(PANEL, first))
    both = np.concatenate([first.values, second.values])
    for horizon in (1, 2, 3, 4):
        forecast = fitted.predict(horizon)
        np.testing.assert_allclose(forecast.values, both[:horizon], rtol=1e-6)
        assert len(forecast.times) == horizon
        assert np.isfinite(forecast.low).all()
        np.testing.assert_array_equal(forecast.low[:2], first.low[:horizon])
        assert (np.diff(forecast.high - forecast.low, axis=0)[1:] >= 0).all()
        assert bool(forecast.notes) == (horizon > 2)


# Intervals.


@pytest.mark.slow
def test_intervals_hold_what_they_promise_on_stationary_series():
    """Ninety percent, within two points, on average over twenty series.

    A small network, few steps and one step ahead: intervals must hold whatever the forecaster is worth. The validation
    part is long, for where residuals are few the promise is kept by more than ninety percent.
    """
    num_known, num_nodes, origins = 1500, 10, range(1500, 1560, 3)
    settings = SMALL | dict(window=2, learning_rate=0.1, num_steps=4, validate_every=4)
    ring = Graph([range(num_nodes), [*range(1, num_nodes), 0]], num_nodes)
    reached = []
    for seed in range(20):
        panel = Panel.from_array(simulate(1560, num_nodes, seed), graph=ring)
        model = Forecaster(**settings, seed=seed).fit(panel[:num_known])
        for origin in origins:
            forecast = model.predict(panel=panel[origin - 2 : origin])
            reached.append(measure_coverage(forecast.low, forecast.high, panel.values[origin : origin + 1]))
    assert 0.88 <= np.mean(reached) <= 0.92


@pytest.mark.slow
def test_intervals_are_those_of_the_held_out_residuals(one_step):
    split = split_for_forecast(STEPS, 3, 1)
    # The networks that were measured are gone, so only the number of residuals can be seen from here.
    assert one_step.summary_["held_out"]["steps"] == len(split.validation) == 9
    assert one_step.intervals_.chosen.widths.shape == (1, NODES, 1)
    wider = Forecaster(**SMALL, coverage=0.95).fit(PANEL)
    assert (wider.intervals_.chosen.widths >= one_step.intervals_.chosen.widths).all()
    assert wider.predict().coverage == 0.95


@pytest.mark.slow
def test_other_coverages_and_quantiles_are_asked_for_after_the_training(fitted, tmp_path):
    usual, half = fitted.predict(3), fitted.predict(3, coverage=0.5, quantiles=[0.05, 0.25, 0.5, 0.95])
    assert (usual.coverage, half.coverage) == (0.9, 0.5)
    assert "50% intervals" in repr(half)
    np.testing.assert_array_equal(half.values, usual.values)
    assert ((usual.low < half.low) & (half.low < half.values) & (half.high < usual.high)).all()
    for level, expected in {0.05: usual.low, 0.25: half.low, 0.5: usual.values, 0.95: usual.high}.items():
        np.testing.assert_allclose(half.quantiles[level], expected)
    frame = half.to_frame()
    assert list(frame) == ["time", "node", "forecast", "low", "high", "q0.05", "q0.25", "q0.5", "q0.95"]
    np.testing.assert_array_equal(frame["q0.95"], half.quantiles[0.95].ravel())
    fitted.save(tmp_path / "model")
    assert_same(Forecaster.load(tmp_path / "model").predict(3, coverage=0.5), fitted.predict(3, coverage=0.5))


def test_a_coverage_that_cannot_be_is_explained(as_a_user, fitted, tmp_path):
    with pytest.raises(InputError, match="a coverage between 0 and 1, got 50. 0.9 stands for 90 %"):
        fitted.predict(coverage=50)
    with pytest.raises(InputError, match="a quantile between 0 and 1, got 1.0"):
        fitted.predict(quantiles=[0.5, 1])
    # 8 held-out windows of 4 nodes.
    with pytest.raises(InputError, match="at most 0.95, for which enough steps were held out, got 0.99. Lower it"):
        fitted.predict(coverage=0.99)
    fitted.save(tmp_path / "model")
    old = Forecaster.load(tmp_path / "model")
    chosen = replace(old.intervals_.chosen, at_levels=None)  # as an earlier version stored it
    old.fitted_ = replace(old.fitted_, intervals=replace(old.intervals_, chosen=chosen))
    with pytest.raises(InputError, match="a coverage of 0.9, that of the training, got 0.5: .* with coverage=0.5."):
        old.predict(coverage=0.5)
    without = Forecaster.load(tmp_path / "model")
    without.fitted_ = replace(old.fitted_, intervals=None)
    with pytest.raises(InputError, match="with intervals for another coverage .* Train on a longer series"):
        without.predict(quantiles=[0.1])


@pytest.mark.slow
def test_the_score_is_r_squared_after_the_training(fitted):
    values = 100 + 10 * simulate(STEPS + 12)
    values[STEPS + 4, 1] = np.nan
    values[STEPS:, 3] = 7.0  # does not change, and does not count
    newer = make_panel(values)
    firsts = range(STEPS, STEPS + 11)
    forecasts = np.stack([fitted.predict(panel=newer[:first]).values[..., 0] for first in firsts])
    observed = np.stack([values[first : first + 2] for first in firsts])
    by_node = []
    for node in range(3):
        is_known = ~np.isnan(observed[..., node])
        by_node.append(r2_score(observed[..., node][is_known], forecasts[..., node][is_known]))
    assert fitted.score(newer) == pytest.approx(np.mean(by_node), rel=1e-5)
    assert fitted.score(newer[STEPS - 3 :]) == pytest.approx(fitted.score(newer))  # the window is enough
    with pytest.raises(InputError, match="at least 2 steps, the horizon, after the training, which ends at 2021-04-29"):
        fitted.score(PANEL)
    with pytest.raises(InputError, match="Expected series that change after the training, got none"):
        fitted.score(make_panel(np.concatenate([PANEL.values[..., 0], np.full((4, NODES), 7.0)])))


@pytest.mark.slow
@pytest.mark.parametrize("num_targets", [1, 2])
def test_too_few_held_out_steps_give_a_note_and_no_intervals(num_targets):
    values = simulate(20, num_targets)[:, None]
    panel = Panel.from_array(values, channels=["a", "b"][:num_targets], num_targets=num_targets)
    model = Forecaster(**SMALL).fit(panel)
    assert model.intervals_ is None
    assert any("too few held-out steps for intervals" in note for note in model.notes_)
    forecast = model.predict()
    assert np.isfinite(forecast.values).all()
    assert np.isnan(forecast.low).all()


# What comes in.


@pytest.mark.slow
def test_missing_values_come_in_and_forecasts_come_out():
    draw = np.random.default_rng(0)
    values = 100 + simulate()
    values[draw.random(values.shape) < 0.2] = np.nan
    values[-3:, 0] = np.nan  # nothing is known of a node at the end
    model = Forecaster(**SMALL | dict(horizon=2)).fit(make_panel(values))
    assert model.maker_.has_mask
    forecast = model.predict(5)
    assert np.isfinite(forecast.values).all()
    assert np.isfinite(forecast.low[:2]).all()
    assert np.isfinite(model.summary_["held_out"]["forecaster"]["mse"])


@pytest.mark.slow
def test_without_a_graph_there_is_a_note_and_nodes_do_not_reach_each_other():
    panel = make_panel(graph=None)
    model = Forecaster(**SMALL, skip="none").fit(panel)
    assert "There is no graph: nodes are forecast without their neighbors." in model.notes_
    moved = panel.values.copy()
    moved[-1, 1] += 50
    change = model.predict(panel=replace(panel, values=moved)).values - model.predict().values
    assert (change != 0).ravel().tolist() == [False, True, False, False]


@pytest.mark.slow
def test_with_a_graph_neighbors_reach_each_other():
    model = Forecaster(**SMALL, skip="none", operator=Part("walks", num_hops=1)).fit(PANEL)
    assert not any("no graph" in note for note in model.notes_)
    moved = PANEL.values.copy()
    moved[-1, 1] += 50
    change = model.predict(panel=replace(PANEL, values=moved)).values - model.predict().values
    assert (np.abs(change) > 1e-9).ravel().tolist() == [True, True, True, False]


def with_weather(num_steps=STEPS):
    """A target that follows a channel of chance, and nothing else."""
    weather = np.random.default_rng(1).normal(size=(num_steps, NODES))
    values = np.stack([50 + 5 * weather, weather], axis=-1)
    return make_panel(values, channels=["cases", "weather"])


@pytest.mark.slow
def test_what_is_known_ahead_helps_where_it_decides():
    panel = with_weather(90)
    settings = SMALL | dict(learning_rate=0.1, num_steps=40, validate_every=5, dropout=0.0, horizon=2, skip="linear")
    without = Forecaster(**settings).fit(panel[:80])
    model = Forecaster(**settings, known=["weather"]).fit(panel[:80])
    errors = [each.summary_["held_out"]["forecaster"]["mse"] for each in (model, without)]
    assert errors[0] < 0.2 * errors[1]
    forecast = model.predict(4, future=panel[80:])
    observed = panel.values[80:84, :, :1]
    assert np.mean((forecast.values - observed) ** 2) < 0.2 * observed.var()
    # What a future says about the target is not known, and changes nothing.
    hidden = replace(panel[80:], values=panel.values[80:] * np.array([0.0, 1.0]))
    np.testing.assert_array_equal(model.predict(4, future=hidden).values, forecast.values)
    assert len(model.plot(4, future=panel[80:]).axes) == NODES
    with pytest.raises(InputError, match="future values of weather, got none. Pass future="):
        model.predict()
    with pytest.raises(InputError, match="future values of 2 steps from 2021-05-20 on, got none at 2021-05-20. Give"):
        model.predict(future=panel[85:])


@pytest.mark.slow
def test_what_is_known_ahead_is_needed_for_the_steps_asked_for_alone():
    panel = with_weather(60)
    model = Forecaster(**SMALL | dict(horizon=4), known=["weather"]).fit(panel[:50])
    whole = model.predict(8, future=panel[50:])
    # What is given beyond the steps asked for is used: the first steps are those of the longer forecast.
    for horizon in (1, 4, 6):
        np.testing.assert_array_equal(model.predict(horizon, future=panel[50:]).values, whole.values[:horizon])
    for horizon in (1, 3, 6):
        forecast = model.predict(horizon, future=panel[50 : 50 + horizon])
        assert forecast.values.shape == (horizon, NODES, 1)
        assert np.isfinite(forecast.values).all()
        np.testing.assert_array_equal(forecast.values[: horizon // 4 * 4], whole.values[: horizon // 4 * 4])
        missing = show_time(panel.times[50 + horizon])
        message = (
            f"values of {horizon + 1} steps from 2021-04-20 on, got none at {missing}. Give them, or forecast fewer"
        )
        with pytest.raises(InputError, match=message):
            model.predict(horizon + 1, future=panel[50 : 50 + horizon])
    # What is not given goes on as it was.
    constant = np.concatenate([panel.values[50:51], *3 * [panel.values[50:51]]])
    ahead = replace(panel[50:54], values=constant)
    np.testing.assert_array_equal(model.predict(1, future=ahead[:1]).values, model.predict(1, future=ahead).values)
    with pytest.raises(InputError, match="future values of 'weather', got none. Give them, or train without known="):
        model.predict(1, future=replace(panel[50:], channels=("cases", "rain")))


@pytest.mark.slow
def test_gaps_in_what_is_known_ahead_do_no_harm():
    panel = with_weather()
    panel.values[10:14, :, 1] = np.nan
    model = Forecaster(**SMALL, known=["weather"], system="TDE-GNN_A").fit(panel[:50])
    assert np.isfinite(model.predict(future=panel[50:]).values).all()
    assert np.isfinite(model.coefficients_).all()


@pytest.mark.slow
def test_calendar_and_season_are_found_or_given(one_step):
    assert [season.period for season in one_step.maker_.seasons] == [7.0]
    undated = Panel.from_array(simulate())
    assert Forecaster(**SMALL).fit(undated).maker_.seasons == ()
    assert Forecaster(**SMALL, season=5).fit(undated).maker_.seasons == (Season(5.0, 2),)
    assert Forecaster(**SMALL, season=12.5).fit(undated).maker_.seasons == (Season(12.5, 3),)


# What is decided and said.


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [1, 3])
def test_a_series_that_is_too_short_is_refused_with_one_line(horizon):
    needed = fewest_steps(3, horizon)
    model = Forecaster(**SMALL | dict(horizon=horizon))
    message = f"at least {needed} steps for a window of 3 and a horizon of {horizon}"
    with pytest.raises(InputError, match=message) as error:
        model.fit(PANEL[: needed - 1])
    assert "\n" not in str(error.value)
    assert f"got {needed - 1}. Take a shorter window or horizon, or a longer series." in str(error.value)
    assert model.fit(PANEL[:needed]).predict().values.shape == (horizon, NODES, 1)


@pytest.mark.parametrize("num_steps", [17, 19, 20, 27, 28, 40])
@pytest.mark.parametrize("horizon", [1, 2, 6])
def test_a_window_is_chosen_wherever_one_fits(num_steps, horizon):
    """And where none fits, the message is about the series the user gave."""
    panel = Panel.from_array(simulate(num_steps))
    window = choose_window(panel, horizon, ())
    assert 1 <= window <= max(4, num_steps // 5)
    if num_steps >= fewest_steps(window, horizon):
        split = split_for_forecast(num_steps, window, horizon)
        assert (split.training.start, split.training.stop, split.validation.stop) == (
            window,
            split.validation.start,
            num_steps,
        )
        assert min(len(split.training), len(split.validation)) >= 8 + horizon - 1
    else:
        with pytest.raises(InputError, match=f"got {num_steps}"):
            split_for_forecast(num_steps, window, horizon)


def lagged(lag, num_steps):
    """Each value follows the one `lag` steps before, and no other."""
    values = np.random.default_rng(0).normal(size=(num_steps, NODES))
    for step in range(lag, num_steps):
        values[step] += 0.95 * values[step - lag]
    return Panel.from_array(values, graph=GRAPH)


@pytest.mark.parametrize("lag", [3, 7, 12])
def test_the_window_that_is_chosen_covers_the_lag(lag):
    panel = lagged(lag, 160)
    shorter = max([length for length in (4, 8, 13) if length < lag], default=0)
    window = choose_window(panel, 1, ())
    assert window >= lag > shorter
    model = Forecaster(**SMALL | dict(window=None, num_steps=1)).fit(panel)
    assert model.maker_.window == model.summary_["window"] == window


def test_a_season_is_a_window_to_choose():
    panel = lagged(30, 240)
    assert choose_window(panel, 1, (Season(30.0, 3),)) == 30
    assert choose_window(panel[:100], 1, (Season(30.0, 3),)) < 30  # it would take too much of the series


def test_a_forecaster_no_better_than_a_naive_one_says_so():
    walk = np.cumsum(np.random.default_rng(0).normal(size=(STEPS, NODES)), axis=0)
    panel = Panel.from_array(100 + 5 * walk)
    model = Forecaster(**SMALL | dict(num_steps=1, learning_rate=0.0, skip="none")).fit(panel)
    (note,) = [note for note in model.notes_ if "no better" in note]
    held_out = model.summary_["held_out"]
    best = min(("the mean", "the last value"), key=lambda name: held_out[name]["mse"])
    assert held_out[best]["mse"] <= held_out[OURS]["mse"]
    assert note == (
        f"On the 9 held-out steps this forecaster is no better than {best}. Its training was short (1 step): "
        "raise num_steps=."
    )
    assert note.as_options().endswith("raise --steps.")
    assert model.summary_["notes"] == model.notes_
    split = split_for_forecast(STEPS, 3, 1)
    errors = np.diff(panel.values[split.validation.start - 1 :, :, 0], axis=0)
    assert held_out["the last value"]["mse"] == pytest.approx((errors**2).mean())
    assert held_out["the last value"]["mae"] == pytest.approx(np.abs(errors).mean())


@pytest.mark.slow
def test_a_forecaster_that_is_better_says_nothing():
    model = Forecaster(**SMALL | dict(learning_rate=0.1, num_steps=40, validate_every=10, dropout=0.0))
    steps = np.arange(120)[:, None]
    panel = Panel.from_array(np.sin(2 * np.pi * steps / 9 + np.arange(NODES)), graph=GRAPH)
    assert not any("no better" in note for note in model.fit(panel).notes_)
    assert model.summary_["held_out"][OURS]["mse"] < 0.1


@pytest.mark.slow
def test_the_step_is_the_best_on_the_held_out_windows(fitted):
    looks = []
    again = Forecaster(**SMALL | dict(horizon=2, num_members=2)).fit(PANEL, on_look=looks.append)
    assert again.history_ == fitted.history_ == [look.to_record() for look in looks]
    assert [line["step"] for line in fitted.history_] == [2, 4, 6]
    scores = np.array([line["score"] for line in fitted.history_])
    assert fitted.best_step_ == min(2 + 2 * scores.argmax(axis=0)) == fitted.summary_["best_step"]
    assert_same(again.predict(), fitted.predict())  # and nothing is left to chance


@pytest.mark.slow
def test_the_training_on_everything_tells_its_steps():
    told = []
    model = Forecaster(**SMALL).fit(PANEL, on_progress=told.append)
    totals = {
        "training": SMALL["num_steps"],
        "errors and intervals": 1,
        "again, with the held-out steps": model.best_step_,
    }
    assert told == [(stage, done, total) for stage, total in totals.items() for done in range(total + 1)]


# Going on.


def test_an_update_changes_the_forecast_and_keeps_the_scales(fitted, tmp_path):
    fitted.save(tmp_path / "before")
    model = Forecaster.load(tmp_path / "before")
    before = model.predict()
    scaler, arrays, window = model.maker_.scaler, model.intervals_.to_arrays(), model.maker_.window
    newer = make_panel(np.concatenate([PANEL.values, 40 + PANEL.values[:10]]))
    model.update(newer, num_steps=3)
    after = model.predict()
    assert after.times[0] == newer.future_times(1)[0]
    np.testing.assert_array_equal(model.maker_.scaler.center, scaler.center)
    np.testing.assert_array_equal(model.maker_.scaler.scale, scaler.scale)
    np.testing.assert_equal(model.intervals_.to_arrays(), arrays)
    assert model.maker_.window == window
    old = Forecaster.load(tmp_path / "before").predict(panel=newer)
    assert not np.allclose(old.values, after.values)  # by the weights, not by the data alone
    np.testing.assert_array_equal(fitted.predict().values, before.values)
    model.save(tmp_path / "after")
    assert_same(Forecaster.load(tmp_path / "after").predict(4), model.predict(4))


@pytest.mark.slow
def test_a_backtest_is_what_would_have_been_forecast(fitted):
    told = []
    before = fitted.predict().values
    backtest = fitted.backtest(PANEL, num_folds=2, stride=3, refit=True, on_method=told.append)
    np.testing.assert_array_equal(fitted.predict().values, before)
    methods = [OURS, "mean", "last", "season", "calendar"]
    assert told == 2 * methods
    table = backtest.by_origin().set_index(["method", "fold"])
    for fold, origin in enumerate((STEPS - 5, STEPS - 2)):
        observed, known = PANEL.values[origin : origin + 2], PANEL[:origin]
        by_hand = {
            "mean": known.values.mean(axis=0),
            "last": known.values[-1],
            "season": PANEL.values[origin - 7 : origin - 5],
            "calendar": np.stack([known.values[step % 7 :: 7].mean(axis=0) for step in (origin, origin + 1)]),
            OURS: clone(fitted).fit(known).predict().values,
        }
        for name, forecast in by_hand.items():
            line = table.loc[name, fold]
            assert line["mse"] == pytest.approx(((forecast - observed) ** 2).mean())
            assert line["mae"] == pytest.approx(np.abs(forecast - observed).mean())
            assert line["origin"] == show_time(PANEL.times[origin])
    # `known` and `observed` are those of the last fold now.
    forecast = clone(fitted).fit(known).predict()
    assert table.loc[OURS, 1]["coverage"] == measure_coverage(forecast.low, forecast.high, observed)
    assert table.loc[OURS]["order"].tolist() == [fitted.order_] * 2
    assert table.loc["mean"]["order"].isna().all()
    means = backtest.means()
    assert [row["mae"] for row in means.values()] == sorted(row["mae"] for row in means.values())
    for name in methods:
        assert means[name]["mae"] == pytest.approx(table.loc[name]["mae"].mean())
    assert backtest.aimed_coverage == 0.9


def test_a_backtest_gives_what_is_known_ahead():
    backtest = Forecaster(**SMALL, known=["weather"]).backtest(with_weather(), num_folds=1)
    assert np.isfinite(backtest.means()[OURS]["mse"])
    with pytest.raises(InputError, match="steps for 90 folds"):
        Forecaster(**SMALL).backtest(PANEL, num_folds=90)


# What was learned.


@pytest.mark.parametrize(("system", "order"), [("DE-GNN", 1), ("TDE-GNN_D", 2), ("TDE-GNN_A", 2)])
def test_the_report_is_about_a_latent_vector_that_sums_to_one(system, order):
    settings = SMALL | dict(system=system, num_layers=2, c_learning_rate=0.1, num_steps=2)
    model = Forecaster(**settings).fit(PANEL)
    assert model.coefficients_.shape == (2, order)
    np.testing.assert_allclose(model.coefficients_.sum(axis=1), 1, atol=1e-4)
    report = model.explain()
    np.testing.assert_allclose(report.coefficients, model.coefficients_.mean(axis=0))
    assert sum(report.coefficients) == pytest.approx(1, abs=1e-4)
    assert "latent" in Forecaster.explain.__doc__
    if order > 1:
        assert not np.allclose(report.coefficients, [1, 0], atol=1e-6)


def test_the_picture_has_a_panel_a_node(fitted):
    axes = fitted.plot(3, nodes=["cat", "ant"]).axes
    assert [panel.get_title(loc="left") for panel in axes] == ["cat", "ant"]
    observed, *forecast = axes[0].get_lines()
    np.testing.assert_array_equal(observed.get_ydata(), PANEL.values[-16:, 2, 0])
    # From the last observation on. Steps without an interval have a line of their own, from the last interval on.
    drawn = np.concatenate([forecast[0].get_ydata(), *[line.get_ydata()[1:] for line in forecast[1:]]])
    np.testing.assert_array_equal(drawn[0], PANEL.values[-1, 2, 0])
    np.testing.assert_array_equal(drawn[1:], fitted.predict(3).values[:, 2, 0])
    whole = fitted.plot(panel=PANEL[:40]).axes
    assert len(whole) == NODES
    assert len(whole[0].get_lines()[0].get_ydata()) == 40
    with pytest.raises(InputError, match=r"got 'cats'\. Did you mean 'cat'\?"):
        fitted.plot(nodes=["cats"])
    with pytest.raises(InputError, match="nodes of the forecast, such as 'ant', got 'eel'"):
        fitted.plot(nodes=["eel"])


# Saved, loaded, resumed.


def test_a_saved_forecaster_forecasts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    for horizon in (2, 5):
        assert_same(loaded.predict(horizon), fitted.predict(horizon))
    assert_same(loaded.predict(panel=PANEL[:40]), fitted.predict(panel=PANEL[:40]))
    assert str(loaded.explain()) == str(fitted.explain())
    for name in ("summary_", "history_", "notes_", "best_step_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    with pytest.raises(InputError, match="new folder for the run"):
        fitted.save(tmp_path / "model")


TIMES = {
    "hours": (pd.date_range("2021-03-27", periods=40, freq="h", tz="Europe/Berlin"), 3),
    "one day": (pd.date_range("2021-03-27", periods=40, freq="D", tz="Europe/Berlin"), 1),
    "business days": (pd.date_range("2021-03-26", periods=39, freq="B"), 3),
    "a business day": (pd.date_range("2021-03-26", periods=39, freq="B", tz="UTC"), 1),
    "months": (pd.date_range("2010-01-01", periods=40, freq="MS"), 2),
    "ends of months": (pd.date_range("2010-01-31", periods=40, freq="ME"), 1),
    "integers": (pd.RangeIndex(-20, 380, 10), 1),
    "numbers": (pd.Index(np.arange(40) / 8), 2),
    "small numbers": (pd.Index(np.arange(40) * 1e-6), 3),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_kind_go_on_and_survive_saving(kind, tmp_path):
    times, window = TIMES[kind]
    panel = make_panel(simulate(len(times)), times)
    model = Forecaster(**SMALL | dict(window=window, num_steps=1)).fit(panel, run=tmp_path)
    forecast = model.predict(7)
    assert forecast.times.equals(panel.future_times(7))
    assert_same(Forecaster.load(tmp_path).predict(7), forecast)


@pytest.mark.slow
def test_a_channel_that_ended_early_survives_saving(tmp_path):
    values = np.stack([simulate(), simulate(seed=1)], axis=-1)
    values[-20:, :, 1] = np.nan
    model = Forecaster(**SMALL).fit(make_panel(values, channels=["cases", "old"]), run=tmp_path)
    assert_same(Forecaster.load(tmp_path).predict(), model.predict())


@pytest.mark.slow
def test_a_graph_with_weights_and_direction_survives_saving(tmp_path):
    graph = Graph([[0, 1, 2, 0], [1, 2, 3, 3]], NODES, [0.5, 2.0, 1.0, 3.0], "in")
    model = Forecaster(**SMALL).fit(make_panel(graph=graph), run=tmp_path)
    loaded = Forecaster.load(tmp_path)
    assert loaded.graph_.equals(graph)
    assert_same(loaded.predict(), model.predict())


@pytest.mark.slow
@pytest.mark.parametrize("system", ["DE-GNN", "TDE-GNN_D", "TDE-GNN_A"])
def test_a_training_that_was_stopped_goes_on(tmp_path, system):
    settings = SMALL | dict(system=system)

    def stop(look):
        if look.step == 4:
            raise KeyboardInterrupt

    whole = Forecaster(**settings).fit(PANEL)
    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(PANEL, run=tmp_path, on_look=stop, source={"file": "cases.csv"})
    with pytest.raises(InputError, match="a finished training, got an unfinished one in .* Continue with resume=True"):
        Forecaster.load(tmp_path)
    resume = dict(run=tmp_path, resume=True, source={"file": "cases.csv"})
    resumed = Forecaster(**settings).fit(PANEL, **resume)
    finished = Forecaster(**settings).fit(PANEL, **resume)
    for model in (resumed, finished, Forecaster.load(tmp_path)):
        assert_same(model.predict(3), whole.predict(3))
        assert (model.history_, model.best_step_, model.summary_) == (whole.history_, whole.best_step_, whole.summary_)
        np.testing.assert_array_equal(model.coefficients_, whole.coefficients_)
    assert RunFolder.open(tmp_path).config["data"]["file"] == "cases.csv"
    with pytest.raises(InputError, match="got settings.num_steps = 7 instead of 6"):
        Forecaster(**settings | dict(num_steps=7)).fit(PANEL, **resume)
    with pytest.raises(InputError, match="got data.sha256"):
        Forecaster(**settings).fit(replace(PANEL, values=PANEL.values + 1), **resume)


@pytest.mark.slow
def test_a_training_goes_on_in_batches(tmp_path):
    settings = SMALL | dict(batch_size=5, num_members=2)

    def stop(look):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(PANEL, run=tmp_path, on_look=stop)
    resumed = Forecaster(**settings).fit(PANEL, run=tmp_path, resume=True)
    assert_same(resumed.predict(), Forecaster(**settings).fit(PANEL).predict())


# How it is computed.


@pytest.mark.slow
def test_numbers_of_64_bits_will_do(tmp_path, one_step):
    model = Forecaster(**SMALL, precision="64-true").fit(PANEL, run=tmp_path)
    assert next(model.networks_[0].parameters()).dtype is torch.float64
    np.testing.assert_allclose(model.predict(3).values, one_step.predict(3).values, rtol=1e-3)
    assert_same(Forecaster.load(tmp_path).predict(3), model.predict(3))
    model.update(PANEL, num_steps=1)


@pytest.mark.slow
def test_every_device_gives_the_same(device, one_step):
    model = Forecaster(**SMALL | dict(device=device.type)).fit(PANEL)
    np.testing.assert_allclose(model.predict(3).values, one_step.predict(3).values, rtol=1e-3)
    np.testing.assert_allclose(model.coefficients_, one_step.coefficients_, atol=1e-4)
    model.update(PANEL, num_steps=5)
    assert np.isfinite(model.predict().values).all()


def test_it_is_a_scikit_learn_estimator(fitted):
    copy = clone(fitted).set_params(order=1)
    assert (copy.order, fitted.order, copy.is_fitted, fitted.is_fitted) == (1, 2, False, True)
    assert "hidden_channels=4" in repr(fitted)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        copy.set_params(colour=1)


# Mistakes.


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("predict", ()),
        ("explain", ()),
        ("plot", ()),
        ("score", (PANEL,)),
        ("update", (PANEL,)),
        ("save", ("runs/nothing",)),
    ],
)
def test_before_fit_there_is_nothing(call, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = "a Forecaster that has been trained, got one that has not. Call fit, or load"
    with pytest.raises(sklearn.exceptions.NotFittedError, match=message) as error:
        getattr(Forecaster(), call)(*arguments)
    assert isinstance(error.value, NotFittedError)
    assert isinstance(error.value, InputError)  # what callers of earlier versions catch
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(horizon=0), "horizon to be at least 1, got 0"),
        (dict(window=0), "window to be at least 1, got 0"),
        (dict(order=1.5), "order to be a whole number, got 1.5"),
        (dict(num_members=0), "num_members to be at least 1, got 0"),
        (dict(season=2), "a season of more than two steps, got 2"),
        (dict(known=["rain"]), "known ahead among channels that are not forecast .there are none., got 'rain'"),
        (dict(system="GCN"), "system to be one of DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S, got 'GCN'"),
        (dict(skip="yes"), "skip to be one of none, last, season, linear, by-node, or a class of your own, got 'yes'"),
        (dict(dropout=1.0), "dropout to be at least 0 and below 1"),
        (dict(coverage=90), "a coverage between 0 and 1, got 90. 0.9 stands for 90 %"),
        (dict(device="tpu"), "Expected device to be"),
        (dict(precision="16"), "Expected precision to be one of 32-true, 64-true, bf16-mixed, got '16'"),
        (dict(hidden_channels=0), "hidden_channels to be at least 1, got 0"),
        (dict(num_layers=0), "num_layers to be at least 1, got 0"),
        (dict(step_size=float("nan")), "step_size to be finite, got nan"),
        (dict(states="liquid"), "states to be one of windows, latent, physical, got 'liquid'"),
        (dict(coefficients="keen"), "coefficients to be one of euler, .*, or a class of your own, got 'keen'"),
        (
            dict(coefficients="direct", system="TDE-GNN_D"),
            "Expected system or coefficients, got both. .* leave system= out",
        ),
        (dict(operator="gcm"), "operator to be one of diffusion, .*, or a class of your own, got 'gcm'"),
        (
            dict(intervals="guessed"),
            "intervals to be one of auto, conformal, normalized, counts, adaptive, or a class .*, got .guessed",
        ),
        (dict(batch_size=0), "batch_size to be at least 1, got 0"),
        (dict(validate_every=0), "validate_every to be at least 1, got 0"),
        (dict(patience=0), "patience to be at least 1, got 0"),
        (dict(lowest=float("nan")), "lowest to be finite, got nan"),
        (dict(season=float("inf")), "season to be finite, got inf"),
        (dict(seed=-1), "seed to be at least 0, got -1"),
        (dict(learning_rate=-1.0), "learning_rate to be at least 0, got -1.0"),
    ],
)
def test_wrong_settings_are_explained_and_leave_no_folder(as_a_user, tmp_path, settings, message):
    with pytest.raises(InputError, match=message) as error:
        Forecaster(**SMALL | dict(num_steps=1) | settings).fit(PANEL, run=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_device_that_is_not_there_leaves_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    message = "Expected a CUDA device, got a machine .or a torch build. without one. Use device='cpu'.$"
    with pytest.raises(InputError, match=message) as error:
        Forecaster(**SMALL | dict(device="cuda")).fit(PANEL, run=tmp_path / "run")
    assert error.value.as_options().endswith("Use --device cpu.")
    assert not list(tmp_path.iterdir())


STEP_MISTAKES = {
    "days for weeks": ("7D", "D", "steps of 7 days, as in the training, got 1 day. Bring the series to these steps"),
    "weeks for days": ("D", "7D", "steps of 1 day, as in the training, got 7 days"),
    "hours for days": ("D", "h", "steps of 1 day, as in the training, got 1 hour"),
    "days for business days": ("B", "D", "steps of 1 business day, as in the training, got 1 day"),
    "quarters for months": ("MS", "QS", "steps of 1 month, as in the training, got 3 months"),
    "numbers for dates": ("D", None, "steps of 1 day, as in the training, got 1"),
    "dates for numbers": (None, "D", "steps of 1, as in the training, got 1 day"),
}


def on_steps(freq, num_steps=40, start="2021-03-01"):
    times = range(num_steps) if freq is None else pd.date_range(start, periods=num_steps, freq=freq)
    return make_panel(100 + simulate(num_steps), times)


@pytest.mark.parametrize("kind", STEP_MISTAKES)
def test_steps_of_another_length_are_refused(kind):
    trained, given, message = STEP_MISTAKES[kind]
    model = Forecaster(**SMALL | dict(num_steps=1)).fit(on_steps(trained))
    for call in (lambda: model.predict(panel=on_steps(given)), lambda: model.update(on_steps(given))):
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=message):
        model.backtest(on_steps(given))


@pytest.mark.parametrize(
    ("freq", "start", "expected"),
    [
        ("B", "2022-01-05", "2022-01-10"),  # Wednesday to Friday, then Monday
        ("MS", "2021-05-01", "2021-08-01"),
        ("ME", "2021-04-30", "2021-07-31"),
        ("D", "2022-01-05", "2022-01-08"),
    ],
)
def test_a_few_steps_are_counted_as_in_the_training(freq, start, expected):
    """Three days in a row do not say whether weekends count: what was trained on does."""
    model = Forecaster(**SMALL | dict(num_steps=1)).fit(on_steps(freq))
    few = on_steps(freq, 3, start)
    bare = replace(few, times=pd.DatetimeIndex(few.times.to_numpy()))
    assert show_time(model.predict(panel=bare).times[0]) == expected


def test_one_step_is_enough_for_a_window_of_one():
    model = Forecaster(**SMALL | dict(num_steps=1, window=1)).fit(on_steps("7D"))
    assert show_time(model.predict(panel=on_steps("7D", 1)).times[0]) == "2021-03-08"


def test_a_wrong_panel_is_explained(as_a_user, one_step):
    frame, numbers = pd.DataFrame(PANEL.values[..., 0]), PANEL.values[..., 0]
    asked = "a Panel, or a pandas or polars frame, got {}. Make a panel with read_panel, or of an array with Panel.from"
    other = replace(PANEL, nodes=("ant", "bee", "cat", "eel"))
    swapped = replace(PANEL, nodes=("bee", "ant", "cat", "dog"))
    channels = replace(PANEL, channels=("cases",))
    for call, message in [
        (lambda: Forecaster().fit(numbers), asked.format("numpy ndarray")),
        (lambda: Forecaster().fit(frame[0]), asked.format("pandas Series")),
        (lambda: one_step.predict(panel=numbers.tolist()), asked.format("list")),
        (lambda: one_step.backtest("cases.csv"), asked.format("str")),
        (lambda: Forecaster().fit(frame), "equal steps in time .* .row 42 of the frame"),
        (lambda: one_step.predict(panel=other), "the 4 nodes of the training; 'dog' is missing"),
        (lambda: one_step.predict(panel=swapped), "the 4 nodes of the training; their order differs"),
        (lambda: one_step.predict(panel=PANEL[:2]), "at least 3 steps, the window of the training, got 2"),
        (lambda: one_step.predict(panel=channels), "the channels of the training, value, got cases"),
        (lambda: one_step.predict(0), "horizon to be at least 1, got 0"),
        (lambda: one_step.update(other), "the 4 nodes of the training; 'dog' is missing"),
        (lambda: one_step.update(PANEL, num_steps=0), "num_steps to be at least 1, got 0"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_another_folder_is_refused(tmp_path):
    with RunFolder.create(tmp_path / "nodes", {"kind": "NodeClassifier"}):
        pass
    with pytest.raises(InputError, match="run folder of a Forecaster, got .* of a NodeClassifier. Choose another"):
        Forecaster.load(tmp_path / "nodes")


def test_weights_of_other_settings_are_refused(one_step, tmp_path):
    one_step.save(tmp_path / "model")
    config = RunFolder.open(tmp_path / "model").config
    config["settings"]["readout"] = "last"
    with RunFolder.create(tmp_path / "other", config) as folder:
        one_step.fitted_.write(folder)
    message = (
        "weights of the readout last, as config.json of .* says, .*; got weights.safetensors with readout.hidden.*"
    )
    with pytest.raises(InputError, match=f"{message} Restore both files"):
        Forecaster.load(tmp_path / "other")


def test_networks_that_never_give_numbers_are_an_error():
    with pytest.raises(TrainingError, match="forecasts that are numbers, got none. Lower the learning rate"):
        Forecaster(**SMALL | dict(learning_rate=1e30, num_steps=2)).fit(PANEL)


@pytest.fixture(scope="module")
def wave():
    data = simulate_wave(num_steps=160, num_trajectories=1)
    return Panel.from_array(data.states[0], graph=data.graph), data.step_size


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_on_physical_states_a_wave_is_said_to_be_of_second_order(wave, order, tmp_path):
    panel, step_size = wave
    model = Forecaster.physical(order, step_size=step_size, num_steps=600, horizon=1, device="cpu").fit(panel)
    assert model.explain().root_multiplicity == 2
    assert "second-order" in model.explain().verdict
    model.save(tmp_path / "run")
    np.testing.assert_allclose(Forecaster.load(tmp_path / "run").predict(5).values, model.predict(5).values)


def test_on_physical_states_what_only_helps_is_said_not_to_be_seen():
    model = Forecaster.physical(num_steps=2, hidden_channels=4, device="cpu").fit(with_weather())
    assert "States are physical: weather, which is not forecast, is not seen." in model.notes_


@pytest.mark.slow
def test_two_frames_forecast_a_wave_ten_times_better_than_one(wave):
    """Fifty steps on its own forecasts: one frame does not say which way a wave is going."""
    panel, step_size = wave
    errors = {}
    for order in (1, 2):
        model = Forecaster.physical(order, step_size=step_size, num_steps=600, horizon=1, device="cpu").fit(panel[:110])
        errors[order] = float(np.mean((model.predict(50).values - panel.values[110:]) ** 2))
    assert errors[1] > 10 * errors[2]


def test_an_order_beyond_the_window_is_cut_and_said():
    model = Forecaster(**SMALL | dict(order=9, window=3, num_steps=2)).fit(PANEL)
    assert (model.order_, model.coefficients_.shape) == (3, (1, 3))
    assert any("An order of 9 was asked for, but a window has 3 steps" in note for note in model.notes_)


def test_a_training_that_went_wrong_is_not_blamed_on_the_data():
    model = Forecaster(**SMALL | dict(learning_rate=100.0, num_steps=5, skip="none")).fit(PANEL)
    assert any("The training went wrong" in note for note in model.notes_)
    assert not any("no better than" in note for note in model.notes_)


def test_steps_below_a_second_are_saved_and_loaded(tmp_path):
    times = pd.date_range("2024-01-01", periods=STEPS, freq="100ms")
    model = Forecaster(**SMALL | dict(num_steps=2)).fit(make_panel(times=times), run=tmp_path / "run")
    assert_same(Forecaster.load(tmp_path / "run").predict(3), model.predict(3))


def test_a_lowest_value_above_what_was_observed_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing below lowest=60.0, got 44.37.*. Lower it or leave it out."):
        Forecaster(**SMALL, lowest=60.0).fit(PANEL, run=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_settings_that_are_changed_after_the_training_do_not_contradict_it(one_step, tmp_path):
    one_step.save(tmp_path / "before")
    model = Forecaster.load(tmp_path / "before").set_params(horizon=5, coverage=0.5, lowest=1000.0)
    forecast = model.predict()
    assert (len(forecast.times), forecast.coverage) == (1, 0.9)
    assert forecast.values.min() == 1000
    model.save(tmp_path / "after")
    assert Forecaster.load(tmp_path / "after").predict().values.min() == 1000


def test_a_fold_in_which_nothing_was_observed_has_no_errors():
    values = PANEL.values.copy()
    values[-2:] = np.nan
    backtest = Forecaster(**SMALL | dict(num_steps=2, horizon=2)).backtest(make_panel(values), num_folds=2)
    table = backtest.by_origin()
    assert table.loc[table["fold"] == 1, ["mse", "mae", "coverage"]].isna().all(axis=None)
    assert np.isfinite(table.loc[table["fold"] == 0, "mse"]).all()
    assert all(np.isfinite(row["mse"]) for row in backtest.means().values())


def test_numbers_of_numpy_are_settings_too(as_a_user, tmp_path):
    settings = SMALL | dict(num_steps=np.int64(2), step_size=np.float32(0.5))
    model = Forecaster(**settings).fit(PANEL, run=tmp_path / "run")
    assert_same(Forecaster.load(tmp_path / "run").predict(), model.predict())


def test_weights_that_are_lost_in_the_last_training_are_noticed(monkeypatch):
    original = forecaster_training.start_training
    calls = []

    def spoiled(*args):
        training = original(*args)
        calls.append(training)
        if len(calls) == 2:
            training.members.weights.fill_(torch.nan)
        return training

    monkeypatch.setattr(forecaster_training, "start_training", spoiled)
    with pytest.raises(TrainingError, match="weights that are numbers after learning from all steps"):
        Forecaster(**SMALL).fit(PANEL)


def test_an_update_does_not_go_back_in_time(one_step):
    with pytest.raises(InputError, match="to 2021-04-29, got an end at 2021-04-19. Give old and new steps together."):
        one_step.update(PANEL[:-10])


def test_a_backtest_is_printed_as_a_table(fitted):
    lines = str(fitted.backtest(PANEL, num_folds=1)).splitlines()
    assert lines[0] == "Errors from 1 origins; intervals aim at 90%"
    assert [line.split()[0] for line in lines[2:]].count("forecaster") == 1


def test_one_node_is_drawn_by_its_name(one_step):
    assert len(one_step.plot(nodes=NAMES[1]).axes) == 1


def test_a_future_that_is_no_panel_is_explained(as_a_user, one_step):
    with pytest.raises(InputError, match="Expected a Panel"):
        one_step.predict(future=[1.0])


def test_a_long_horizon_on_physical_states_has_a_note():
    wave = Panel.from_array(simulate_wave(num_trajectories=1, num_steps=60).states[0, :, :, 0].numpy())
    settings = dict(num_steps=2, validate_every=2)
    notes = [Forecaster.physical(2, horizon=horizon, **settings).fit(wave).notes_ for horizon in (1, 6)]
    assert [any("to read it, take a horizon of 1" in note for note in some) for some in notes] == [False, True]


def test_planned_steps_at_the_end_are_to_be_removed(tmp_path):
    values = PANEL.values.copy()
    values[-12:] = np.nan
    with pytest.raises(InputError, match="got 12 of 60 steps without any. Remove them"):
        Forecaster(**SMALL).fit(make_panel(values), run=tmp_path / "run")
    assert not list(tmp_path.iterdir())
    values[-12:-2] = PANEL.values[-12:-2]
    assert Forecaster(**SMALL | dict(num_steps=2)).fit(make_panel(values)).is_fitted
