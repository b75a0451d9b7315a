"""What a run folder keeps of the held-out steps: forecasts by networks that had not seen them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, Graph, InputError, Panel
from tdegnn.forecasting.kept_forecasts import MOST_VALUES, KeptForecasts
from tdegnn.runs.run_folder import RunFolder

SMALL = dict(
    window=3, order=2, hidden_channels=4, num_layers=1, num_members=1, num_steps=6, validate_every=2, horizon=2,
    network=None, device="cpu",
)  # fmt: skip
TIMES = {
    "numbers": None,
    "decimals": np.arange(80) * 0.5,
    "days": pd.date_range("2024-01-01", periods=80, freq="D"),
    "hours, clocks change": pd.date_range("2024-03-29", periods=80, freq="h", tz="Europe/Paris"),
}


def make_panel(times=None, num_steps=80, num_nodes=3):
    values = np.random.default_rng(0).normal(size=(num_steps, num_nodes)).cumsum(axis=0)
    values[-5, 0] = np.nan
    return Panel.from_array(values, times=times, graph=Graph([[0, 1], [1, 2]], num_nodes))


def windows_of(panel, first_steps, horizon=2):
    steps = np.asarray(first_steps)[:, None] + np.arange(horizon)
    forecasts = np.nan_to_num(panel.values[steps]) + 1.0
    return KeptForecasts.of(panel, first_steps, forecasts, (forecasts - 1, forecasts + 1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", TIMES)
def test_a_folder_keeps_held_out_forecasts(kind, tmp_path):
    panel = make_panel(TIMES[kind])
    model = Forecaster(**SMALL).fit(panel, run=tmp_path / "run")
    kept, again = model.fitted_.held_out, Forecaster.load(tmp_path / "run").fitted_.held_out
    assert kept.times.equals(panel.times[-len(kept.times) :])
    assert again.times.equals(kept.times)
    for name in ("observed", "first_steps", "forecasts", "low", "high"):
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))
    # They are the forecasts whose errors the summary tells.
    errors = model.summary_["held_out"]["forecaster"]
    assert np.nanmean(kept.residuals**2) == pytest.approx(errors["mse"])
    assert np.nanmean(abs(kept.residuals)) == pytest.approx(errors["mae"])


def test_residuals_are_observed_minus_forecast():
    panel = make_panel()
    kept = windows_of(panel, range(60, 79))
    assert np.isnan(kept.residuals).sum() == 2  # one value is missing, in two windows
    np.testing.assert_allclose(kept.residuals[~np.isnan(kept.residuals)], -1.0)
    np.testing.assert_array_equal(kept.observed[kept.steps[-1]], panel.values[-2:])


def test_of_long_series_the_last_steps_and_some_windows_are_kept(monkeypatch):
    panel = make_panel(num_steps=400)
    assert len(windows_of(panel, range(200, 399)).first_steps) == 199 <= MOST_VALUES
    monkeypatch.setattr("tdegnn.forecasting.kept_forecasts.MOST_VALUES", 150)
    kept = windows_of(panel, range(200, 399))
    assert len(kept.times) == 50
    assert kept.forecasts.size <= 150
    np.testing.assert_array_equal(kept.observed[kept.steps[-1]], panel.values[-2:])
    np.testing.assert_allclose(kept.residuals[~np.isnan(kept.residuals)], -1.0)


@pytest.mark.slow
def test_forecasts_that_do_not_fit_the_settings_are_refused(tmp_path):
    model = Forecaster(**SMALL).fit(make_panel())
    model.fitted_.held_out.first_steps[0] = 10**6
    model.save(tmp_path / "run")
    with pytest.raises(InputError, match="Expected 'held_out.first_steps' in weights.safetensors .* that cannot be"):
        Forecaster.load(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").is_finished


@pytest.mark.slow
def test_times_that_are_none_of_the_series_are_refused(tmp_path):
    model = Forecaster(**SMALL).fit(make_panel(TIMES["hours, clocks change"]))
    held_out = model.fitted_.held_out
    numbers = pd.Index(np.full(len(held_out.times), 2**62))
    model.fitted_ = replace(model.fitted_, held_out=replace(held_out, times=numbers))
    model.save(tmp_path / "run")
    with pytest.raises(
        InputError, match="Expected times of the series as 'held_out.times' in weights.safetensors .* got others"
    ):
        Forecaster.load(tmp_path / "run")
