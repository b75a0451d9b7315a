"""Batches of trials, which are trained together by one process at a time.

A trial knows its batch and the process that works on it. If that process ends before the trial is finished, for
whatever reason, the next process takes the batch over: the trials keep their numbers and settings, so that the study
becomes what it would have been without the interruption.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from tdegnn.errors import InputError
from tdegnn.experiments.studies import FINISHED, StoredStudy

# The number of the first trial of the batch, and the number of trials that the batch should have.
BATCH = "batch"
# Machine, process, and the time in seconds when it took the trial. None if it gave the trial back.
WORKER = "worker"
# A trial that has run for longer was interrupted. On this machine we know sooner: its process is gone.
LONGEST_TRIAL = timedelta(hours=12)


def take_over(study: StoredStudy, batch_size: int) -> list[Trial]:
    """Return an interrupted batch, by number, with those of its trials that are finished. Empty if there is none.

    Args:
        study: The study.
        batch_size: The most trials to take. Of a larger batch, unfinished trials become a batch of their own.
    """
    with study.lock():
        trials = study.get_trials(deepcopy=False)
        batches: dict[int, list[FrozenTrial]] = {}
        for trial in trials:
            if trial.state is TrialState.RUNNING and _batch_of(trial) is None and _is_stale(trial):
                # Of an earlier version, which did not store the batch.
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            elif trial.state in (*FINISHED, TrialState.RUNNING) and (known := _batch_of(trial)) is not None:
                batches.setdefault(known[0], []).append(trial)
        for _, batch in sorted(batches.items()):
            running = [trial for trial in batch if trial.state is TrialState.RUNNING]
            if running and all(map(_is_stale, running)):
                is_whole = len(batch) <= batch_size
                return _claim(study, batch if is_whole else running[:batch_size], is_whole=is_whole)
    return []


def _claim(study: StoredStudy, batch: list[FrozenTrial], *, is_whole: bool) -> list[Trial]:
    claimed = [study.open_trial(trial.number) for trial in batch]
    for trial, known in zip(claimed, batch, strict=True):
        if known.state is TrialState.RUNNING:
            if not is_whole:
                trial.set_user_attr(BATCH, [claimed[0].number, len(claimed)])
            trial.set_user_attr(WORKER, _this_process())
    return claimed


def ask_next(study: StoredStudy, batch: list[Trial], num_trials: int, batch_size: int) -> Trial | None:
    """Return a new trial of the batch. None if the batch is full, or the study has `num_trials`.

    Args:
        study: The study.
        batch: The trials of the batch. Empty for a new batch.
        num_trials: Number of trials of the study, including those that are running.
        batch_size: Number of trials of a new batch.
    """
    with study.lock():
        trials = study.get_trials(deepcopy=False)
        num_left = num_trials - sum(trial.state in (*FINISHED, TrialState.RUNNING) for trial in trials)
        first, size = batch[0].user_attrs[BATCH] if batch else (len(trials), min(batch_size, num_left))
        # Trials are finished only when all trials of their batch have been drawn.
        is_drawn = any(trials[trial.number].state in FINISHED for trial in batch)
        if num_left <= 0 or len(batch) >= size or is_drawn:
            return None
        # One write: there is never a trial without a batch and a process.
        worker = _this_process()
        study.add_trial(create_trial(state=TrialState.RUNNING, user_attrs={BATCH: [first, size], WORKER: worker}))
        added = [trial for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get(WORKER) == worker]
        return study.open_trial(added[-1].number)


def give_back(study: StoredStudy, batch: list[Trial]) -> None:
    """Let other processes have the unfinished trials of a batch, if the storage can still be written."""
    # Without this they find out themselves, when this process has ended.
    with suppress(InputError), study.explained():
        for trial in batch:
            with suppress(UpdateFinishedTrialError):  # it is finished
                trial.set_user_attr(WORKER, None)


def _this_process() -> list[Any]:
    return [socket.gethostname(), os.getpid(), time.time()]


def _batch_of(trial: FrozenTrial) -> tuple[int, int] | None:
    match trial.user_attrs.get(BATCH):
        case [int(first), int(size)]:
            return first, size
    return None


def _is_stale(trial: FrozenTrial) -> bool:
    """Return whether nobody works on a trial that is running."""
    began = trial.datetime_start
    match trial.user_attrs.get(WORKER):
        case [str(host), int(process), *when]:
            if host == socket.gethostname() and not _is_alive(process):
                return True
            if when and isinstance(when[0], float):  # earlier versions did not store it
                began = datetime.fromtimestamp(when[0])
        case _ if _batch_of(trial) is not None:  # it was given back
            return True
    return began is None or datetime.now() - began > LONGEST_TRIAL


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # there, signal 0 is Ctrl-C: only the time tells
        return process != os.getpid()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process exists and belongs to another user
        return True
    return process != os.getpid()  # this process runs no trial when it checks
