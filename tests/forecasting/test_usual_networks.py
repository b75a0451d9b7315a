import math
import re
import time

import numpy as np
import pytest

from tdegnn import Forecaster, Graph, InputError, Panel
from tdegnn.forecasting import usual_networks
from tdegnn.forecasting.settings import ForecasterSettings, are_counts
from tdegnn.forecasting.time_budget import Lateness, TimeBudget, TrialTime, parse_seconds
from tdegnn.forecasting.training import ForecasterTraining, StepTime
from tdegnn.forecasting.usual_networks import (
    LONGER_STEPS,
    NETWORK_SETTINGS,
    TRIAL_STEPS,
    USUAL_NETWORKS,
    Trials,
    choose_tried,
    count_trials,
    notes_of_choice,
    try_networks,
)
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.network_choice import ChosenNetwork
from tests.forecasting.test_forecaster import PANEL, make_panel

LEVELS = ("walks-levels", "alone-levels")
QUICK = dict(window=3, order=2, horizon=1, num_members=1, num_steps=4, validate_every=2, device="cpu")


@pytest.mark.parametrize(
    ("scores", "num_nodes", "expected"),
    [
        ({"walks": 2.0, "alone": 1.0}, 4, ["walks", "alone", "walks-unnamed", *LEVELS]),
        ({"walks": 1.0, "alone": 2.0}, 4, ["walks", "alone", "alone-unnamed", *LEVELS]),
        ({"walks": math.nan, "alone": 1}, 4, ["walks", "alone", "alone-unnamed", *LEVELS]),
        ({"alone": 1.0}, 4, ["alone", "alone-unnamed", "alone-levels"]),
        ({}, 1, ["alone-unnamed"]),
    ],
)
def test_vectors_of_nodes_are_left_out_of_the_better_one_and_the_last_value_of_both(scores, num_nodes, expected):
    trials = try_networks(
        lambda name, _: scores.get(name, 0.0), has_edges="walks" in scores, num_nodes=num_nodes, num_steps=1000
    )
    assert len(trials.scores) <= count_trials(has_edges="walks" in scores, num_nodes=num_nodes)
    assert list(trials.scores) == [*expected, "frames"]
    assert trials.candidates == trials.scores


@pytest.mark.parametrize(
    ("longer", "chosen", "left"), [((-0.9, -1.0), "walks", "alone"), ((-1.0, -0.9), "alone", "walks")]
)
def test_a_longer_trial_decides_on_edges_that_make_little_difference(longer, chosen, left):
    asked = []

    def score_of(name, num_steps):
        asked.append((name, num_steps))
        if num_steps == LONGER_STEPS:
            return longer[name == "alone"]
        return {"walks": -1.01, "alone": -1.0, "frames": -1.5}.get(name, -1.2)

    trials = try_networks(score_of, has_edges=True, num_nodes=4, num_steps=1000)
    short, long = ([(name, steps) for name in ("walks", "alone")] for steps in (TRIAL_STEPS, LONGER_STEPS))
    smaller = [(name, TRIAL_STEPS) for name in (f"{chosen}-unnamed", *LEVELS)]
    assert asked == [*short, ("frames", TRIAL_STEPS), *long, *smaller]
    assert len(asked) == count_trials(has_edges=True, num_nodes=4)
    choice = choose_tried(USUAL_NETWORKS, trials)
    assert choice.name == chosen
    assert left not in trials.candidates
    assert choice.scores == trials.scores
    losses = "walks: 0.9, alone: 1" if chosen == "walks" else "walks: 1, alone: 0.9"
    assert choice.reason.endswith(f"frames: 1.5). A longer one decided on edges ({losses}).")


def test_edges_need_no_longer_trial_if_frames_are_ahead():
    trials = try_networks(
        lambda name, _: -0.9 if name == "frames" else -1.0, has_edges=True, num_nodes=4, num_steps=1000
    )
    assert not trials.longer


