"""Trials of an Optuna study, in batches: the settings that each draws, halving, and the best of them.

A `Judge` says what can be drawn and how good it is: `sweep.py` has one for nodes, `forecaster_sweep.py` one for series.
Halving saves a sixth of the steps: all trials of a batch train for a third of the steps, then the better half from the
start for all of them.

A study that is interrupted and continued with the same arguments gives the same trials as an uninterrupted one: the
settings of a trial depend on its number and on the finished trials, and an interrupted batch is trained again.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from tdegnn.errors import TdegnnError, TrainingError
from tdegnn.experiments.batches import Heartbeat, ask_next, give_back, take_over
from tdegnn.experiments.drawn_configs import Range
from tdegnn.experiments.studies import FINISHED, StoredStudy, count_running

# Seconds from one look at the trials of other processes to the next.
LOOK_EVERY = 2.0


@dataclass(frozen=True)
class Verdict:
    """How good a trial is.

    Attributes:
        score: On validation. Higher is better. It chooses.
        facts: What else is stored with the trial, by name. It chooses nothing.
    """

    score: float
    facts: Mapping[str, Any]


@runtime_checkable
class Judge(Protocol):
    """Says what trials can draw, trains them, and scores them.

    Attributes:
        seed: Seed of what is drawn.
        num_steps: Optimizer steps of a trial that is not stopped by halving.
    """

    seed: int
    num_steps: int

    @property
    def distributions(self) -> Mapping[str, BaseDistribution]:
        """What a trial draws, by name."""

    @property
    def shared(self) -> Collection[str]:
        """Names of what all trials of a batch have in common, because they are trained as one."""

    def judge(self, params: Sequence[Mapping[str, Any]], num_steps: int) -> list[Verdict]:
        """Return a verdict for each trial of a batch, after a training of so many steps."""


def make_distributions(
    choices: Mapping[str, Sequence[Any]], ranges: Mapping[str, Range]
) -> dict[str, BaseDistribution]:
    """Return what a trial draws: one of some choices, or a number in a range."""
    categories = {name: CategoricalDistribution(each) for name, each in choices.items()}
    numbers = {name: FloatDistribution(low, high, log=is_log) for name, (low, high, is_log) in ranges.items()}
    return categories | numbers


def run_trials(
    study: StoredStudy,
    judge: Judge,
    num_trials: int,
    batch_size: int,
    on_trial: Callable[[], object],
    *,
    is_waiting: bool = False,
) -> None:
    """Run trials until the study has `num_trials`, first those of processes that have ended.

    Args:
        study: The study.
        judge: Trains and scores them.
        num_trials: Number of trials of the study, including those of earlier runs and other processes.
        batch_size: Number of trials of a batch.
        on_trial: Called after each trial.
        is_waiting: Whether to stay until the trials of other processes are finished, and to take over those of a
            process that ends before. Default: False.
    """
    while True:
        num_new = _run_batch(study, judge, num_trials, batch_size)
        if num_new is None:
            if not is_waiting or not count_running(study):
                return
            time.sleep(LOOK_EVERY)
        for _ in range(num_new or 0):
            on_trial()


def best_trials(study: StoredStudy, num_best: int) -> list[FrozenTrial]:
    """Return the trials with the highest scores, best first."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise TdegnnError("Expected a trial that was trained to its end, got none. Ask for more trials.")
    return sorted(complete, key=lambda trial: (-_value(trial), trial.number))[:num_best]


def _run_batch(study: StoredStudy, judge: Judge, num_trials: int, batch_size: int) -> int | None:
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
        with Heartbeat(study, batch):
            _train_batch(study, batch, judge)
        return sum(trial.number not in finished for trial in batch)
    except BaseException as error:
        if isinstance(error, TrainingError) and len(batch) == 1:
            # It cannot be trained here, and would be taken over forever.
            study.tell(batch[0], state=TrialState.FAIL, skip_if_finished=True)
        give_back(study, batch)
        raise


def _draw_batch(study: StoredStudy, batch: list[Trial], judge: Judge, num_trials: int, batch_size: int) -> None:
    """Fill the batch with trials. They share what the judge says with the first of them."""
    for trial in batch:  # the last trial of an interrupted batch may have none of its settings, or some of them
        _draw(study, trial, judge, batch[0])
    while (new := ask_next(study, batch, num_trials, batch_size)) is not None:
        batch.append(new)
        _draw(study, new, judge, batch[0])


def _draw(study: StoredStudy, trial: Trial, judge: Judge, first: Trial) -> None:
    """Choose the settings of a trial: at random in the first trials, then near the better ones (TPE)."""
    wanted = judge.distributions
    if wanted.keys() <= trial.params.keys():
        return
    shared = {name: first.params[name] for name in judge.shared if trial is not first}
    # One sampler per trial: a sampler that every process seeds anew would try the same settings in each process.
    seed = int(np.random.SeedSequence([judge.seed, trial.number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # The constant liar: running trials count as bad, so that a batch does not try the same settings many times.
        sampler = optuna.samplers.PartialFixedSampler(shared, optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        # All settings are drawn before the first is stored. If some are stored already, the others come out the same.
        drawn = _sample(sampler, study, trial.number, wanted)
        study.sampler = optuna.samplers.PartialFixedSampler(drawn, optuna.samplers.RandomSampler(seed))
    for name, distribution in wanted.items():
        if isinstance(distribution, CategoricalDistribution):
            trial.suggest_categorical(name, distribution.choices)
        else:
            trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)


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


def _train_batch(study: StoredStudy, batch: list[Trial], judge: Judge) -> None:
    """Train the trials and finish them. Those that are finished already are trained with the others."""
    survivors = _halve(study, batch, judge)
    for trial, verdict in zip(survivors, judge.judge(_params(survivors), judge.num_steps), strict=True):
        # Finished before the batch was interrupted, or by a process that took it over from this one.
        with suppress(UpdateFinishedTrialError):
            _note(trial, verdict)
            study.tell(trial, verdict.score, skip_if_finished=True)


def _halve(study: StoredStudy, batch: list[Trial], judge: Judge) -> list[Trial]:
    """Train all for a third of the steps. Return the better half; the others are finished."""
    num_steps = math.ceil(judge.num_steps / 3)
    known = study.get_trials(deepcopy=False)
    scores = [known[trial.number].intermediate_values.get(num_steps) for trial in batch]
    if None in scores:
        for index, (trial, verdict) in enumerate(zip(batch, judge.judge(_params(batch), num_steps), strict=True)):
            if scores[index] is None:
                scores[index] = verdict.score
                with suppress(UpdateFinishedTrialError):
                    _note(trial, verdict)  # before the score, which says that the trial needs no further training here
                    trial.report(scores[index], num_steps)
    ranked = sorted(zip(scores, batch, strict=True), key=lambda pair: -pair[0])
    num_survivors = math.ceil(len(ranked) / 2)
    for _, trial in ranked[num_survivors:]:
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
    return [trial for _, trial in ranked[:num_survivors]]


def _params(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    return [trial.params for trial in trials]


def _note(trial: Trial, verdict: Verdict) -> None:
    for name, fact in verdict.facts.items():
        trial.set_user_attr(name, fact)


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None  # a complete trial has one
    return float(trial.value)
