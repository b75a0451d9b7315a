"""Batches of trials, which are trained together by one process at a time.

A trial knows its batch and the process that works on it. That process says now and then that it is alive
(`Heartbeat`). If it ends before the trial is finished, for whatever reason, the next process takes the batch over: the
trials keep their numbers and settings, so that the study becomes what it would have been without the interruption.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from threading import Event, Thread
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from tdegnn.errors import InputError
from tdegnn.experiments.studies import FINISHED, StoredStudy

# The number of the first trial of the batch, and the number of trials that the batch should have.
BATCH = "batch"
# Machine, process, and when it was last alive, on the clock of the storage. None if it gave the trial back.
WORKER = "worker"
# Seconds from one sign of life to the next, and after which a silent process counts as gone. On its own machine, others
# know sooner. A process that is taken for dead and is not costs some work: no trial counts twice.
BEAT_EVERY, SILENT_AFTER = 20.0, 150.0
# Seconds after which a trial of an earlier version, which gave no sign of life, counts as interrupted.
LONGEST_TRIAL = 12 * 3600.0


def take_over(study: StoredStudy, batch_size: int) -> list[Trial]:
    """Return an interrupted batch, by number, with those of its trials that are finished. Empty if there is none.

    Args:
        study: The study.
        batch_size: The most trials to take. Of a larger batch, unfinished trials become a batch of their own.
    """
    with study.lock():
        trials, now = study.get_trials(deepcopy=False), study.now()
        batches: dict[int, list[FrozenTrial]] = {}
        for trial in trials:
            if trial.state is TrialState.RUNNING and _batch_of(trial) is None and _is_stale(trial, now):
                # Of an earlier version, which did not store the batch.
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            elif trial.state in (*FINISHED, TrialState.RUNNING) and (known := _batch_of(trial)) is not None:
                batches.setdefault(known[0], []).append(trial)
        for _, batch in sorted(batches.items()):
            running = [trial for trial in batch if trial.state is TrialState.RUNNING]
            if running and all(_is_stale(trial, now) for trial in running):
                is_whole = len(batch) <= batch_size
                return _claim(study, batch if is_whole else running[:batch_size], is_whole=is_whole)
    return []


def _claim(study: StoredStudy, batch: list[FrozenTrial], *, is_whole: bool) -> list[Trial]:
    claimed = [study.open_trial(trial.number) for trial in batch]
    for trial, known in zip(claimed, batch, strict=True):
        if known.state is TrialState.RUNNING:
            if not is_whole:
                trial.set_user_attr(BATCH, [claimed[0].number, len(claimed)])
            trial.set_user_attr(WORKER, _this_process(study))
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
        worker = _this_process(study)
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


class Heartbeat:
    """Says that this process works on a batch, from time to time, inside a `with` block.

    Args:
        study: The study.
        batch: The trials that are trained.
    """

    def __init__(self, study: StoredStudy, batch: Sequence[Trial]) -> None:
        self._study, self._batch, self._is_over = study, batch, Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._is_over.wait(BEAT_EVERY):
            # If the storage does not answer, the training goes on. It says so itself when it has something to write.
            with suppress(InputError), self._study.explained():
                self._beat_once()
        self._study.leave_thread()

    def _beat_once(self) -> None:
        """Write to one trial that is not finished: a batch is taken over only if all of its trials are silent."""
        for trial in self._batch:
            with suppress(UpdateFinishedTrialError):
                trial.set_user_attr(WORKER, _this_process(self._study))
                return


def _this_process(study: StoredStudy) -> list[Any]:
    return [_this_machine(), os.getpid(), study.now()]


@cache
def _this_machine() -> str:
    """Return the name of the machine, with that of the container if there is one: it counts processes by itself."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 (it is no path)
    return socket.gethostname()


def _batch_of(trial: FrozenTrial) -> tuple[int, int] | None:
    match trial.user_attrs.get(BATCH):
        case [int(first), int(size)]:
            return first, size
    return None


def _is_stale(trial: FrozenTrial, now: float) -> bool:
    """Return whether nobody works on a trial that is running, now on the clock of the storage."""
    match trial.user_attrs.get(WORKER):
        case [str(machine), int(process), *when]:
            # Earlier versions stored the name alone.
            if machine in (_this_machine(), socket.gethostname()) and not _is_alive(process):
                return True
            if when and isinstance(when[0], float):
                return now - when[0] > SILENT_AFTER
        case _ if _batch_of(trial) is not None:  # it was given back
            return True
    began = trial.datetime_start
    return began is None or now - began.timestamp() > LONGEST_TRIAL


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