def test_no_trial_is_longer_than_the_training():
    asked = []
    trials = try_networks(
        lambda name, num_steps: asked.append(num_steps) or -1.0, has_edges=True, num_nodes=4, num_steps=20
    )
    assert asked == [20] * 6
    assert not trials.longer


@pytest.mark.slow
def test_a_longer_trial_of_a_short_series_makes_the_steps_of_the_training(monkeypatch):
    monkeypatch.setattr(
        ForecasterTraining, "try_out", lambda training, stage, **_: asked.update({stage: training}) or -1.0
    )
    asked, planned = {}, {}

    def see(progress):
        planned[progress.stage] = progress.total
        if progress.stage == "training":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Forecaster(horizon=2, device="cpu").fit(PANEL, on_progress=see)
    steps = {stage: training.num_steps for stage, training in asked.items()}
    assert steps["trying walks"] == steps["trying alone"] == TRIAL_STEPS
    assert steps["trying walks for longer"] == steps["trying alone for longer"] == planned["training"] == 300


@pytest.mark.slow
def test_the_score_of_a_trial_is_that_of_its_best_step():
    """With few steps a trial is the training itself."""
    model = Forecaster(**QUICK | dict(num_steps=60, validate_every=5)).fit(PANEL)
    scores = [look["score"] for look in model.history_]
    assert model.network_choice_.scores[model.network_choice_.name] == max(scores) > scores[-1]


def test_a_network_whose_longer_trial_fails_is_left_out():
    trials = Trials({"walks": -1.0, "alone": -1.0, "alone-unnamed": -1.1}, {"walks": math.nan, "alone": -0.9})
    assert choose_tried(USUAL_NETWORKS, trials).name == "alone"


def test_the_reason_and_the_notes_say_what_is_left_out():
    scores = {"walks": -0.3, "alone": -0.25, "alone-unnamed": -0.2, "frames": -0.4}
    chosen = choose_tried(USUAL_NETWORKS, Trials(scores))
    assert chosen.name == "alone-unnamed"
    assert chosen.reason == (
        "The network 'alone-unnamed' was chosen by its loss on the held-out steps, after a short training "
        "(walks: 0.3, alone: 0.25, alone-unnamed: 0.2, frames: 0.4)."
    )
    notes = notes_of_choice(chosen, has_edges=True)
    assert notes[1:] == [
        "Edges do not help on the held-out steps: they are left out.",
        "Learned vectors of nodes do not help on the held-out steps: they are left out.",
    ]
    assert len(notes_of_choice(chosen, has_edges=False)) == 2
    levels = choose_tried(USUAL_NETWORKS, Trials({"walks": -0.3, "walks-levels": -0.2}))
    assert notes_of_choice(levels, has_edges=True)[1:] == [
        "Changes from the last value are harder to forecast on the held-out steps: values are forecast."
    ]
    assert notes_of_choice(ChosenNetwork("walks", {}), has_edges=True) == []
    assert (
        "A linear forecast and small layers"
        in notes_of_choice(choose_tried(USUAL_NETWORKS, Trials({"walks": -2.0, "frames": -1.0})), has_edges=True)[1]
    )


def test_networks_set_settings_that_say_something_about_the_network():
    settings = {name for network in USUAL_NETWORKS.values() for name in network}
    known = {*NETWORK_SETTINGS, "num_members", "num_steps", "validate_every", "patience"}
    assert settings <= known <= {*ForecasterSettings.__dataclass_fields__}


