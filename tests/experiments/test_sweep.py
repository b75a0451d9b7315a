import json
import signal
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import torch
from optuna.trial import TrialState

from tdegnn import InputError, SpatialOperator, TrainingError
from tdegnn.experiments.node_systems import NodeRun, train_together
from tdegnn.experiments.recipe_files import read_recipes, write_recipe
from tdegnn.experiments.search_space import RANGES, SHAPES, SweepSettings
from tdegnn.experiments.studies import count_finished, open_study
from tdegnn.experiments.sweep import run_sweep
from tdegnn.nodes.settings import NodeConfig
from tdegnn.parts import Part
from tdegnn.training.members import GroupDescent
from tests.experiments.tiny_nodes import make_tiny_nodes
from tests.faults.sweep_kills import facts
from tests.forked import Forked

ROOT = Path(__file__).parents[2]
TINY = make_tiny_nodes()
SETTINGS = SweepSettings("TDE-GNN_D", num_splits=2, num_steps=6)


def rigged(dataset, configs, splits, *, seed, placement):
    """Validation likes large steps h, test small ones."""
    assert len({config.shape for config in configs}) == 1
    return [
        NodeRun(config, split, seed, config.step_size, 1 - config.step_size, 1, False)
        for config in configs
        for split in splits
    ]


def sweep(storage, trials=8, settings=SETTINGS, **options):
    study = open_study(storage, "tiny", "tiny", settings)
    options = {"train": rigged, "batch_size": 4, "num_finalists": 2} | options
    return study, run_sweep(TINY, study, settings, num_trials=trials, **options)


def states(study):
    return Counter(trial.state.name for trial in study.get_trials(deepcopy=False))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["DE-GNN", "TDE-GNN_D", "TDE-GNN_A"])
def test_it_trains_real_networks(tmp_path, system):
    settings = SweepSettings(system, num_splits=2, num_steps=4, space="wide")
    dataset = replace(TINY, features=abs(TINY.features))
    study = open_study(tmp_path / "study", "tiny", "tiny", settings)
    result = run_sweep(dataset, study, settings, num_trials=3, batch_size=3, num_finalists=1, train=train_together)
    (best,) = result.finalists
    assert (result.num_finished, result.num_running) == (3, 0)
    assert best.config.system == system
    assert best.config.order == (1 if system == "DE-GNN" else best.config.num_layers)
    assert len(best.validation_accuracies) == len(best.test_accuracies) == TINY.num_splits
    assert 0 < best.validation_accuracy <= 1


def test_selection_is_by_validation_and_never_by_test(tmp_path):
    study, result = sweep(tmp_path / "study", trials=16)
    tried = [trial.params["step_size"] for trial in study.trials]
    best, second = result.finalists
    assert best.config.step_size == max(tried) == study.best_value
    assert best.validation_accuracy > second.validation_accuracy
    assert best.test_accuracy < second.test_accuracy


def test_the_worse_half_of_a_batch_stops_after_a_third_of_the_steps(tmp_path):
    steps = []

    def recording(dataset, configs, splits, **options):
        steps.append((configs[0].num_steps, len(configs), len(splits)))
        return rigged(dataset, configs, splits, **options)

    study, _ = sweep(tmp_path / "study", train=recording)
    assert steps[:4] == [(2, 4, 2), (6, 2, 2)] * 2
    assert sum(count for _, count, _ in steps[4:]) == 2  # the finalists, on all splits
    assert {(number, splits) for number, _, splits in steps[4:]} == {(6, 4)}
    assert states(study) == {"COMPLETE": 4, "PRUNED": 4}
    for batch in (study.trials[:4], study.trials[4:]):
        kept = [trial.value for trial in batch if trial.state is TrialState.COMPLETE]
        stopped = [trial.value for trial in batch if trial.state is TrialState.PRUNED]
        assert min(kept) > max(stopped)


def test_trials_stay_in_the_ranges_and_a_batch_has_one_shape(tmp_path):
    study, _ = sweep(tmp_path / "study", trials=12, settings=replace(SETTINGS, space="wide"))
    for trial in study.trials:
        # Features of which some are negative cannot be made to sum to one, and only TDE-GNN_A has rules to choose from.
        assert set(trial.params) == set(RANGES) | set(SHAPES["wide"]) - {"normalized_features", "coefficients"}
        assert all(low <= trial.params[name] <= high for name, (low, high, _) in RANGES.items())
    shapes = [tuple(trial.params.get(name) for name in SHAPES["wide"]) for trial in study.trials]
    assert all(len(set(shapes[start : start + 4])) == 1 for start in (0, 4, 8))
    assert len(set(shapes)) > 1
    assert len({trial.params["step_size"] for trial in study.trials}) == 12


