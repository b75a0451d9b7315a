"""Search for the settings of a system on a dataset: an Optuna study whose trials are trained together.

A batch of trials shares its shape and differs in all else, so that trials x splits are one training
(`train_together`). Everything is chosen by the mean validation accuracy over splits; test accuracy is written beside
it and chooses nothing. Halving: all trials of a batch train for a third of the steps, the better half then from the
start for all of them, five sixths of the steps in place of all. The best few are trained on all splits.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import optuna
import torch
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from tdegnn.core.rules import System
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError, TdegnnError, TrainingError, check_count
from tdegnn.experiments.node_systems import NodeRun, train_together
from tdegnn.experiments.recipe_files import read_recipes, write_recipes
from tdegnn.nodes.settings import NodeConfig
from tdegnn.runs.safe_files import explained
from tdegnn.training.devices import Placement
from tdegnn.training.members import GroupDescent

Space = Literal["paper", "wide"]

# Paper: the table of hyperparameter ranges. Lowest, highest, and whether the scale is logarithmic.
RANGES: dict[str, tuple[float, float, bool]] = {
    "embedding_learning_rate": (1e-4, 1e-1, True),
    "temporal_learning_rate": (1e-4, 1e-1, True),
    "spatial_learning_rate": (1e-4, 1e-1, True),
    "embedding_weight_decay": (0.0, 0.01, False),
    "temporal_weight_decay": (0.0, 0.01, False),
    "spatial_weight_decay": (0.0, 0.01, False),
    "outer_dropout": (0.0, 0.9, False),
    "hidden_dropout": (0.0, 0.9, False),
    "step_size": (0.001, 1.0, False),
}
# What decides the shape of a network, and so is one for all trials of a batch.
SHAPES: dict[Space, dict[str, tuple[Any, ...]]] = {
    "paper": {"batch_norm": (True, False), "hidden_channels": (8, 16, 32, 64, 128, 256)},
    # Deviation: settings the paper leaves as they are, and that decide some datasets.
    "wide": {
        "batch_norm": (True, False),
        "hidden_channels": (8, 16, 32, 64, 128, 256),
        "num_layers": (2, 4, 8),
        "adjacency_features": (True, False),
        "normalized_features": (True, False),
        "initial_states": ("mapped", "newest unmapped"),
        "layer_maps": ("free", "near identity"),
        "attention": ("plain", "gated"),
    },
}
GROUPS = ("embedding", "temporal", "spatial")
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
# A trial that has run for longer was interrupted. On this machine we know sooner: its process is gone.
LONGEST_TRIAL = timedelta(hours=12)
SETTINGS, WORKER, FINAL, TEST = "settings", "worker", "final", "test_accuracy"
DATABASES = ("sqlite", "postgresql", "mysql")


@runtime_checkable
class Train(Protocol):
    """Trains configurations of one shape on splits, as `train_together` does."""

    def __call__(
        self,
        dataset: NodeDataset,
        configs: Sequence[NodeConfig],
        splits: Sequence[int],
        *,
        seed: int,
        placement: Placement | None,
    ) -> list[NodeRun]:
        """Return one run for each configuration and split."""


@dataclass(frozen=True)
class SweepSettings:
    """What a sweep searches and how.

    Attributes:
        system: The system whose settings are searched.
        num_splits: Splits on which trials are judged.
        num_steps: Steps of the optimizer, in a trial that is not stopped by halving.
        space: The paper's ranges, or more.
        seed: Seed of what is tried, of weights and of dropout.
    """

    system: System = "TDE-GNN_D"
    num_splits: int = 3
    num_steps: int = 300
    space: Space = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("system", self.system, get_args(System)),
            ("space", self.space, get_args(Space)),
        ):
            if value not in known:
                raise InputError(f"Expected {name} to be one of {', '.join(known)}, got {value!r}. Choose one of them.")
        check_count(num_splits=self.num_splits, num_steps=self.num_steps)

    def check_splits(self, dataset: NodeDataset) -> None:
        """Raise an `InputError` where the dataset has fewer splits."""
        if self.num_splits > dataset.num_splits:
            raise InputError(
                f"Expected at most {dataset.num_splits} splits, all that {dataset.name} has, got {self.num_splits}."
            )

    def config(self, params: Mapping[str, Any]) -> NodeConfig:
        """The configuration of a trial."""
        chosen = {name: value for name, value in params.items() if not name.startswith(GROUPS)}
        for group in GROUPS:
            chosen[group] = GroupDescent(params[f"{group}_learning_rate"], params[f"{group}_weight_decay"])
        config = NodeConfig(system=self.system, num_steps=self.num_steps, **chosen)
        # Paper: the order is the number of layers.
        return replace(config, order=1 if self.system == "DE-GNN" else config.num_layers)


@dataclass(frozen=True)
class Finalist:
    """One of the best trials, trained on all splits.

    Attributes:
        trial: Its number in the study.
        config: Its configuration.
        validation_accuracies: By split; their mean chooses.
        test_accuracies: By split, at the steps that validation chose.
    """

    trial: int
    config: NodeConfig
    validation_accuracies: list[float]
    test_accuracies: list[float]

    @property
    def validation_accuracy(self) -> float:
        """Mean over the splits."""
        return fmean(self.validation_accuracies)

    @property
    def test_accuracy(self) -> float:
        """Mean over the splits."""
        return fmean(self.test_accuracies)

    def to_record(self) -> dict[str, Any]:
        """The finalist as plain values."""
        means = {"validation_accuracy": self.validation_accuracy, "test_accuracy": self.test_accuracy}
        return asdict(self) | means


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    Attributes:
        num_finished: Trials that were judged, those that halving stopped included.
        num_running: Trials that other processes are at; the last of them has the finalists.
        finalists: The best few, best first by validation; empty while others are at work.
    """

    num_finished: int
    num_running: int
    finalists: list[Finalist]