@pytest.mark.slow
def test_a_network_is_chosen_kept_and_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(usual_networks, "TRIAL_STEPS", 2)
    stages = []
    model = Forecaster(**QUICK).fit(PANEL, run=tmp_path / "run", on_progress=lambda each: stages.append(each.stage))
    chosen = model.network_choice_
    assert chosen.name in USUAL_NETWORKS
    assert {"walks", "alone", "frames"} < {*chosen.scores}
    assert max(chosen.scores, key=chosen.scores.get) == chosen.name
    assert chosen.reason in model.notes_
    assert list(dict.fromkeys(stages))[-3:] == ["training", "errors and intervals", "again, with the held-out steps"]
    assert "trying walks" in stages
    loaded = Forecaster.load(tmp_path / "run")
    assert loaded.network_choice_ == chosen
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(5).values, model.predict(5).values)
    again = Forecaster(**QUICK).fit(PANEL, run=tmp_path / "run", resume=True)  # nothing is tried again
    np.testing.assert_array_equal(again.predict().values, model.predict().values)
    updated = loaded.update(PANEL, num_steps=1)
    assert updated.network_choice_ == chosen


@pytest.mark.slow
@pytest.mark.parametrize("name", USUAL_NETWORKS)
def test_a_network_can_be_named(name):
    model = Forecaster(**QUICK, network=name).fit(PANEL)
    assert (model.network_choice_.name, model.network_choice_.reason) == (name, "")
    assert type(model.networks_[0]).__name__ == ("TemporalNetwork" if name == "frames" else "WindowNetwork")


# Eight nodes in a ring, each of which points to the next one.
RING = Graph([range(8), [*range(1, 8), 0]], 8, direction="in")


def choose_on(follow, before):
    """The network that is chosen on 300 steps: `follow(state, noise)` makes the next from a state of each node."""
    draw = np.random.default_rng(0)
    values = [before(draw)]
    for _ in range(299):
        values.append(follow(values[-1], draw.standard_normal(8)))
    model = Forecaster(window=2, horizon=1, num_members=1, num_steps=40, device="cpu")
    return model.fit(Panel.from_array(np.stack(values), graph=RING))


def losses_of(model, beginning):
    return min(-score for name, score in model.network_choice_.scores.items() if name.startswith(beginning))


@pytest.mark.slow
def test_edges_that_matter_are_kept():
    """Each node becomes a function of the node before it. Nothing else says what comes next."""
    model = choose_on(
        lambda state, noise: np.clip(1 - 2 * np.abs(np.roll(state, 1)) + 0.02 * noise, -1, 1),
        lambda draw: draw.uniform(-1, 1, 8),
    )
    assert model.network_choice_.name.startswith("walks")
    assert losses_of(model, "walks") < 0.5 * losses_of(model, "alone")
    assert not any("Edges do not help" in note for note in model.notes_)


@pytest.mark.slow
def test_edges_that_do_not_matter_are_left_out():
    """Each node becomes the same function of itself."""
    model = choose_on(
        lambda state, noise: np.sin(3 * state) + 0.1 * noise,
        lambda draw: draw.standard_normal(8),
    )
    assert model.network_choice_.name.startswith("alone")
    assert any("Edges do not help" in note for note in model.notes_)


@pytest.mark.slow
def test_values_that_return_to_a_level_are_forecast_and_not_their_changes():
    """Now and then a value is far from its level, which says nothing about the next one."""
    spikes = np.random.default_rng(1)
    model = choose_on(
        lambda _, noise: 0.1 * noise + spikes.exponential(4, 8) * (spikes.random(8) < 0.05), lambda _: np.zeros(8)
    )
    assert model.network_choice_.name in (*LEVELS, "frames")
    levels = min(losses_of(model, name) for name in LEVELS)
    assert levels < min(-model.network_choice_.scores[name] for name in ("walks", "alone"))


@pytest.mark.slow
def test_settings_of_a_network_are_used_and_nothing_is_tried():
    model = Forecaster(**QUICK, hidden_channels=5, skip="season", season=3, loss="absolute").fit(PANEL)
    assert model.network_choice_ is None
    assert model.networks_[0].hidden_channels == 5
    assert not any("was chosen by its loss" in note for note in model.notes_)


@pytest.mark.slow
def test_the_paper_is_a_preset():
    model = Forecaster.paper(**QUICK).fit(PANEL)
    assert type(model.networks_[0]).__name__ == "TemporalNetwork"
    assert model.networks_[0].skip is None
    assert model.get_params()["loss"] == "squared"


