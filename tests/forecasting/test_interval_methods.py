"""Intervals that depend on the hour, the node, the level and newer steps, on series whose noise is known."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, Graph, InputError, Panel
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting.intervals import (
    INTERVALS,
    ConformalIntervals,
    Context,
    apply_intervals,
    check_held_out,
    fit_intervals,
    measure_coverage,
    name_of,
    read_intervals,
    report_coverage,
    stored_as,
)
from tdegnn.forecasting.intervals.coverage import interval_score
from tdegnn.forecasting.intervals.scale import fit_log_linear
from tdegnn.parts import Part
from tdegnn.training.devices import single_thread

HORIZON, WINDOW, NODES = 2, 4, 12
SCALE = np.ones((NODES, 1))


def simulate(seed, num_steps, noise, rate=None):
    """Forecasts that know everything but the noise, whose size is a function of steps and nodes.

    Args:
        rate: Rates of Poisson counts, which replace the noise.
    """
    generator = np.random.default_rng(seed)
    steps, nodes = np.arange(num_steps)[:, None], np.arange(NODES)[None]
    signal = 10 + 3 * np.sin(2 * np.pi * steps / 24 + nodes)
    if rate is not None:
        signal = rate(steps, nodes)
        return signal, generator.poisson(signal).astype(float)
    return signal, signal + noise(steps, nodes) * generator.normal(size=signal.shape)


def windows(signal, values, first, last):
    """The context and the observed values of the windows from one step to another; the history is what is before."""
    times = pd.date_range("2024-01-01", periods=len(values), freq="h")
    rows = np.arange(first, last - HORIZON + 1)[:, None] + np.arange(HORIZON)
    before = rows[:, :1] - np.arange(WINDOW, 0, -1)
    history = Panel.from_array(values[:first], times=times[:first])
    seasons = (Season(24.0, 4),)
    context = Context(
        signal[rows][..., None], values[before][..., None], times.to_numpy()[rows], seasons, 1 / 24, history
    )
    return context, values[rows][..., None]


def learn(method, context, observed, coverage=0.9):
    return fit_intervals(method, observed - context.forecasts, coverage, SCALE, context)


def by_hour(steps, nodes):
    return (1 + 0.2 * (nodes % 3)) * np.exp(1.2 * np.sin(2 * np.pi * steps / 24))


@pytest.mark.slow
def test_normalized_intervals_hold_at_every_hour_where_fixed_ones_do_not():
    signal, values = simulate(0, 24 * 60, by_hour)
    held_out, test = windows(signal, values, 24 * 30, 24 * 37), windows(signal, values, 24 * 37, 24 * 60)
    reports = {}
    for method in ("conformal", "normalized"):
        low, high = apply_intervals(learn(method, *held_out), test[0].forecasts, test[0])
        nodes = [str(node) for node in range(NODES)]
        reports[method] = report_coverage(low, high, test[1], 0.9, nodes=nodes, hours=test[0].hours)
    fixed, normalized = reports["conformal"], reports["normalized"]
    assert 0.88 <= min(normalized.by_step) <= max(normalized.by_step) <= 0.92
    assert min(normalized.by_hour.values()) >= 0.82
    assert min(fixed.by_hour.values()) < 0.75
    assert normalized.pinball < 0.9 * fixed.pinball
    assert normalized.width < fixed.width
    chosen = learn("auto", *held_out)
    assert name_of("auto", chosen) == "auto: normalized"
    checked = check_held_out("auto", held_out[1] - held_out[0].forecasts, 0.9, SCALE, held_out[0], nodes)
    assert checked.report.reached == pytest.approx(0.9, abs=0.04)


def test_widths_are_fixed_if_few_windows_are_held_out():
    signal, values = simulate(0, 24 * 10, by_hour)
    chosen = learn("auto", *windows(signal, values, 24 * 9, 24 * 10))
    assert isinstance(chosen.chosen, ConformalIntervals)
    assert name_of("auto", chosen) == "auto: conformal"
    assert name_of("conformal", chosen.chosen) == "conformal"


def test_the_scale_of_known_noise_is_found():
    generator = np.random.default_rng(0)
    rows = np.column_stack([np.ones(20_000), generator.normal(size=20_000)])
    sizes = np.abs(generator.laplace(size=20_000)) * np.exp(0.5 + 0.3 * rows[:, 1])
    constant, slope = fit_log_linear(rows, sizes)
    assert (constant, slope) == pytest.approx((0.5, 0.3), abs=0.02)
    assert 0.1 < fit_log_linear(rows, sizes, penalty=1.0)[1] < 0.2
    assert fit_log_linear(rows, np.zeros(20_000))[0] < -20


def busy_hours(steps, nodes):
    weekend = np.where(steps // 24 % 7 >= 5, 0.5, 1.0)
    return 0.25 * (1 + nodes % 4) * weekend * np.exp(1.5 * np.sin(2 * np.pi * steps / 24))


def test_intervals_of_counts_hold_among_zeros_and_among_positive_counts():
    signal, values = simulate(0, 24 * 70, None, busy_hours)
    assert (values == 0).mean() > 0.5
    held_out, (context, observed) = windows(signal, values, 1000, 1200), windows(signal, values, 1200, 24 * 70)
    intervals = learn("auto", *held_out)
    assert name_of("auto", intervals) == "auto: counts"
    low, high = apply_intervals(intervals, context.forecasts, context)
    assert ((low <= context.forecasts) & (context.forecasts <= high)).all()
    assert low.min() == 0
    is_positive = observed > 0
    assert 0.88 <= measure_coverage(low, high, observed) <= 0.92
    assert 0.86 <= measure_coverage(low[is_positive], high[is_positive], observed[is_positive]) <= 0.94
    fixed = apply_intervals(learn("conformal", *held_out), context.forecasts, context)
    assert measure_coverage(*(end[is_positive] for end in fixed), observed[is_positive]) < 0.86


@pytest.mark.slow
def test_adaptive_intervals_follow_a_drift_and_know_nothing_of_the_future():
    def drifting(steps, nodes):
        return (1 + 0 * nodes) * np.where(steps < 600, 1.0, 2.5)

    signal, values = simulate(0, 1_200, drifting)
    held_out, (context, observed) = windows(signal, values, 400, 600), windows(signal, values, 600, 1_200)
    intervals = learn("adaptive", *held_out)
    reached = {}
    for end in (0, 300):
        known = observed[:end].copy()
        if end:
            known[-1, 1:] = np.nan  # not observed yet
        now = intervals.follow(context.forecasts[:end], known, context[:end])
        low, high = now.apply(context.forecasts[300:], context[300:])
        reached[end] = measure_coverage(low, high, observed[300:])
    assert reached[0] < 0.7
    assert reached[300] == pytest.approx(0.9, abs=0.03)
    fewer = intervals.follow(context.forecasts[:50], np.full_like(observed[:50], np.nan), context[:50])
    np.testing.assert_array_equal(fewer.logarithms, 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*INTERVALS.names, Part("adaptive", base="normalized", step_size=0.2)])
def test_stored_arrays_give_the_same_intervals(method):
    signal, values = simulate(0, 700, None, busy_hours)
    context, observed = windows(signal, values, 600, 700)
    observed[3, 0, 2] = context.past[5, 1, 3] = np.nan
    made = learn(method, context, observed)
    arrays = {name: array.copy() for name, array in made.to_arrays().items()}
    again = read_intervals(method, arrays, 0.9)
    assert again.coverage == made.coverage == 0.9
    ends, same = (apply_intervals(each, context.forecasts, context) for each in (made, again))
    np.testing.assert_array_equal(ends, same)
    assert np.isfinite(ends).all()
    for name, wanted in stored_as(method, arrays, (HORIZON, NODES, 1)).items():
        assert (arrays[name].dtype.kind, arrays[name].shape) == (wanted.kind, wanted.shape)
    alone, one = apply_intervals(made, context.forecasts[7], context[7:8]), (end[7] for end in ends)
    np.testing.assert_allclose(alone, list(one))


def code_of_the_guide():
    """The names that the Python blocks of the guide define, after they ran."""
    page = (Path(__file__).parents[2] / "docs" / "intervals.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    return names


def hourly_panel(num_steps=260):
    _, values = simulate(1, num_steps, by_hour)
    graph = Graph([[0, 1, 2], [1, 2, 3]], NODES)
    return Panel.from_array(values, times=pd.date_range("2024-01-01", periods=num_steps, freq="h"), graph=graph)


SMALL = dict(
    window=3, order=1, hidden_channels=2, num_layers=1, num_members=1, num_steps=2, validate_every=2, horizon=2,
    skip="linear", device="cpu",
)  # fmt: skip


@pytest.mark.slow
def test_a_method_of_ones_own_sees_the_context(tmp_path):
    by_hour = code_of_the_guide()["ByHour"]
    model = Forecaster(**SMALL, intervals=by_hour).fit(hourly_panel(), run=tmp_path / "run")
    forecast = model.predict()
    hours = forecast.times.hour
    np.testing.assert_allclose(forecast.high[:, 0, 0] - forecast.values[:, 0, 0], model.intervals_.widths[hours])
    loaded = Forecaster.load(tmp_path / "run", intervals=by_hour)
    np.testing.assert_array_equal(loaded.predict().low, forecast.low)


@pytest.mark.slow
def test_adaptive_intervals_of_a_forecaster_follow_newer_series(tmp_path):
    panel = hourly_panel()
    model = Forecaster(**SMALL, intervals="adaptive").fit(panel, run=tmp_path / "run")
    facts = model.summary_["intervals"]
    assert facts["method"].startswith("adaptive: ")
    assert (len(facts["coverage"]["by_step"]), len(facts["coverage"]["by_node"])) == (2, NODES)
    assert set(facts["coverage"]["by_hour"]) <= {str(hour) for hour in range(24)}
    rough = hourly_panel(290)
    rough.values[260:] += 30 * (-1.0) ** np.arange(30)[:, None, None]
    loaded = Forecaster.load(tmp_path / "run")
    wider, before = loaded.predict(panel=rough), loaded.predict(panel=rough[:260])
    assert (wider.high - wider.low).mean() > 1.5 * (before.high - before.low).mean()
    np.testing.assert_array_equal(before.low, model.predict().low)
    loaded.update(rough, num_steps=1)
    assert (loaded.intervals_.logarithms > 0).all()
    assert loaded.summary_["intervals"] == facts


@pytest.mark.slow
def test_a_folder_with_other_arrays_of_intervals_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    Forecaster(**SMALL, intervals="normalized").fit(hourly_panel()).save(tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    stored = load_file(path)
    stored["kept.intervals.quantiles"] = stored["kept.intervals.quantiles"][:, :1].contiguous()
    save_file(stored, path)
    with pytest.raises(InputError, match="weights.safetensors"):
        Forecaster.load(tmp_path / "run")


def test_coverage_by_step_hour_and_node():
    observed = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, np.nan]]).reshape(3, 1, 2, 1)
    ones = np.ones(observed.shape)
    hours = np.array([[7], [8], [8]])
    report = report_coverage(-ones, ones, observed, 0.9, nodes=["a", "b"], hours=hours)
    assert (report.reached, report.by_step) == (4 / 5, (4 / 5,))
    assert report.by_hour == {7: 1.0, 8: 2 / 3}
    assert report.by_node == {"a": 2 / 3, "b": 1.0}
    assert report.width == 2
    # Of five observations one is 4 above the interval: 20 * 4 and its width.
    assert report.pinball == pytest.approx((2 + 80 / 5) * 0.1 / 4)
    assert report.to_record()["by_hour"] == {"7": 1.0, "8": 0.6667}
    assert "by hour: 100 67 %" in str(report)
    assert np.isnan(interval_score(-ones, ones, observed, 0.9)[2, 0, 1, 0])


@pytest.mark.usefixtures("as_a_user")
def test_wrong_input_is_refused():
    signal, values = simulate(0, 300, by_hour)
    context, observed = windows(signal, values, 200, 300)
    intervals = learn("normalized", context, observed)
    with pytest.raises(InputError, match="Expected a context for intervals that depend on it, got none"):
        intervals.apply(context.forecasts)
    with pytest.raises(InputError, match="Expected base to be one of auto, conformal, normalized, counts, got 'no'"):
        learn(Part("adaptive", base="no"), context, observed)
    with pytest.raises(InputError, match="Expected node_step_size to be at least 0, got -1"):
        learn(Part("adaptive", node_step_size=-1.0), context, observed)
    with pytest.raises(InputError, match="Expected counts, which are not negative, got -"):
        learn("counts", context, observed - 20)
    with pytest.raises(InputError, match="Expected at least 9 zeros and as many positive counts"):
        learn("counts", context, observed * 0 + 3)
    with pytest.raises(InputError, match="Expected forecasts of shape"):
        intervals.apply(context.forecasts[:, :1], context)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["normalized", "counts"])
def test_every_method_knows_other_coverages(method):
    rate = busy_hours if method == "counts" else None
    signal, values = simulate(0, 24 * 70, by_hour, rate)
    held_out, (context, observed) = windows(signal, values, 1000, 1200), windows(signal, values, 1200, 24 * 70)
    intervals = learn(method, *held_out)
    for coverage in (0.5, 0.8):
        low, high = apply_intervals(intervals.at(coverage), context.forecasts, context)
        again = apply_intervals(learn(method, *held_out, coverage), context.forecasts, context)
        np.testing.assert_allclose((low, high), again)
        is_counted = observed > 0 if method == "counts" else np.isfinite(observed)
        assert ((low <= observed) & (observed <= high))[is_counted].mean() == pytest.approx(coverage, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("persistence", "most"), [(1.0, 0.95), (0.7, 1.0)])
def test_intervals_of_a_forecaster_hold_beyond_its_horizon(persistence, most):
    """It learns two steps and forecasts eight. The noise of its nodes is unlike; the size of that of steps is not."""
    noise = np.random.default_rng(0).standard_normal((600, 20)) * np.linspace(0.5, 2, 20)
    values = [noise[0]]
    for step in noise[1:]:
        values.append(persistence * values[-1] + step)
    panel = Panel.from_array(np.stack(values))
    settings = dict(window=3, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=20, device="cpu")
    held = []
    with single_thread():
        model = Forecaster(horizon=2, skip="last", intervals="normalized", **settings).fit(panel[:400])
        for origin in range(400, 592, 6):
            forecast, observed = model.predict(8, panel=panel[:origin]), panel.values[origin : origin + 8]
            held.append((forecast.low <= observed) & (observed <= forecast.high))
    coverage = np.mean(held, axis=(0, 2, 3))
    assert 0.85 <= coverage[:2].min() <= coverage[:2].max() <= 0.95
    # A series that returns to its mean becomes no less certain after some steps, but intervals widen all the same.
    assert 0.87 <= coverage[2:].min() <= coverage[2:].max() <= most