def test_a_seed_gives_the_same_trials(tmp_path):
    first, second, other = (
        sweep(tmp_path / name, settings=replace(SETTINGS, seed=seed))[0]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    params = [[trial.params for trial in study.trials] for study in (first, second, other)]
    assert params[0] == params[1] != params[2]


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_a_sweep_goes_on_where_it_stopped(tmp_path, prefix):
    storage = f"{prefix}{tmp_path / 'study'}"
    sweep(storage, trials=4)
    study, result = sweep(storage, trials=10)
    assert (result.num_finished, len(study.trials)) == (10, 10)
    uninterrupted, _ = sweep(tmp_path / "other", trials=10)
    assert [trial.params for trial in study.trials[:4]] == [trial.params for trial in uninterrupted.trials[:4]]

    def never(*_, **__):
        raise AssertionError("everything was trained already")

    assert sweep(storage, trials=10, train=never)[1] == result


def stopping_at(call, error):
    """Return a training that raises the error in one of its calls."""
    calls = iter(range(100))

    def train(*arguments, **options):
        if next(calls) == call:
            raise error
        return rigged(*arguments, **options)

    return train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefix", "error", "calls"),
    [("", RuntimeError("the device is gone"), range(9)), ("sqlite:///", KeyboardInterrupt(), (1, 6, 8))],
)
def test_an_interrupted_sweep_draws_what_an_uninterrupted_one_draws(tmp_path, prefix, error, calls):
    """Sixteen trials: after the first ten, settings depend on the results."""
    undisturbed, wanted = sweep(tmp_path / "other", trials=16)
    for call in calls:  # two trainings per batch, then the finalists
        storage = f"{prefix}{tmp_path / f'study{call}'}"
        with pytest.raises(type(error)):
            sweep(storage, trials=16, train=stopping_at(call, error))
        study, result = sweep(storage, trials=16)
        assert (facts(study), result) == (facts(undisturbed), wanted)


