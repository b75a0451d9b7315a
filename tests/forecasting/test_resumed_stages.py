"""A fit can be resumed from its first second: what was decided is kept, and what was cut off is done again."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tdegnn import Forecaster, InputError
from tdegnn.forecasting import forecaster, usual_networks
from tdegnn.forecasting.time_budget import Lateness, TimeBudget, TrialTime
from tdegnn.forecasting.training import ForecasterTraining
from tdegnn.runs.run_folder import CONFIG, METRICS, SUMMARY, WEIGHTS, RunFolder
from tests.forecasting.test_forecaster import PANEL

SETTINGS = dict(horizon=2, order="auto", num_members=1, num_steps=2, validate_every=1, device="cpu")
# Vectors of nodes are left out of the better network, whichever it is.
UNNAMED = "trying the better one-unnamed"
# Where the fit is interrupted, in turn, and what the run folder keeps by then, in addition to what it kept before.
STAGES = {
    "window search": set(),
    "order search": {"frames"},
    "trying walks": {"chosen_order"},
    "linear forecast": {"trial_scores"},
    "trying frames": set(),
    "trying walks for longer": set(),
    "trying alone for longer": set(),
    UNNAMED: set(),
    "trying walks-levels": set(),
    "trying alone-levels": set(),
    "training": {"chosen_network"},
    "errors and intervals": set(),
    "again, with the held-out steps": set(),
}


LONGER = ("trying walks for longer", "trying alone for longer")


class Interrupter:
    """Remembers the stages, and interrupts one of them, in its first step."""

    def __init__(self, stage=None):
        self.stages, self._stage = {}, stage

    def __call__(self, progress):
        self.stages[progress.stage] = progress.done
        if progress.stage == self._stage and progress.done == min(1, progress.total - 1):
            raise KeyboardInterrupt


def interrupt(stage, path, settings=SETTINGS):
    watch = Interrupter(stage)
    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(PANEL, run=path, resume=True, on_progress=watch)
    return watch.stages, json.loads((path / CONFIG).read_text())


@pytest.fixture
def _longer_trials(monkeypatch):
    """Short trials of one step, after which edges are always decided on by longer ones."""
    monkeypatch.setattr(usual_networks, "NEAR", inf)
    monkeypatch.setattr(usual_networks, "TRIAL_STEPS", 1)
    monkeypatch.setattr(usual_networks, "LONGER_STEPS", 2)
    monkeypatch.setattr(forecaster, "TRIAL_STEPS", 1)
    score_of = ForecasterTraining.try_out

    def no_frames(training, stage, **options):
        return score_of(training, stage, **options) - 100 * stage.endswith("frames")

    monkeypatch.setattr(ForecasterTraining, "try_out", no_frames)


@pytest.mark.slow
@pytest.mark.usefixtures("_longer_trials")
def test_a_fit_that_is_interrupted_in_each_stage_ends_as_an_uninterrupted_one(tmp_path):
    watch = Interrupter()
    whole = Forecaster(**SETTINGS).fit(PANEL, run=tmp_path / "whole", on_progress=watch)
    (unnamed,) = (name for name in watch.stages if name.endswith("-unnamed"))
    stages = {unnamed if name == UNNAMED else name: new for name, new in STAGES.items()}
    # All stages are interrupted but one: the trial of the network without edges begins as that of the one with them.
    assert {*watch.stages} - {*stages} == {"trying alone"}
    decided = {"kind", "settings", "data", "format", "versions", "sha256"}
    for stage, new in stages.items():
        seen, config = interrupt(stage, tmp_path / "parts")
        decided |= new
        assert set(config) == decided, stage
        # Nothing that was decided is decided again.
        assert ("window search" in seen) == (stage in ("window search", "order search"))
        # Nothing that was tried is tried again.
        assert ("trying walks" in seen) == (stage in ("trying walks", "linear forecast"))
        assert ("trying walks for longer" in seen) == (stage in LONGER)
    resumed = Forecaster(**SETTINGS).fit(PANEL, run=tmp_path / "parts", resume=True)
    for name in (CONFIG, METRICS, SUMMARY, WEIGHTS):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    np.testing.assert_array_equal(resumed.predict(3).values, whole.predict(3).values)
    np.testing.assert_array_equal(resumed.predict().low, whole.predict().low)
    finished = Interrupter()
    Forecaster(**SETTINGS).fit(PANEL, run=tmp_path / "parts", resume=True, on_progress=finished)
    assert not finished.stages


@pytest.mark.slow
def test_a_fit_that_was_interrupted_early_is_that_of_its_settings(tmp_path):
    path = tmp_path / "run"
    interrupt("window search", path)
    with pytest.raises(InputError, match="got an unfinished one in .* Continue with resume=True"):
        Forecaster.load(path)
    with pytest.raises(InputError, match="with an unfinished training. Add resume=True or choose another folder"):
        Forecaster(**SETTINGS).fit(PANEL, run=path)
    with pytest.raises(InputError, match="got settings.horizon = 3 instead of 2. Use the same settings or"):
        Forecaster(**SETTINGS | dict(horizon=3)).fit(PANEL, run=path, resume=True)
    with pytest.raises(InputError, match="got data.sha256"):
        Forecaster(**SETTINGS).fit(replace(PANEL, values=PANEL.values + 1), run=path, resume=True)
    with pytest.raises(InputError, match="Expected the settings that .* was started with, got kind"):
        type("Other", (Forecaster,), {})(**SETTINGS).fit(PANEL, run=path, resume=True)
    assert "frames" not in RunFolder.open(path).config


@pytest.mark.slow
def test_planned_steps_are_kept_before_the_first_one(tmp_path, monkeypatch):
    settings = dict(window=3, order=2, num_members=1, hidden_channels=4, num_layers=1, device="cpu", time_budget=1.0)
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 6)
    _, config = interrupt("training", tmp_path / "run", settings)
    assert config["planned_steps"] == 6
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 1)  # another machine
    assert Forecaster(**settings).fit(PANEL, run=tmp_path / "run", resume=True).history_[-1]["step"] == 6


@pytest.mark.slow
def test_trials_that_were_planned_are_kept(tmp_path, monkeypatch):
    settings = dict(window=3, order=2, num_members=1, device="cpu", time_budget=60.0)
    plans = iter([3, 4])
    monkeypatch.setattr(TrialTime, "steps", lambda *_: next(plans, 0))
    _, config = interrupt("trying alone", tmp_path / "run", settings)
    assert config["trial_steps"] == {"walks": 3, "alone": 4}
    assert set(config["trial_scores"]) == {"walks"}
    stages = {}

    def see(progress):
        stages[progress.stage] = progress.total

    # On another machine there is no time for further trials, but those that were planned are made as they were planned.
    monkeypatch.setattr(TrialTime, "steps", lambda *_: 0)
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 2)
    model = Forecaster(**settings).fit(PANEL, run=tmp_path / "run", resume=True, on_progress=see)
    assert "trying walks" not in stages
    assert stages["trying alone"] == 4
    assert model.network_choice_.scores["walks"] == config["trial_scores"]["walks"]
    assert "The time budget left no time to try frames" in model.network_choice_.reason
    kept = RunFolder.open(tmp_path / "run").config["trial_steps"]
    assert {name: steps for name, steps in kept.items() if steps} == {"walks": 3, "alone": 4}
    assert kept["frames"] == 0
    assert Forecaster.load(tmp_path / "run").network_choice_ == model.network_choice_


@pytest.mark.slow
def test_a_second_training_that_was_cut_is_cut_again_after_a_kill(tmp_path, monkeypatch):
    settings = dict(window=3, order=2, network="alone", num_members=1, device="cpu", time_budget=60.0)
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 6)
    monkeypatch.setattr(Lateness, "steps_again", lambda *_: 1)
    interrupt("again, with the held-out steps", tmp_path / "run", settings | dict(validate_every=6))
    monkeypatch.setattr(Lateness, "steps_again", lambda _, best_step, __: best_step)
    again = Forecaster(**settings | dict(validate_every=6)).fit(PANEL, run=tmp_path / "run", resume=True)
    note = "The second training, on all steps, made 1 of 6 steps, to keep the time budget."
    assert note in again.notes_


def test_a_mistake_that_is_noticed_late_leaves_no_folder_and_no_parents(tmp_path):
    with pytest.raises(InputError, match="known ahead"):
        Forecaster(**SETTINGS, known=["rain"]).fit(PANEL, run=tmp_path / "runs" / "fit")
    assert not list(tmp_path.iterdir())
    interrupt("window search", tmp_path / "run", SETTINGS | dict(known=["rain"]))
    with pytest.raises(InputError, match="known ahead"):
        Forecaster(**SETTINGS, known=["rain"]).fit(PANEL, run=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / CONFIG).exists()
