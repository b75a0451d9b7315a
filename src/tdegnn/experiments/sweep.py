"""Search for the settings of a system on a dataset: an Optuna study whose trials are trained together.

The trials of a batch (`trials.py`) have one shape and differ in everything else, so that trials x splits are one
training (`train_together`). Everything is chosen by the mean validation accuracy over splits; test accuracy is recorded
but chooses nothing. The best few are trained on all splits. The search space is in `search_space.py`, the storage of
trials in `studies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Protocol, runtime_checkable

import torch

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import Argument, TrainingError, check_count
from tdegnn.experiments.node_systems import NodeRun, train_together
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.experiments.studies import StoredStudy, count_finished, count_running
from tdegnn.experiments.trials import Verdict, best_trials, make_distributions, run_trials
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
        finalists: The best few, best first by validation. Empty while other processes are running trials, and if they
            are left to another process.
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
    num_finalists: int | None = 4,
    is_waiting: bool = False,
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
        num_finalists: Number of trials that are then trained on all splits of the dataset. If None, none are: another
            process does that.
        is_waiting: Whether to stay until the trials of other processes are finished, and to take over those of a
            process that ends before. Default: False.
        placement: Where to compute. Default: on the CPU.
        train: Trains the configurations. Tests pass a replacement.
        on_trial: Called after each trial, for a progress bar.
    """
    check_count(num_trials=num_trials, batch_size=batch_size)
    if num_finalists is not None:
        check_count(num_finalists=num_finalists)
    settings.check_splits(dataset)
    judge = _Judge(dataset, settings, placement, train)
    with study.explained():
        run_trials(study, judge, num_trials, batch_size, on_trial, is_waiting=is_waiting)
        num_finished, num_running = count_finished(study), count_running(study)
        finalists = [] if num_running or num_finalists is None else _train_finalists(study, judge, num_finalists)
    return SweepResult(num_finished, num_running, finalists)


class _Judge:
    """Trains configurations, and scores each of them."""

    def __init__(
        self, dataset: NodeDataset, settings: SweepSettings, placement: Placement | None, train: Train
    ) -> None:
        self._dataset, self.settings, self._placement, self._train = dataset, settings, placement, train
        self.seed, self.num_steps = settings.seed, settings.num_steps
        shapes = settings.shapes(dataset)
        self.distributions, self.shared = make_distributions(shapes, settings.ranges), list(shapes)

    def judge(self, params: Sequence[Mapping[str, Any]], num_steps: int) -> list[Verdict]:
        """Return the mean validation accuracy of each trial over the splits of the sweep."""
        configs = [replace(self.settings.config(each), num_steps=num_steps) for each in params]
        return [_verdict(runs) for runs in self.runs(configs, self.settings.num_splits)]

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


def _verdict(runs: Sequence[NodeRun]) -> Verdict:
    accuracies = [run.validation_accuracy for run in runs]
    facts = {
        TEST: fmean(run.test_accuracy for run in runs),
        "validation_accuracies": accuracies,
        "num_diverged": sum(run.is_diverged for run in runs),
    }
    return Verdict(fmean(accuracies), facts)


def _train_finalists(study: StoredStudy, judge: _Judge, num_finalists: int) -> list[Finalist]:
    """Train the best trials on all splits. Results of an earlier run are read from the study."""
    configs = {trial.number: judge.settings.config(trial.params) for trial in best_trials(study, num_finalists)}
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