class Stop(BaseException):
    """Stands for the end of a process at a write."""


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_a_sweep_that_ends_at_any_write_is_continued_as_if_it_had_not(tmp_path, prefix, monkeypatch):
    undisturbed, wanted = sweep(tmp_path / "other", trials=12)
    storage = f"{prefix}{tmp_path / 'study'}"
    kind = optuna.storages.RDBStorage if prefix else optuna.storages.JournalStorage
    writers = [
        name
        for name in dir(kind)
        if name.startswith(("set_", "create_new_trial", "_set_trial_param", "_create_new_trial"))
    ]
    left = [0]

    def counted(write):
        def counting(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                left[0] = 1  # whatever is written afterwards, to clean up, is lost as well
                raise Stop
            return write(*arguments, **options)

        return counting

    stops = 0
    with monkeypatch.context() as patch:
        for name in writers:
            patch.setattr(kind, name, counted(getattr(kind, name)))
        for _ in range(100):
            left[0] = 13  # a prime number of writes: another place each time
            try:
                sweep(storage, trials=12)
                break
            except Stop:
                stops += 1
    assert 10 < stops < 100
    study, result = sweep(storage, trials=12)
    assert (facts(study), result) == (facts(undisturbed), wanted)


def test_a_batch_that_is_too_large_for_the_machine_is_trained_in_parts(tmp_path):
    """Lower the batch size, says the error. The trials are not lost."""
    error = TrainingError("Expected memory for 4 x 2 trainings, got too little. Lower batch_size=.")
    with pytest.raises(TrainingError):
        sweep(tmp_path / "study", train=stopping_at(0, error))
    sizes = []

    def recording(dataset, configs, splits, **options):
        sizes.append(len(configs))
        return rigged(dataset, configs, splits, **options)

    study, result = sweep(tmp_path / "study", batch_size=3, train=recording)
    assert (result.num_finished, len(study.trials), max(sizes)) == (8, 8, 3)


def test_a_trial_that_cannot_be_trained_does_not_block_the_sweep(tmp_path):
    error = TrainingError("Expected memory for 1 x 2 trainings, got too little. Lower batch_size=.")
    with pytest.raises(TrainingError):
        sweep(tmp_path / "study", batch_size=1, train=stopping_at(0, error))
    study, result = sweep(tmp_path / "study", batch_size=1)
    assert (result.num_finished, states(study)["FAIL"]) == (8, 1)


def test_trials_of_an_earlier_version_that_was_killed_do_not_count(tmp_path):
    """It did not store which trials belong together."""
    study = open_study(tmp_path / "study", "tiny", "tiny", SETTINGS)
    study.ask().set_user_attr("worker", [socket.gethostname(), 2**22 + 1])  # no process has this number
    study.set_user_attr("final 3", [[0.5], [0.25]])
    study, result = sweep(tmp_path / "study")
    assert (result.num_finished, states(study)) == (8, {"FAIL": 1, "COMPLETE": 4, "PRUNED": 4})


@pytest.mark.slow
def test_trials_of_a_killed_process_are_continued(tmp_path):
    storage = tmp_path / "study"
    killed = f"""
import os, signal
from tests.experiments.test_sweep import sweep
sweep({str(storage)!r}, train=lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
"""
    process = Forked(killed)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    study = open_study(storage, "tiny", "tiny", SETTINGS)
    assert states(study) == {"RUNNING": 4}
    _, result = sweep(storage)
    undisturbed, wanted = sweep(tmp_path / "other")
    assert (facts(study), result) == (facts(undisturbed), wanted)


def test_trials_of_other_machines_are_left_alone(tmp_path):
    study = open_study(tmp_path / "study", "tiny", "tiny", SETTINGS)
    trial = study.ask()
    trial.set_user_attr("worker", ["another machine", 1])
    _, result = sweep(tmp_path / "study")
    assert (result.num_finished, result.num_running, result.finalists) == (7, 1, [])


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_two_processes_share_a_study(tmp_path, prefix):
    storage = f"{prefix}{tmp_path / 'study'}"
    open_study(storage, "tiny", "tiny", SETTINGS)
    worker = f"""
import json, os, time
from tests.experiments.test_sweep import rigged, sweep
def slow(*arguments, **options):
    time.sleep(0.2)
    return rigged(*arguments, **options)
print(json.dumps(sweep({storage!r}, trials=21, train=slow)[1].num_finished))
"""
    processes = [Forked(worker) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    study = open_study(storage, "tiny", "tiny", SETTINGS)
    assert count_finished(study) == 21
    finished = [trial for trial in study.trials if trial.state is not TrialState.FAIL]
    assert len({trial.params["step_size"] for trial in finished}) == 21
    assert len({tuple(trial.user_attrs["worker"][:2]) for trial in finished}) == 2
    assert max(json.loads(out) for out, _ in outputs) == 21


def test_other_settings_do_not_join_a_study(tmp_path):
    sweep(tmp_path / "study")
    with pytest.raises(InputError, match="num_steps = 6, got num_steps = 9. Use those, or another name=.$") as error:
        open_study(tmp_path / "study", "tiny", "tiny", replace(SETTINGS, num_steps=9))
    assert error.value.as_options().endswith("Use those, or another --study.")


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("http://somewhere", "a URL of sqlite, postgresql, mysql, got http://..."),
        ("sqlite:////nowhere/at/all.db", "a sqlite database that answers, got: .*unable to open database file"),
        ("postgresql+nosuchdriver://me@localhost/x", "Check the URL|Install one"),
        ("postgresql://me:secret@localhost/x", "a URL without a password, .* Set PGPASSWORD, or .*PGSERVICEFILE"),
        ("postgresql://me@localhost/x?passwor%64=secret", "a URL without a password"),
        ("mysql://me:secret@localhost/x", "Keep it in an option file, mysql://USER@HOST/DATABASE.read_default_file"),
    ],
)
def test_a_wrong_storage_is_one_line(storage, message):
    with pytest.raises(InputError, match=message) as caught:
        open_study(storage, "tiny", "tiny", SETTINGS)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_of_another_kind_is_no_study(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("hello\nworld\n")
    with pytest.raises(InputError, match="notes.txt to hold a study, got another kind of file"):
        open_study(other, "tiny", "tiny", SETTINGS)
    assert other.read_text() == "hello\nworld\n"
    with pytest.raises(InputError, match="Choose another folder"):
        open_study(other / "study", "tiny", "tiny", SETTINGS)


def test_wrong_settings_say_what_is_right(tmp_path):
    wrong = replace(SETTINGS)
    object.__setattr__(wrong, "system", "GCN")  # types are checked at every call here, not at a user's
    with pytest.raises(InputError, match="system to be one of DE-GNN, TDE-GNN_D, TDE-GNN_A, TDE-GNN_S, got 'GCN'"):
        wrong.__post_init__()
    with pytest.raises(InputError, match="at most 4 splits, the number in tiny, got 5"):
        sweep(tmp_path / "study", settings=replace(SETTINGS, num_splits=5))


def test_optuna_stays_quiet(tmp_path, capfd):
    sweep(tmp_path / "study")
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == optuna.logging.ERROR


def test_a_recipe_comes_back_as_it_was_and_leaves_other_systems_alone(tmp_path):
    config = NodeConfig(
        "TDE-GNN_A", 32, 4, 4, operator=Part("diffusion", batch_norm=True), initial_states="newest-unmapped",
        step_size=0.1 + 0.2, temporal=GroupDescent(1.2345678901234567e-05, 1 / 3), num_steps=17,
    )  # fmt: skip
    direct = replace(config, system="TDE-GNN_D", outer_dropout=0.0)
    path = tmp_path / "recipes" / "cora.toml"
    for written in (config, replace(direct, num_layers=2), direct):
        write_recipe(path, written)
    assert read_recipes("cora", path) == {"TDE-GNN_A": config, "TDE-GNN_D": direct}


class Repulsion(SpatialOperator):
    """Neighbors push each other apart, as strongly as a gate of their own state says."""

    def __init__(self, channels):
        super().__init__()
        self.gate = torch.nn.Linear(channels, channels)

    def forward(self, state, graph, layer, context=None):
        return torch.sigmoid(self.gate(state)) * graph.laplacian(state), context


class Stepwise(Repulsion):
    """One that keeps its step size where members cannot differ in it."""

    def __init__(self, channels, step_size):
        super().__init__(channels)
        self.step_size = step_size


@pytest.mark.slow
@pytest.mark.parametrize("space", ["paper", "wide"])
def test_an_operator_and_a_rule_of_ones_own_are_searched_and_named_in_the_recipe(tmp_path, space):
    settings = replace(SETTINGS, space=space, operator=Repulsion, coefficients=Part("stable", multiplicity=1))
    study, result = sweep(tmp_path / "study", trials=3, settings=settings, train=train_together)
    assert result.num_finished == 3
    assert not {"batch_norm", "operator", "coefficients"} & set(study.trials[0].params)
    config = result.finalists[0].config
    assert (config.operator, config.coefficients) == (Repulsion, Part("stable", multiplicity=1))
    assert json.loads(json.dumps(result.finalists[0].to_record()))["config"]["operator"] == {"class": "Repulsion"}
    path = tmp_path / "recipes.toml"
    write_recipe(path, config)
    write_recipe(path, NodeConfig("TDE-GNN_A"))
    assert 'operator = { class = "Repulsion" }' in path.read_text()
    assert read_recipes("tiny", path, operator=Repulsion) == {"TDE-GNN_D": config, "TDE-GNN_A": NodeConfig("TDE-GNN_A")}
    with pytest.raises(InputError, match=r"In the recipe recipes.toml, \[TDE-GNN_D\]: .*the class Repulsion"):
        read_recipes("tiny", path)
    open_study(tmp_path / "study", "tiny", "tiny", settings)  # the same parts: it goes on
    with pytest.raises(InputError, match="operator = .*Repulsion.*, got .*operator = None"):
        open_study(tmp_path / "study", "tiny", "tiny", replace(settings, operator=None))


def test_a_number_that_would_be_shared_by_all_members_is_refused(tmp_path):
    settings = replace(SETTINGS, operator=Stepwise)
    with pytest.raises(InputError, match=r"got operator.step_size = .* and .*Keep it as a buffer .register_buffer."):
        sweep(tmp_path / "study", settings=settings, train=train_together)


def test_a_study_of_an_earlier_version_goes_on(tmp_path):
    """Its trials have maps, attention and batch norm as words and switches."""
    storage, wide = tmp_path / "study", replace(SETTINGS, system="TDE-GNN_A", space="wide")
    study = open_study(storage, "tiny", "tiny", wide)
    assert set(study.user_attrs["settings"]) == {"dataset", "system", "num_splits", "num_steps", "space", "seed"}
    rates = {name: (low + high) / 2 for name, (low, high, _) in RANGES.items()}
    old = dict(batch_norm=True, hidden_channels=8, num_layers=2, layer_maps="near identity", attention="gated")
    config = wide.config(rates | old | dict(initial_states="newest unmapped"))
    assert config == wide.config(
        rates
        | dict(batch_norm=True, hidden_channels=8, num_layers=2, operator="near-identity")
        | dict(coefficients="gated-attention", initial_states="newest-unmapped")
    )
    assert (config.operator, config.order) == (Part("near-identity", batch_norm=True), 2)