def open_study(storage: str | Path, name: str, dataset_name: str, settings: SweepSettings) -> optuna.Study:
    """Open a study, new or of an earlier run or another process.

    Args:
        storage: A file, or the URL of a database (`postgresql://`, `sqlite://`, `mysql://`).
        name: Name of the study in it.
        dataset_name: What is searched for.
        settings: How; a study that was started with others is an error, for its numbers could not be compared.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = _create_study(str(storage), name)
    asked = {"dataset": dataset_name} | asdict(settings)
    known = study.user_attrs.get(SETTINGS)
    if known is None:
        study.set_user_attr(SETTINGS, asked)
    elif known != asked:
        different = [key for key in asked if known.get(key) != asked[key]]
        raise InputError(
            f"Expected the settings study {name!r} was started with, "
            f"{', '.join(f'{key} = {known.get(key)}' for key in different)}, "
            f"got {', '.join(f'{key} = {asked[key]}' for key in different)}. Use those, or another --study."
        )
    return study


def run_sweep(
    dataset: NodeDataset,
    study: optuna.Study,
    settings: SweepSettings,
    *,
    num_trials: int = 64,
    batch_size: int = 16,
    num_finalists: int = 4,
    placement: Placement | None = None,
    train: Train = train_together,
    on_trial: Callable[[], None] = lambda: None,
) -> SweepResult:
    """Go on until the study has `num_trials` trials, then train the best few on all splits.

    Args:
        dataset: The nodes.
        study: From `open_study`, with the same settings. Other processes may work on it meanwhile.
        settings: What is searched.
        num_trials: Trials the study shall have, those of earlier runs and other processes included.
        batch_size: Trials that are trained together, times splits.
        num_finalists: How many are trained on all splits.
        placement: What to compute with; the CPU without it.
        train: What trains; another one in tests.
        on_trial: Called after each trial, for a progress bar.
    """
    check_count(num_trials=num_trials, batch_size=batch_size, num_finalists=num_finalists)
    settings.check_splits(dataset)
    judge = _Judge(dataset, settings, placement, train)
    fail_stale_trials(study)
    while batch := _ask_batch(study, judge, num_trials, batch_size):
        _run_batch(study, batch, judge)
        for _ in batch:
            on_trial()
    num_finished = count_finished(study)
    num_running = len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
    finalists = [] if num_running else _train_finalists(study, judge, num_finalists)
    return SweepResult(num_finished, num_running, finalists)


def count_finished(study: optuna.Study) -> int:
    """Trials that were judged, those that halving stopped included."""
    return len(study.get_trials(deepcopy=False, states=FINISHED))


def fail_stale_trials(study: optuna.Study) -> int:
    """Mark trials as failed whose process is no more; return how many."""
    stale = [trial for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)) if _is_stale(trial)]
    for trial in stale:
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    return len(stale)


def write_recipe(path: Path, config: NodeConfig) -> None:
    """Write a configuration to a recipe file, in place of the one it may have for the same system."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        others = read_recipes(path.stem, path) if path.exists() else {}
        write_recipes(path, {**others, config.system: config})


