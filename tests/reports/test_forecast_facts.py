"""Errors of held-out forecasts, against the same numbers computed by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tdegnn import Panel
from tdegnn.forecasting.contenders.classical import RidgeContender, observed_windows
from tdegnn.forecasting.contenders.contender import ContenderTask
from tdegnn.forecasting.kept_forecasts import KeptForecasts
from tdegnn.reports.forecast_facts import ForecastErrors, measure_ridge

NAN = np.nan


def make_kept(times=None, num_steps=8):
    """Two nodes; forecasts of two steps, made at every step, that are 1 too low for the second node."""
    observed = np.stack([np.arange(num_steps, dtype=float), np.arange(num_steps) ** 2.0], axis=1)[..., None]
    observed[4, 0] = NAN
    first_steps = np.arange(num_steps - 1)
    forecasts = np.nan_to_num(observed[first_steps[:, None] + np.arange(2)])
    forecasts[:, :, 1] -= 1.0
    times = pd.RangeIndex(num_steps) if times is None else times
    return KeptForecasts(times, observed, first_steps, forecasts, forecasts * NAN, forecasts * NAN)


def test_errors_by_node_skip_what_was_not_observed():
    errors = ForecastErrors(make_kept(), None)
    np.testing.assert_allclose(errors.by_node, [0.0, 1.0])
    assert errors.worst_first.tolist() == [1, 0]


def test_errors_relative_to_the_last_value():
    errors = ForecastErrors(make_kept(), None)
    # Squares change by 2 t + 1 in a step and by 4 t + 4 in two. The first window has no step before it.
    changes = [change for t in range(6) for change in (2 * t + 1, 4 * t + 4)]
    assert errors.relative_by_node[1] == pytest.approx(1 / np.mean(changes))
    assert errors.relative_by_node[0] == 0.0


def test_errors_by_step_of_all_methods_on_the_same_windows():
    kept = make_kept()
    by_step = ForecastErrors(kept, np.full(kept.forecasts.shape, 3.0)).by_step()
    assert list(by_step) == ["this run", "ridge", "last value"]
    np.testing.assert_allclose(by_step["ridge"], [3.0, 3.0])
    assert by_step["last value"][1] > by_step["last value"][0]
    assert list(ForecastErrors(kept, None).by_step()) == ["this run", "last value"]


@pytest.mark.parametrize(
    ("freq", "unit", "names"),
    [("h", "hour", {"01h", "07h"}), ("D", "weekday", {"Mon", "Sun"}), ("MS", "month", {"Jan", "Aug"})],
)
def test_residuals_by_the_part_of_the_cycle(freq, unit, names):
    errors = ForecastErrors(make_kept(pd.date_range("2024-01-01", periods=8, freq=freq)), None)
    cells = errors.by_part()
    assert errors.cycle.unit == unit
    assert names <= {cell["part"] for cell in cells}
    # The second node is forecast 1 too low, the first one exactly.
    assert {cell["mean"] for cell in cells} <= {0.5, 1.0}
    assert sum(cell["count"] for cell in cells) == 2 * 2 * 7 - 2


def test_numbers_have_no_hours():
    errors = ForecastErrors(make_kept(), None)
    assert errors.cycle is None
    assert errors.by_part() == []


@pytest.mark.slow
def test_ridge_is_measured_on_the_held_out_windows_of_the_run(fitted, panel):
    found = measure_ridge(fitted, panel)
    maker = fitted.ensemble.maker
    task = ContenderTask(panel, maker.horizon, maker.window, maker.seasons)
    held_out = RidgeContender().fit(task).held_out
    residuals = observed_windows(panel, task.held_out_firsts, maker.horizon) - held_out
    judged = residuals[-fitted.summary["held_out"]["steps"] :]  # those on which the forecaster was measured
    assert found.mae == pytest.approx(np.nanmean(abs(judged)))
    assert found.mse == pytest.approx(np.nanmean(judged**2))
    np.testing.assert_allclose(found.residuals, residuals)
    # The residuals belong to the windows of the run: forecast + residual is what was observed.
    kept = fitted.held_out
    assert found.residuals.shape == kept.forecasts.shape
    assert task.held_out_firsts.start + len(kept.times) == panel.num_steps


@pytest.mark.slow
def test_other_series_are_not_compared_with(fitted, panel):
    assert measure_ridge(fitted, replace(panel, values=panel.values + 1.0)) is None
    assert measure_ridge(replace(fitted, held_out=None), panel) is None


def test_of_large_panels_a_page_holds_fewer_numbers():
    from tdegnn.reports.node_series import MOST_NUMBERS, series_of_nodes
    from tdegnn.reports.sections import to_script

    random, num_nodes, horizon = np.random.default_rng(0), 207, 12
    observed = random.normal(size=(300, num_nodes, 1)) * 50
    first_steps = np.arange(300 - horizon + 1)
    forecasts = observed[first_steps[:, None] + np.arange(horizon)]
    times = pd.date_range("2024-01-01", periods=300, freq="5min")
    kept = KeptForecasts(times, observed, first_steps, forecasts, forecasts - 1, forecasts + 1)
    names = tuple(f"sensor {number}" for number in range(num_nodes))
    data = series_of_nodes(kept, None, names, ("speed",), np.arange(num_nodes), num_runs=1)
    assert data["hidden"] == 0
    assert data["windows"][-1] + horizon == len(data["times"])
    # With 0.8 MB of scripts and 0.3 MB of other pictures, a page stays far below 5 MB.
    assert len(to_script(data)) < 2.5e6
    crowded = series_of_nodes(kept, None, names, ("speed",), np.arange(num_nodes)[::-1], num_runs=40)
    num_shown = len(crowded["nodes"])
    assert 0 < num_shown < num_nodes
    assert crowded["hidden"] == num_nodes - num_shown
    assert crowded["nodes"][-1] == names[-1]
    assert num_shown * len(crowded["windows"]) * horizon * 4 <= MOST_NUMBERS / 40


def test_a_panel_of_one_step_ahead_has_a_window_per_step():
    panel = Panel.from_array(np.random.default_rng(0).normal(size=(30, 2)))
    forecasts = panel.values[10:, None]
    kept = KeptForecasts.of(panel, range(10, 30), forecasts, (forecasts, forecasts))
    from tdegnn.reports.node_series import choose_windows

    assert len(choose_windows(kept)) == 20
