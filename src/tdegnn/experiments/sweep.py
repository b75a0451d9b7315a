"""Search for the settings of a system on a dataset: an Optuna study whose trials are trained together.

The trials of a batch have one shape and differ in everything else, so that trials x splits are one training
(`train_together`). Everything is chosen by the mean validation accuracy over splits; test accuracy is recorded
but chooses nothing. Halving saves a sixth of the steps: all trials of a batch train for a third of the steps, then
the better half from the start for all of them. The best few are trained on all splits. The search space is in
`search_space.py`, the storage of trials in `studies.py`.

A sweep that is interrupted and continued with the same arguments gives the same trials as an uninterrupted one: the
settings of a trial depend on its number and on the finished trials, and an interrupted batch is trained again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Protocol, runtime_checkable

import numpy as np
import optuna
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import Argument, TdegnnError, TrainingError, check_count
from tdegnn.experiments.batches import ask_next, give_back, take_over
from tdegnn.experiments.node_systems import NodeRun, train_together
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import FINISHED, StoredStudy, count_finished, count_running
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement

TEST = "test_accuracy"
# Precedes the number of a finalist, in earlier versions, or that of the first of several that were trained together.
FINAL, FINALS = "final ", "finals "


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
    study: StoredStudy,
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
        study: From `open_study`, with the same settings. Other processes may work on it at the same time. Batches of
            processes that have ended are trained first.
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
    with study.explained():
        while (num_new := _run_batch(study, judge, num_trials, batch_size)) is not None:
            for _ in range(num_new):
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
        categories = {name: CategoricalDistribution(choices) for name, choices in self.shapes.items()}
        self.ranges = settings.ranges
        ranges = {name: FloatDistribution(low, high, log=is_log) for name, (low, high, is_log) in self.ranges.items()}
        self.distributions: dict[str, BaseDistribution] = categories | ranges

    def runs(self, configs: Sequence[NodeConfig], num_splits: int | None = None) -> list[list[NodeRun]]:
        """Return the runs of each configuration on the first `num_splits` splits, by default on all."""
        splits = range(self._dataset.num_splits if num_splits is None else num_splits)
        try:
            runs = self._train(self._dataset, configs, splits, seed=self.settings.seed, placement=self._placement)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"Expected memory for {len(configs)} x {len(splits)} trainings, got too little. Lower ",
                Argument("batch_size", option="batch"),
                ".",
            ) from error
        return [runs[start : start + len(splits)] for start in range(0, len(runs), len(splits))]


def _run_batch(study: StoredStudy, judge: _Judge, num_trials: int, batch_size: int) -> int | None:
    """Train a batch: one that was interrupted, or a new one.

    Returns:
        The number of trials that were finished. None if there was nothing to train.
    """
    batch = take_over(study, batch_size)
    try:
        _draw_batch(study, batch, judge, num_trials, batch_size)
        if not batch:
            return None
        finished = {trial.number for trial in study.get_trials(deepcopy=False, states=FINISHED)}
        _train_batch(study, batch, judge)
        return sum(trial.number not in finished for trial in batch)
    except BaseException as error:
        if isinstance(error, TrainingError) and len(batch) == 1:
            # It cannot be trained here, and would be taken over forever.
            study.tell(batch[0], state=TrialState.FAIL, skip_if_finished=True)
        give_back(study, batch)
        raise


def _draw_batch(study: StoredStudy, batch: list[Trial], judge: _Judge, num_trials: int, batch_size: int) -> None:
    """Fill the batch with trials, all of the shape that the first of them draws."""
    for trial in batch:  # the last trial of an interrupted batch may have none of its settings, or some of them
        _draw(study, trial, judge, batch[0])
    while (new := ask_next(study, batch, num_trials, batch_size)) is not None:
        batch.append(new)
        _draw(study, new, judge, batch[0])


def _draw(study: StoredStudy, trial: Trial, judge: _Judge, first: Trial) -> None:
    """Choose the settings of a trial: at random in the first trials, then near the better ones (TPE)."""
    wanted = judge.distributions
    if wanted.keys() <= trial.params.keys():
        return
    shape = {name: first.params[name] for name in judge.shapes if trial is not first}
    # One sampler per trial: a sampler that every process seeds anew would try the same settings in each process.
    seed = int(np.random.SeedSequence([judge.settings.seed, trial.number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # The constant liar: running trials count as bad, so that a batch does not try the same settings many times.
        sampler = optuna.samplers.PartialFixedSampler(shape, optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        # All settings are drawn before the first is stored. If some are stored already, the others come out the same.
        drawn = _sample(sampler, study, trial.number, wanted)
        study.sampler = optuna.samplers.PartialFixedSampler(drawn, optuna.samplers.RandomSampler(seed))
    for name, choices in judge.shapes.items():
        trial.suggest_categorical(name, choices)
    for name, (low, high, is_logarithmic) in judge.ranges.items():
        trial.suggest_float(name, low, high, log=is_logarithmic)


def _sample(
    sampler: BaseSampler, study: StoredStudy, number: int, wanted: Mapping[str, BaseDistribution]
) -> dict[str, Any]:
    """Draw settings as Optuna does: those that it can draw together, then each of the others."""
    trial = study.get_trials(deepcopy=False)[number]
    together = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
    return {
        name: together[name] if name in together else sampler.sample_independent(study, trial, name, distribution)
        for name, distribution in wanted.items()
    }


def _train_batch(study: StoredStudy, batch: list[Trial], judge: _Judge) -> None:
    """Train the trials and finish them. Those that are finished already are trained with the others."""
    survivors = _halve(study, batch, judge)
    for trial, runs in zip(survivors, _run_trials(survivors, judge, judge.settings.num_steps), strict=True):
        # Finished before the batch was interrupted, or by a process that took it over from this one.
        with suppress(UpdateFinishedTrialError):
            _note(trial, runs)
            study.tell(trial, fmean(run.validation_accuracy for run in runs), skip_if_finished=True)


def _halve(study: StoredStudy, batch: list[Trial], judge: _Judge) -> list[Trial]:
    """Train all for a third of the steps. Return the better half; the others are finished."""
    num_steps = math.ceil(judge.settings.num_steps / 3)
    known = study.get_trials(deepcopy=False)
    scores = [known[trial.number].intermediate_values.get(num_steps) for trial in batch]
    if None in scores:
        for index, (trial, runs) in enumerate(zip(batch, _run_trials(batch, judge, num_steps), strict=True)):
            if scores[index] is None:
                scores[index] = fmean(run.validation_accuracy for run in runs)
                with suppress(UpdateFinishedTrialError):
                    _note(trial, runs)  # before the score, which says that the trial needs no further training here
                    trial.report(scores[index], num_steps)
    ranked = sorted(zip(scores, batch, strict=True), key=lambda pair: -pair[0])
    num_survivors = math.ceil(len(ranked) / 2)
    for _, trial in ranked[num_survivors:]:
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
    return [trial for _, trial in ranked[:num_survivors]]


def _run_trials(trials: Sequence[Trial], judge: _Judge, num_steps: int) -> list[list[NodeRun]]:
    configs = [replace(judge.settings.config(trial.params), num_steps=num_steps) for trial in trials]
    return judge.runs(configs, judge.settings.num_splits)


def _note(trial: Trial, runs: Sequence[NodeRun]) -> None:
    trial.set_user_attr(TEST, fmean(run.test_accuracy for run in runs))
    trial.set_user_attr("validation_accuracies", [run.validation_accuracy for run in runs])
    trial.set_user_attr("num_diverged", sum(run.is_diverged for run in runs))


def _train_finalists(study: StoredStudy, judge: _Judge, num_finalists: int) -> list[Finalist]:
    """Train the best trials on all splits. Results of an earlier run are read from the study."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise TdegnnError("Expected a trial that was trained to its end, got none. Ask for more trials.")
    best = sorted(complete, key=lambda trial: (-_value(trial), trial.number))[:num_finalists]
    configs = {trial.number: judge.settings.config(trial.params) for trial in best}
    known = _known_finals(study)
    by_shape: dict[tuple[Any, ...], list[int]] = {}
    for number, config in configs.items():
        if number not in known:
            by_shape.setdefault(config.shape, []).append(number)
    for numbers in by_shape.values():
        runs_of = zip(numbers, judge.runs([configs[number] for number in numbers]), strict=True)
        trained = {
            number: [[run.validation_accuracy for run in runs], [run.test_accuracy for run in runs]]
            for number, runs in runs_of
        }
        # One write: if it is interrupted, all of them are trained again, together as before.
        study.set_user_attr(f"{FINALS}{numbers[0]}", {str(number): pair for number, pair in trained.items()})
        known |= trained
    finalists = [Finalist(number, config, *known[number]) for number, config in configs.items()]
    return sorted(finalists, key=lambda finalist: -finalist.validation_accuracy)


def _known_finals(study: StoredStudy) -> dict[int, list[list[float]]]:
    """Return the validation and test accuracies of finalists that are trained, by number."""
    stored = study.user_attrs
    known = {int(key.removeprefix(FINAL)): pair for key, pair in stored.items() if key.startswith(FINAL)}
    for key, pairs in stored.items():
        if key.startswith(FINALS):
            known |= {int(number): pair for number, pair in pairs.items()}
    return known


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None  # a complete trial has one
    return float(trial.value)