def test_counts_are_whole_numbers_of_at_least_zero():
    counts = np.random.default_rng(0).poisson(2.0, size=(30, 4)).astype(float)
    with_gap, negative, parts = counts.copy(), counts.copy(), counts.copy()
    with_gap[3, 1], negative[0, 0], parts[0, 0] = np.nan, -1.0, 0.5
    found = [are_counts(make_panel(each[..., None])) for each in (counts, with_gap, negative, parts)]
    assert found == [True, True, False, False]
    kinds = [type(Forecaster().make_loss(make_panel(each[..., None]))).__name__ for each in (counts, parts)]
    assert kinds == ["SquaredLoss", "HuberLoss"]


# Time budgets.


@pytest.mark.parametrize(
    ("budget", "seconds"), [(90, 90), (1.5, 1.5), ("2min", 120), ("90s", 90), ("1h", 3600), ("60", 60)]
)
def test_budgets_are_seconds_or_texts(budget, seconds):
    assert parse_seconds(budget) == seconds


@pytest.mark.parametrize("budget", ["soon", -1, 0, "-2min", float("nan"), float("inf")])
def test_wrong_budgets_are_refused(budget):
    with pytest.raises(InputError, match="time budget, got .* Take seconds, or a text such as '2min'"):
        Forecaster(time_budget=budget).check_settings()


def test_steps_fit_into_what_is_left_of_a_budget():
    budget = TimeBudget(100.0, time.monotonic() - 20.0)
    assert budget.steps_of_training(0.1, 10**6) == pytest.approx(720, abs=5)
    assert budget.steps_of_training(0.1, 50) == 50
    assert budget.steps_of_training(1e3, 50) == 10  # with fewer there is nothing to learn
    assert budget.steps_of_training(0.1, 10**6, reserved=30.0) == pytest.approx(420, abs=5)
    assert budget.seconds_needed(0.1, 30.0) is None
    assert budget.seconds_needed(7.0, 30.0) == pytest.approx(120, abs=1)  # 20 s ago, 30 s besides, 10 steps


def test_trials_share_their_time():
    times = TrialTime(TimeBudget(100.0, time.monotonic()), num_left=4)  # 40 s for all of them
    assert times.begin(0.0)
    assert times.steps(0.1, 1.0, most=10**6) == pytest.approx(90, abs=2)
    assert times.steps(0.1, 1.0, most=50) == 50
    assert times.steps(1.0, 1.0, most=50) == 10  # more than its share, but it fits
    assert times.steps(1.5, 1.0, most=50) == 0  # it does not fit together with another one
    times.end(was_made=True)
    assert times.steps(1.5, 1.0, most=50) == 10
    assert times.steps(1.0, 1.0, most=400, fewest=60) == 0  # a longer trial that would be no longer
    assert not times.begin(30.0)  # after 10 steps of a second each
    times.end(was_made=True)
    times.end(was_made=True)
    assert times.steps(0.1, 1.0, most=10**6) == pytest.approx(390, abs=3)


def test_a_late_training_ends_while_the_second_one_still_fits():
    moments = iter(np.arange(0.0, 100.0, 1.0))

    class Clock(TimeBudget):
        used = property(lambda _: next(moments))

    late = Lateness(Clock(50.0, 0.0), reserved=5.0, repeated=1, ends=50.0)
    ends_at = next(step for step in range(1, 100) if late(step))
    assert ends_at == 24  # one second a step: twice 23 and the reserve are 50
    assert late.seconds_per_step == 1.0
    assert late.steps_again(10, reserved=5.0) == 10
    for _ in range(5):
        next(moments)
    assert late.steps_again(24, reserved=5.0) == 15  # 30 s were used
    assert Lateness(Clock(50.0, 0.0), 5.0, 1, 50.0).steps_again(24, 5.0) == 24  # resumed: the clock began anew


