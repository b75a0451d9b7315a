"""Every contender by its name: forecasts of the right shape, from nothing after the origin; and packages it needs."""

import sys
from types import ModuleType
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from tdegnn import Graph, InputError, Part
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import seasons_of
from tdegnn.forecasting.baselines.boosting import BoostedTrees
from tdegnn.forecasting.baselines.extras import import_extra
from tdegnn.forecasting.baselines.ridge import OwnLags
from tdegnn.forecasting.baselines.statistical import StatisticalForecast
from tdegnn.forecasting.contenders.contender import ContenderTask
from tdegnn.forecasting.contenders.registry import CELLS, CONTENDERS, GROUPS, expand_name, make_contenders
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.devices import single_thread

STEPS, TRAINED, HORIZON = 90, 70, 2
QUICK = {name: Part(name, num_steps=2, hidden_channels=4) for name in GROUPS["cells"]}
QUICK["lightgbm"] = Part("lightgbm", num_rounds=3)
NEEDED = {"lightgbm": "lightgbm"} | dict.fromkeys(("autoarima", "autoets", "autotheta"), "statsforecast")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def make_panel():
    """Two targets and one channel that is known ahead, with gaps and a node that never changes."""
    draw = np.random.default_rng(0)
    values = 20 + np.cumsum(draw.normal(size=(STEPS, 4, 3)), axis=0)
    values[:, 3, 0] = 7.0
    values[10:13, 1, 0] = np.nan
    times = pd.date_range("2024-01-01", periods=STEPS, freq="D")
    graph = Graph([[0, 1, 2], [1, 2, 3]], 4)
    return Panel.from_array(values, times=times, channels=["a", "b", "weather"], num_targets=2, graph=graph)


PANEL = make_panel()


def make_task(panel=PANEL):
    return ContenderTask(panel[:TRAINED], HORIZON, 3, seasons_of(panel.times[:TRAINED]), ("weather",), device="cpu")


def changed_after(panel, step):
    """The panel with other targets from a step on, and the same channel that is known ahead."""
    values = panel.values.copy()
    values[step:, :, :2] += 100
    return Panel(values, panel.times, panel.nodes, panel.channels, 2, panel.graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTENDERS)
def test_a_contender_forecasts_from_each_origin_without_the_future(name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    (contender,) = make_contenders([QUICK.get(name, name)]).values()
    fitted = contender.fit(make_task())
    firsts = range(TRAINED + 1, STEPS - HORIZON + 1, 4)
    forecasts = fitted.predict(PANEL, firsts)
    assert forecasts.shape == (len(firsts), HORIZON, 4, 2)
    assert np.isfinite(forecasts).all()
    num_held_out = len(make_task().held_out_firsts)
    assert fitted.held_out.shape == (num_held_out, HORIZON, 4, 2)
    # Values from the second origin on change the forecasts of the later ones only.
    other = fitted.predict(changed_after(PANEL, firsts[1]), firsts)
    np.testing.assert_allclose(other[:2], forecasts[:2], rtol=1e-5)
    if name not in ("mean", "calendar"):
        assert np.abs(other[2:] - forecasts[2:]).max() > 1e-3
    # Nothing after the training has been learned from.
    again = next(iter(make_contenders([QUICK.get(name, name)]).values())).fit(make_task(changed_after(PANEL, TRAINED)))
    np.testing.assert_allclose(again.predict(PANEL, firsts), forecasts, rtol=1e-5)


def test_the_cells_are_those_of_the_tables():
    assert set(CELLS) == set(SERIES_NETWORKS)
    assert GROUPS["cells"] == tuple(name.lower() for name in CELLS)


def test_names_are_found_however_they_are_written():
    assert expand_name("GC-LSTM") == expand_name("gclstm") == expand_name(" gc_lstm ") == ("gc-lstm",)
    assert expand_name("naive") == ("mean", "last", "season", "calendar")
    made = make_contenders(["naive", "last", Part("ridge", per="node"), Part("ridge", per="all")])
    assert list(made) == ["mean", "last", "season", "calendar", "ridge", "ridge 2"]
    with pytest.raises(InputError, match="Expected settings of RidgeContender among per, got 'lags'"):
        make_contenders([Part("ridge", lags=3)])


def test_a_missing_package_names_its_extra(monkeypatch):
    for name, package, extra in (("lightgbm", "lightgbm", "boost"), ("autoets", "statsforecast", "stats")):
        for module in (package, f"{package}.models"):
            monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(InputError, match=f"Expected the package {package}, got none.*'tdegnn.{extra}.'"):
            make_contenders([name])
    with pytest.raises(InputError, match=r"pip install 'tdegnn\[stats\]'"):
        import_extra("nosuchpackage.models", "stats")


def test_wrong_settings_are_refused(as_a_user):
    for make, message in (
        (lambda: StatisticalForecast("AutoCES"), "Expected a model among AutoARIMA, AutoETS, AutoTheta, got 'AutoCES'"),
        (lambda: BoostedTrees((OwnLags(1),), learning_rate=2.0), "Expected a learning_rate between 0 and 1, got 2.0"),
    ):
        with pytest.raises(InputError, match=message):
            make()


class FakeModel:
    """Says what statsforecast would be asked."""

    asked: ClassVar = []

    def __init__(self, season_length):
        FakeModel.asked.append(season_length)

    def fit(self, values):
        self.mean = values.mean()
        return self

    def forward(self, values, h):
        return {"mean": np.array([values[-1], np.nan])[:h]}


def test_statistical_models_go_on_from_each_origin(monkeypatch):
    models = ModuleType("statsforecast.models")
    models.AutoETS = FakeModel
    monkeypatch.setitem(sys.modules, "statsforecast", ModuleType("statsforecast"))
    monkeypatch.setitem(sys.modules, "statsforecast.models", models)
    statistical, last = (next(iter(make_contenders([name]).values())).fit(make_task()) for name in ("autoets", "last"))
    firsts = range(TRAINED, TRAINED + 5)
    # What is not a number is replaced by the last value.
    np.testing.assert_allclose(statistical.predict(PANEL, firsts), last.predict(PANEL, firsts))
    # Seven of eight series have a model, in each of two fits; the constant one has none.
    assert FakeModel.asked == [7] * 14