class _Judge:
    """Trains configurations, and says how good each is."""

    def __init__(
        self, dataset: NodeDataset, settings: SweepSettings, placement: Placement | None, train: Train
    ) -> None:
        self.settings = settings
        self.shapes = dict(SHAPES[settings.space])
        if (dataset.features < 0).sum():  # they cannot be scaled to sum to one
            self.shapes.pop("normalized_features", None)
        self._dataset, self._placement, self._train = dataset, placement, train

    def runs(self, configs: Sequence[NodeConfig], num_splits: int | None = None) -> list[list[NodeRun]]:
        """The runs of each configuration on so many splits; on all without a number."""
        splits = range(self._dataset.num_splits if num_splits is None else num_splits)
        try:
            runs = self._train(self._dataset, configs, splits, seed=self.settings.seed, placement=self._placement)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"Expected room for {len(configs)} x {len(splits)} trainings, got too little memory. Lower --batch."
            ) from error
        return [runs[start : start + len(splits)] for start in range(0, len(runs), len(splits))]


def _create_study(storage: str, name: str) -> optuna.Study:
    try:
        return optuna.create_study(
            storage=_open_database(storage) if "://" in storage else _open_file(Path(storage)),
            study_name=name,
            direction="maximize",
            load_if_exists=True,
        )
    except json.JSONDecodeError as error:
        raise InputError(f"Expected {storage} to hold a study, got another kind of file. Use another file.") from error


def _open_file(path: Path) -> optuna.storages.JournalStorage:
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))


def _open_database(url: str) -> optuna.storages.RDBStorage:
    from sqlalchemy.exc import SQLAlchemyError

    scheme = url.split("://", maxsplit=1)[0]
    if scheme.split("+")[0] not in DATABASES:
        raise InputError(f"Expected storage to be a file or a URL of {', '.join(DATABASES)}, got {scheme}://...")
    try:
        return _open_with_tables(url)
    except ImportError as error:
        hint = "pip install 'tdegnn[postgresql]'" if scheme.startswith("postgresql") else "install one"
        raise InputError(f"Expected a driver for {scheme}, got none: {hint}.") from error
    except (SQLAlchemyError, RuntimeError, ValueError) as error:
        # Only the first line: the others are SQL. Never the URL: it may hold a password.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"Expected a {scheme} database that answers, got: {reason}. Check the URL.") from error


def _open_with_tables(url: str, num_tries: int = 5) -> optuna.storages.RDBStorage:
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    for _ in range(num_tries - 1):
        try:
            return optuna.storages.RDBStorage(url)
        except (IntegrityError, ProgrammingError):
            # Another process is making the tables at this very moment. A moment later they are there.
            time.sleep(0.5)
    return optuna.storages.RDBStorage(url)


def _worker() -> list[Any]:
    return [socket.gethostname(), os.getpid()]


def _is_stale(trial: FrozenTrial) -> bool:
    host, process = trial.user_attrs.get(WORKER, (None, None))
    if host == socket.gethostname() and not _is_alive(process):
        return True
    # Without a worker, the trial was asked for this very moment, or its process died that moment.
    return trial.datetime_start is None or datetime.now() - trial.datetime_start > LONGEST_TRIAL


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and somebody else's
        return True
    return process != os.getpid()  # this one has nothing running when it looks


def _ask_batch(study: optuna.Study, judge: _Judge, num_trials: int, batch_size: int) -> list[Trial]:
    """Up to a batch of new trials, all of the shape that the first of them draws."""
    batch: list[Trial] = []
    while len(batch) < batch_size:
        if _count_before(study, None) >= num_trials:
            break
        trial = study.ask()
        trial.set_user_attr(WORKER, _worker())
        # Processes that ask at the same moment find out by the numbers of their trials, which no two share.
        if _count_before(study, trial.number) >= num_trials:
            study.tell(trial, state=TrialState.FAIL)
            break
        batch.append(trial)
        _draw(study, trial, judge, {name: batch[0].params[name] for name in judge.shapes if trial is not batch[0]})
    return batch


