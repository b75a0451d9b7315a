"""Optuna studies in a file or a database, which several processes may share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import Trial, TrialState

from tdegnn.errors import Argument, InputError
from tdegnn.experiments.databases import StudyDatabase, is_database
from tdegnn.experiments.journal import StudyFile

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
SETTINGS = "settings"


@runtime_checkable
class Place(Protocol):
    """Where a study is stored."""

    def open(self) -> BaseStorage:
        """Return Optuna's view of it."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from taking trials."""

    def now(self) -> float:
        """Return the time in seconds, on a clock that all processes of the study share as far as possible."""

    def explained(self) -> AbstractContextManager[None]:
        """Turn errors of the storage into an `InputError`."""


@runtime_checkable
class Recorded(Protocol):
    """The settings of a sweep: those of `search_space.py`, or of `forecaster_space.py`."""

    def to_record(self) -> dict[str, Any]:
        """Return the settings as a study stores them."""


class StoredStudy(optuna.Study):  # type: ignore[misc]
    """A study, and where it is stored.

    Args:
        name: Name of the study. It is created if it does not exist.
        place: Where it is stored.
    """

    def __init__(self, name: str, place: Place) -> None:
        self._place, self._opened = place, place.open()
        optuna.create_study(storage=self._opened, study_name=name, direction="maximize", load_if_exists=True)
        super().__init__(name, self._opened)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from taking trials."""
        return self._place.lock()

    def now(self) -> float:
        """Return the time in seconds, on the clock of the storage."""
        return self._place.now()

    def explained(self) -> AbstractContextManager[None]:
        """Turn errors of the storage into an `InputError`."""
        return self._place.explained()

    def leave_thread(self) -> None:
        """Close the connection of a thread that ends."""
        if isinstance(self._opened, RDBStorage):
            self._opened.remove_session()

    def close(self) -> None:
        """Close the connections to a database."""
        if isinstance(self._opened, RDBStorage):
            self._opened.remove_session()
            self._opened.engine.dispose()

    def open_trial(self, number: int) -> Trial:
        """Return a trial of the study, to which can be written if it is running."""
        study_id = self._opened.get_study_id_from_name(self.study_name)
        return Trial(self, self._opened.get_trial_id_from_study_id_trial_number(study_id, number))


def open_study(storage: str | Path, name: str, dataset_name: str, settings: Recorded) -> StoredStudy:
    """Open a study: a new one, or that of an earlier run or of another process.

    Args:
        storage: A file, or the URL of a database (`postgresql://`, `sqlite://`, `mysql://`).
        name: Name of the study in it.
        dataset_name: The dataset for which settings are searched.
        settings: The settings of the sweep. It is an error if the study was started with others, because the results
            could not be compared.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place = place_of(str(storage))
    asked = {"dataset": dataset_name} | settings.to_record()
    # Under the lock, because of two processes that create the tables of a database one would fail.
    with place.explained(), place.lock():
        study = StoredStudy(name, place)
        known: dict[str, Any] | None = study.user_attrs.get(SETTINGS)
        if known is None:
            study.set_user_attr(SETTINGS, asked)
    if known is not None and known != asked:
        study.close()
        different = [key for key in known | asked if known.get(key) != asked.get(key)]
        raise InputError(
            f"Expected the settings study {name!r} was started with, "
            f"{', '.join(f'{key} = {known.get(key)}' for key in different)}, "
            f"got {', '.join(f'{key} = {asked.get(key)}' for key in different)}. Use those, or another ",
            Argument("name", option="study"),
            ".",
        )
    return study


def place_of(storage: str) -> Place:
    """Return where a study is stored: in a file, or in a database if `storage` is the URL of one."""
    return StudyDatabase(storage) if is_database(storage) else StudyFile(Path(storage))


def count_finished(study: StoredStudy) -> int:
    """Count the trials that were evaluated, including those that halving stopped."""
    with study.explained():
        return len(study.get_trials(deepcopy=False, states=FINISHED))


def count_running(study: StoredStudy) -> int:
    """Count the trials that are running, here or in other processes."""
    with study.explained():
        return len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
