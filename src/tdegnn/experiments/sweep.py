"""Search for the settings of a system on a dataset: an Optuna study whose trials are trained together.

The trials of a batch have one shape and differ in everything else, so that trials x splits are one training
(`train_together`). Everything is chosen by the mean validation accuracy over splits; test accuracy is recorded
but chooses nothing. Halving saves a sixth of the steps: all trials of a batch train for a third of the steps, then
the better half from the start for all of them. The best few are trained on all splits. The search space is in
`search_space.py`, the storage of trials in `studies.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Protocol, runtime_checkable

import numpy as np
import optuna
import torch
from optuna.trial import FrozenTrial, Trial, TrialState

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import TdegnnError, TrainingError, check_count
from tdegnn.experiments.node_systems import NodeRun, train_together
from tdegnn.experiments.search_space import RANGES, SweepSettings
from tdegnn.experiments.studies import ask_trial, count_finished, count_running, fail_stale_trials
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement

FINAL, TEST = "final", "test_accuracy"


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
        """Return one run per configuration and split."""


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
        """Return the finalist as plain values."""
        means = {"validation_accuracy": self.validation_accuracy, "test_accuracy": self.test_accuracy}
        return vars(self) | {"config": self.config.to_record()} | means


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Attributes:
        num_finished: Number of trials that were evaluated, including those that halving stopped.
        num_running: Trials that other processes are working on. The last process has the finalists.
        finalists: The best few, best first by validation. Empty while other processes are running trials.
    """

    num_finished: int
    num_running: int
    finalists: list[Finalist]


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
    """Run trials until the study has `num_trials`, then train the best few on all splits.

    Args:
        dataset: The nodes.
        study: From `open_study`, with the same settings. Other processes may work on it at the same time.
        settings: The settings of the sweep.
        num_trials: Number of trials of the study, including those of earlier runs and other processes.
        batch_size: Number of trials that are trained together, each on all splits of the sweep.
        num_finalists: Number of trials that are then trained on all splits of the dataset.
        placement: Where to compute. Default: on the CPU.
        train: Trains the configurations. Tests pass a replacement.
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
    num_finished, num_running = count_finished(study), count_running(study)
    finalists = [] if num_running else _train_finalists(study, judge, num_finalists)
    return SweepResult(num_finished, num_running, finalists)


class _Judge:
    """Trains configurations, and scores each of them."""

    def __init__(
        self, dataset: NodeDataset, settings: SweepSettings, placement: Placement | None, train: Train
    ) -> None:
        self.settings, self.shapes = settings, settings.shapes(dataset)
        self._dataset, self._placement, self._train = dataset, placement, train

    def runs(self, configs: Sequence[NodeConfig], num_splits: int | None = None) -> list[list[NodeRun]]:
        """Return the runs of each configuration on the first `num_splits` splits, by default on all."""
        splits = range(self._dataset.num_splits if num_splits is None else num_splits)
        try:
            runs = self._train(self._dataset, configs, splits, seed=self.settings.seed, placement=self._placement)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"Expected memory for {len(configs)} x {len(splits)} trainings, got too little. Lower --batch."
            ) from error
        return [runs[start : start + len(splits)] for start in range(0, len(runs), len(splits))]


def _ask_batch(study: optuna.Study, judge: _Judge, num_trials: int, batch_size: int) -> list[Trial]:
    """Ask for up to a batch of new trials, all of the shape that the first of them draws."""
    batch: list[Trial] = []
    while len(batch) < batch_size and (trial := ask_trial(study, num_trials)) is not None:
        batch.append(trial)
        _draw(study, trial, judge, {name: batch[0].params[name] for name in judge.shapes if trial is not batch[0]})
    return batch


def _draw(study: optuna.Study, trial: Trial, judge: _Judge, shape: dict[str, Any]) -> None:
    """Choose the settings of a trial: at random in the first trials, then near the better ones (TPE)."""
    # One sampler per trial: a sampler that every process seeds anew would try the same settings in each process.
    seed = int(np.random.SeedSequence([judge.settings.seed, trial.number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # The constant liar: running trials count as bad, so that a batch does not try the same settings many times.
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
        # Whatever ended the batch, an interrupt or an error, no trial of it may look as if it were running.
        for trial in waiting:
            study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def _halve(study: optuna.Study, waiting: list[Trial], judge: _Judge) -> list[Trial]:
    """Train all for a third of the steps. The better half goes on; the others are finished and leave `waiting`."""
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
    """Train the best trials on all splits. Results of an earlier run are read from the study."""
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