def _count_before(study: optuna.Study, number: int | None) -> int:
    """Trials that are finished or under way, with lower numbers than this one where one is given."""
    counted = study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))
    return sum(number is None or trial.number < number for trial in counted)


def _draw(study: optuna.Study, trial: Trial, judge: _Judge, shape: dict[str, Any]) -> None:
    """Choose the settings of a trial: at random in the first trials, then near the better ones (TPE)."""
    # A sampler for each trial: one that is seeded anew by every process would try the same settings in each.
    seed = int(np.random.SeedSequence([judge.settings.seed, trial.number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # The liar: trials under way count as bad, so that a batch does not try one thing many times.
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        study.sampler = optuna.samplers.PartialFixedSampler(shape, sampler)
    for name, choices in judge.shapes.items():
        trial.suggest_categorical(name, choices)
    for name, (low, high, is_logarithmic) in RANGES.items():
        trial.suggest_float(name, low, high, log=is_logarithmic)


def _run_batch(study: optuna.Study, batch: list[Trial], judge: _Judge) -> None:
    waiting = list(batch)
    try:
        survivors = _halve(study, waiting, judge)
        for trial, runs in zip(survivors, _run_trials(survivors, judge, judge.settings.num_steps), strict=True):
            _note(trial, runs)
            waiting.remove(trial)
            study.tell(trial, fmean(run.validation_accuracy for run in runs), skip_if_finished=True)
    finally:
        # Whatever ended the batch, a keyboard or an error: no trial of it is left as if it were running.
        for trial in waiting:
            study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def _halve(study: optuna.Study, waiting: list[Trial], judge: _Judge) -> list[Trial]:
    """Train all for a third of the steps; the better half goes on, the others are finished and leave `waiting`."""
    num_steps = math.ceil(judge.settings.num_steps / 3)
    scored = []
    for trial, runs in zip(waiting, _run_trials(waiting, judge, num_steps), strict=True):
        score = fmean(run.validation_accuracy for run in runs)
        trial.report(score, num_steps)
        _note(trial, runs)
        scored.append((score, trial))
    scored.sort(key=lambda pair: -pair[0])
    num_survivors = math.ceil(len(scored) / 2)
    for _, trial in scored[num_survivors:]:
        waiting.remove(trial)
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
    return [trial for _, trial in scored[:num_survivors]]


def _run_trials(trials: Sequence[Trial], judge: _Judge, num_steps: int) -> list[list[NodeRun]]:
    configs = [replace(judge.settings.config(trial.params), num_steps=num_steps) for trial in trials]
    return judge.runs(configs, judge.settings.num_splits)


def _note(trial: Trial, runs: Sequence[NodeRun]) -> None:
    trial.set_user_attr(TEST, fmean(run.test_accuracy for run in runs))
    trial.set_user_attr("validation_accuracies", [run.validation_accuracy for run in runs])
    trial.set_user_attr("num_diverged", sum(run.is_diverged for run in runs))


def _train_finalists(study: optuna.Study, judge: _Judge, num_finalists: int) -> list[Finalist]:
    """The best trials on all splits; those an earlier run has trained are taken from the study."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise TdegnnError("Expected a trial that was trained to its end, got none. Ask for more trials.")
    best = sorted(complete, key=lambda trial: (-_value(trial), trial.number))[:num_finalists]
    configs = {trial.number: judge.settings.config(trial.params) for trial in best}
    by_shape: dict[tuple[Any, ...], list[int]] = {}
    for number, config in configs.items():
        if f"{FINAL} {number}" not in study.user_attrs:
            by_shape.setdefault(config.shape, []).append(number)
    for numbers in by_shape.values():
        for number, runs in zip(numbers, judge.runs([configs[number] for number in numbers]), strict=True):
            accuracies = [[run.validation_accuracy for run in runs], [run.test_accuracy for run in runs]]
            study.set_user_attr(f"{FINAL} {number}", accuracies)
    known = study.user_attrs
    finalists = [Finalist(number, config, *known[f"{FINAL} {number}"]) for number, config in configs.items()]
    return sorted(finalists, key=lambda finalist: -finalist.validation_accuracy)


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None  # a complete trial has one
    return float(trial.value)
