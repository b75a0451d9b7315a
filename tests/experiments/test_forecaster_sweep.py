from dataclasses import replace

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, Panel, TrainingError
from tdegnn.experiments import forecaster_sweep
from tdegnn.experiments.forecaster_space import CHOICES, RANGES, ForecasterSweepSettings, describe_series
from tdegnn.experiments.forecaster_sweep import SeriesTest, run_forecaster_sweep
from tdegnn.experiments.studies import open_study
from tdegnn.forecasting.backtests.origins import choose_origins
from tdegnn.forecasting.training import TriedOut
from tdegnn.graph import Graph
from tests.faults.sweep_kills import facts

PANEL = Panel.from_array(
    np.random.default_rng(0).normal(size=(90, 4)).cumsum(axis=0), graph=Graph([[0, 1, 2], [1, 2, 3]], 4)
)
SETTINGS = ForecasterSweepSettings({"horizon": 2}, num_steps=6)
TEST_PART = choose_origins(90, 2, 4, window=4).firsts


def rigged(forecaster, panel, features):
    """Trials like little dropout. So many windows there are."""
    assert panel.num_steps == TEST_PART.start  # nothing of the test part
    is_default = forecaster.operator is None
    return TriedOut(0.3 if is_default else forecaster.dropout, 8 if forecaster.window is None else forecaster.window)


@pytest.fixture
def no_test(monkeypatch):
    """Leave the test part out."""
    monkeypatch.setattr(forecaster_sweep, "_test", lambda *_: SeriesTest(1, 1, {}, {}))


def sweep(storage, trials=8, settings=SETTINGS, panel=PANEL, **options):
    study = open_study(storage, "mine", describe_series(panel, None), settings)
    options = {"try_out": rigged, "batch_size": 4, "num_finalists": 2, "device": "cpu"} | options
    return study, run_forecaster_sweep(panel, study, settings, num_trials=trials, **options)


@pytest.mark.usefixtures("no_test")
def test_the_lowest_loss_before_the_test_part_chooses(tmp_path):
    study, result = sweep(tmp_path / "study", trials=16)
    tried = [trial.params["dropout"] for trial in study.trials]
    best, second, third = result.finalists
    assert (result.num_finished, result.num_running) == (16, 0)
    assert best.settings["dropout"] == best.loss == pytest.approx(min(tried), rel=0.01)
    assert best.loss < second.loss < third.loss == 0.3
    assert (third.trial, third.settings) == (None, {"horizon": 2, "window": 8})
    assert set(best.settings) == {*CHOICES, *RANGES, "horizon", "window"}


@pytest.mark.usefixtures("no_test")
def test_default_settings_win_if_no_trial_is_better(tmp_path):
    def only_default(forecaster, panel, features):
        if forecaster.operator is not None:
            raise TrainingError("Expected forecasts that are numbers, got none.")
        return TriedOut(0.3, 8)

    study, result = sweep(tmp_path / "study", try_out=only_default)
    assert result.finalists[0].trial is None
    assert [finalist.loss for finalist in result.finalists] == [0.3, None, None]
    assert len(study.trials) == 8  # trainings that diverge do not end the search


@pytest.mark.usefixtures("no_test")
@pytest.mark.parametrize("call", [5, 19])  # in a batch, and among the finalists
def test_an_interrupted_sweep_draws_what_an_uninterrupted_one_draws(tmp_path, call):
    calls = iter(range(100))

    def stopped(*arguments):
        if next(calls) == call:
            raise KeyboardInterrupt
        return rigged(*arguments)

    undisturbed, wanted = sweep(tmp_path / "other", trials=12)
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path / "study", trials=12, try_out=stopped)
    study, result = sweep(tmp_path / "study", trials=12)
    assert (facts(study), result) == (facts(undisturbed), wanted)

    def never(*_):
        raise AssertionError("everything was trained already")

    assert sweep(tmp_path / "study", trials=12, try_out=never)[1] == result


@pytest.mark.usefixtures("no_test")
def test_a_window_is_chosen_once_for_each_kind_of_states(tmp_path):
    given = []

    def recording(forecaster, panel, features):
        given.append((forecaster.states, forecaster.window))
        return rigged(forecaster, panel, features)

    sweep(tmp_path / "study", try_out=recording)
    assert [window for _, window in given].count(None) == len({states for states, _ in given}) == 2


