"""Optuna studies in a file or a database, which several processes may share, and the state of their trials."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import datetime, timedelta
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from tdegnn.errors import InputError
from tdegnn.experiments.search_space import SweepSettings
from tdegnn.files import explained

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
# A trial that has run for longer was interrupted. On this machine we know sooner: its process is gone.
LONGEST_TRIAL = timedelta(hours=12)
SETTINGS, WORKER = "settings", "worker"
DATABASES = ("sqlite", "postgresql", "mysql")


def open_study(storage: str | Path, name: str, dataset_name: str, settings: SweepSettings) -> optuna.Study:
    """Open a study: a new one, or that of an earlier run or of another process.

    Args:
        storage: A file, or the URL of a database (`postgresql://`, `sqlite://`, `mysql://`).
        name: Name of the study in it.
        dataset_name: The dataset for which settings are searched.
        settings: The settings of the sweep. It is an error if the study was started with others, because the results
            could not be compared.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = _create_study(str(storage), name)
    asked = {"dataset": dataset_name} | settings.to_record()
    known = study.user_attrs.get(SETTINGS)
    if known is None:
        study.set_user_attr(SETTINGS, asked)
    elif known != asked:
        different = [key for key in known | asked if known.get(key) != asked.get(key)]
        raise InputError(
            f"Expected the settings study {name!r} was started with, "
            f"{', '.join(f'{key} = {known.get(key)}' for key in different)}, "
            f"got {', '.join(f'{key} = {asked.get(key)}' for key in different)}. Use those, or another --study."
        )
    return study


def ask_trial(study: optuna.Study, num_trials: int) -> Trial | None:
    """Ask for a new trial. None if the study already has `num_trials`, including those that are running."""
    if _count_before(study, None) >= num_trials:
        return None
    trial = study.ask()
    trial.set_user_attr(WORKER, [socket.gethostname(), os.getpid()])
    # Processes that ask at the same moment are told apart by the unique numbers of their trials.
    if _count_before(study, trial.number) >= num_trials:
        study.tell(trial, state=TrialState.FAIL)
        return None
    return trial


def count_finished(study: optuna.Study) -> int:
    """Count the trials that were evaluated, including those that halving stopped."""
    return len(study.get_trials(deepcopy=False, states=FINISHED))


def count_running(study: optuna.Study) -> int:
    """Count the trials that are running, here or in other processes."""
    return len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))


def fail_stale_trials(study: optuna.Study) -> int:
    """Mark trials whose process has ended as failed. Return their number."""
    stale = [trial for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)) if _is_stale(trial)]
    for trial in stale:
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
    return len(stale)


def _count_before(study: optuna.Study, number: int | None) -> int:
    """Count the trials that are finished or running; if a number is given, only those with lower numbers."""
    counted = study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING))
    return sum(number is None or trial.number < number for trial in counted)


def _is_stale(trial: FrozenTrial) -> bool:
    host, process = trial.user_attrs.get(WORKER, (None, None))
    if host == socket.gethostname() and not _is_alive(process):
        return True
    # A trial without a worker was asked for at this very moment, or its process ended at that moment.
    return trial.datetime_start is None or datetime.now() - trial.datetime_start > LONGEST_TRIAL


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process exists and belongs to another user
        return True
    return process != os.getpid()  # this process runs no trial when it checks


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