def test_trials_without_time_are_named():
    asked = []

    def score_of(name, _):
        asked.append(name)
        return {"walks": -1.0, "alone": -2.0}.get(name)

    trials = try_networks(score_of, has_edges=True, num_nodes=4, num_steps=1000)
    assert asked == ["walks", "alone", "frames", "walks-unnamed", *LEVELS]
    assert choose_tried(USUAL_NETWORKS, trials).name == "walks"
    assert choose_tried(USUAL_NETWORKS, trials).reason.endswith(
        "alone: 2). The time budget left no time to try frames, walks-unnamed, walks-levels, alone-levels."
    )
    for num_nodes, has_edges, usual in ((4, True, "walks"), (4, False, "alone"), (1, False, "alone-unnamed")):
        nothing = try_networks(lambda *_: None, has_edges=has_edges, num_nodes=num_nodes, num_steps=1000)
        choice = choose_tried(USUAL_NETWORKS, nothing)
        assert (choice.name, choice.scores) == (usual, {})
        assert choice.reason == (
            f"The network {usual!r} was taken without a trial: the time budget left no time to try others."
        )


def test_a_longer_trial_without_the_other_one_decides_nothing():
    scores = {("walks", 100): -1.0, ("alone", 100): -1.0, ("walks", 400): -5.0}
    trials = try_networks(
        lambda name, num_steps: scores.get((name, num_steps)), has_edges=True, num_nodes=4, num_steps=1000
    )
    assert not trials.longer
    assert trials.untried == ("frames", "alone for longer", "walks-unnamed", *LEVELS)


@pytest.mark.slow
def test_a_budget_that_is_too_small_says_what_it_would_take():
    model = Forecaster(horizon=2, time_budget=0.001, device="cpu").fit(PANEL)
    assert model.network_choice_.name == "walks"
    said = " ".join(model.notes_)
    assert "left no time to try others." in said
    assert re.search(r"The time budget is too small: a fit with the fewest steps, 10, takes about \d+ s here.", said)
    assert model.history_[-1]["step"] == 10


@pytest.mark.slow
def test_a_training_that_is_slower_than_planned_ends_early(tmp_path, monkeypatch):
    """The plan is made as if all were quick; then each step takes a tenth of a second."""
    monkeypatch.setattr(ForecasterTraining, "time_step", lambda *_: StepTime(1e-4, 1e-4, 2e-4))
    settings = dict(horizon=2, network="alone", num_members=1, time_budget=3.0, device="cpu")
    began = time.monotonic()
    slow = lambda progress: time.sleep(0.1 * (progress.stage == "training"))  # noqa: E731
    model = Forecaster(**settings).fit(PANEL, run=tmp_path / "run", on_progress=slow)
    assert time.monotonic() - began < 3.6
    planned = RunFolder.open(tmp_path / "run").config["planned_steps"]
    made = model.history_[-1]["step"]
    assert 10 <= made < planned
    note = f"The training was slower than planned: it ended after {made} of {planned} steps, to keep the time budget."
    assert note in model.notes_


@pytest.mark.slow
def test_a_budget_is_planned_once_and_kept_for_a_resumed_training(tmp_path, monkeypatch):
    settings = QUICK | dict(num_steps=None, hidden_channels=4, num_layers=1, time_budget=60.0)
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 40)
    whole = Forecaster(**settings).fit(PANEL, run=tmp_path / "whole")
    assert whole.history_[-1]["step"] == whole.planned_steps_ == 40

    def stop(progress):
        if (progress.stage, progress.done) == ("training", 12):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(PANEL, run=tmp_path / "parts", on_progress=stop)
    assert not RunFolder.open(tmp_path / "parts").is_finished
    monkeypatch.setattr(TimeBudget, "steps_of_training", lambda *_: 1)  # another machine
    parts = Forecaster(**settings).fit(PANEL, run=tmp_path / "parts", resume=True)
    assert parts.planned_steps_ == 40
    assert parts.history_ == whole.history_
    np.testing.assert_array_equal(parts.predict().values, whole.predict().values)