def test_what_the_user_fixes_is_not_searched():
    settings = ForecasterSweepSettings({"system": "TDE-GNN_S", "num_layers": 2, "dropout": 0.2, "operator": "gcn"})
    assert settings.choices(PANEL).keys() == CHOICES.keys() - {"coefficients", "num_layers", "operator"}
    assert settings.ranges.keys() == {"learning_rate"}
    assert settings.settings({"learning_rate": 0.0123456}) == {**settings.fixed, "learning_rate": 0.0123}


def test_series_without_edges_or_neighbors_search_less():
    assert SETTINGS.choices(PANEL)["operator"] == ("walks", "alone", "learned-adjacency")
    assert SETTINGS.choices(replace(PANEL, graph=None))["operator"] == ("alone", "learned-adjacency")
    many = Panel.from_array(np.zeros((3, 501)), graph=Graph([[0], [1]], 501))
    assert SETTINGS.choices(many)["operator"] == ("walks", "alone")
    alone = SETTINGS.choices(Panel.from_array(np.zeros((3, 1))))
    assert (alone["operator"], alone["identity_channels"]) == (("alone",), (0,))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"network": "walks"}, "Expected no --network in a search, which draws the settings of networks itself"),
        ({"time_budget": "2min"}, "Expected no --time-budget in a search, whose time follows from the number"),
        ({"states": "physical"}, "Expected windows or latent states to search on, got physical ones"),
    ],
)
def test_settings_that_cannot_be_fixed_are_refused(fixed, message):
    with pytest.raises(InputError, match=message):
        ForecasterSweepSettings(fixed)


@pytest.mark.usefixtures("no_test")
@pytest.mark.parametrize(
    ("panel", "settings", "message"),
    [
        (PANEL[:89], SETTINGS, "dataset = 90 steps of 4 nodes, 3 edges.*got dataset = 89 steps.*another name="),
        (PANEL.with_graph(Graph([[0], [3]], 4)), SETTINGS, "3 edges .*got dataset = 90 steps of 4 nodes, 1 edges"),
        (replace(PANEL, values=PANEL.values + 1), SETTINGS, "checksum .* got .* checksum"),
        (PANEL, ForecasterSweepSettings({"horizon": 3}, num_steps=6), "horizon = 2, got horizon = 3"),
    ],
)
def test_a_study_is_not_continued_on_other_series_or_settings(tmp_path, panel, settings, message):
    sweep(tmp_path / "study", trials=2, batch_size=2)
    with pytest.raises(InputError, match=message):
        sweep(tmp_path / "study", trials=2, panel=panel, settings=settings)


@pytest.mark.slow
def test_the_test_part_measures_the_best_the_default_and_naive_forecasts(tmp_path):
    settings = ForecasterSweepSettings({"horizon": 2, "num_steps": 3, "num_members": 1}, num_steps=3)
    _, result = sweep(tmp_path / "study", trials=2, settings=settings, batch_size=2, num_finalists=1)
    best, default = result.finalists
    assert set(result.test.means) == {"forecaster", "default settings", "mean", "last"}
    assert set(result.test.differences) == {"default settings", "mean", "last"}
    assert result.test.num_origins == len(TEST_PART)
    measured = Forecaster(**best.settings, device="cpu").backtest(PANEL, num_folds=len(TEST_PART), stride=1)
    assert result.test.means["forecaster"]["mae"] == measured.means()["forecaster"]["mae"]
    assert (default.trial, default.settings["window"]) == (None, 8)


@pytest.mark.slow
def test_try_out_is_the_first_training_of_fit():
    forecaster = Forecaster(horizon=2, num_steps=20, validate_every=10, identity_channels=4, device="cpu")
    tried, fitted = forecaster.try_out(PANEL), forecaster.fit(PANEL)
    assert tried.window == fitted.maker_.window
    scores = np.array([line["score"] for line in fitted.history_])
    assert -tried.loss == pytest.approx(scores.max(axis=0).mean(), rel=1e-6)
