"""A study in a file: one line of JSON per change, as Optuna writes them.

Any number of processes may append to the file, each under the lock of the file. Only complete lines are read. A line
that a full disk or a killed process left incomplete is removed before the next one is appended, so nothing else of
the study is lost. Journals that Optuna's own `JournalFileBackend` wrote can be continued.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend

from tdegnn.errors import InputError
from tdegnn.files import JSON_COST, append_whole, check_memory, explained, finish_last_line, locked

# Bytes of memory that a byte of a journal takes: Optuna keeps the trials, not the lines.
COST = 4


class StudyFile:
    """The file of a study.

    Args:
        path: The file. It is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> JournalStorage:
        """Return Optuna's view of the file.

        Raises:
            InputError: The file is of another kind, or is damaged.
        """
        lines = _JournalLines(self._path)
        if self._path.exists() and not self._path.is_file():  # reading a pipe would wait forever
            raise lines.damage(1)
        try:
            return JournalStorage(lines)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
            # Optuna applies lines without looking at them.
            if isinstance(error, InputError):
                raise
            raise lines.damage(lines.num_read) from error

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from taking trials. They can still read and append."""
        # Not the lock of the file itself, which every appended line takes.
        return locked(self._path.with_name(f"trials-{self._path.name}"))

    def now(self) -> float:
        """Return the time in seconds, on the clock of this machine."""
        return time.time()

    def explained(self) -> AbstractContextManager[None]:
        """Turn errors of the storage into an `InputError`. Here `_JournalLines` does."""
        return nullcontext()


class _JournalLines(BaseJournalBackend):  # type: ignore[misc]
    """The lines of a journal.

    Attributes:
        num_read: Number of lines that were read.
    """

    def __init__(self, path: Path) -> None:
        self.num_read = 0
        self._path, self._num_bytes_read = path, 0

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the complete lines from this one on."""
        if log_number_from != self.num_read:  # another reader: begin with the first line
            self.num_read = self._num_bytes_read = 0
        for line in self._new_lines():
            record = _parse(line)
            if record is None:
                raise self.damage(self.num_read + 1)
            # Before the line is used: Optuna may stop at a line, and then continues after it.
            self.num_read += 1
            self._num_bytes_read += len(line)
            if self.num_read > log_number_from:
                yield record

    def _new_lines(self) -> Iterator[bytes]:
        """Yield the complete lines that were not read yet."""
        *complete, last = self._new_bytes().split(b"\n")
        for line in complete:
            yield line + b"\n"
        # A line that is being written, or was never finished. Every record begins with a brace.
        if last and not last.startswith(b"{"):
            raise self.damage(self.num_read + 1)

    def _new_bytes(self) -> bytes:
        try:
            size = self._path.stat().st_size
            check_memory((size - self._num_bytes_read) * COST, self._path.name)
            with self._path.open("rb") as stream:
                stream.seek(self._num_bytes_read)
                return stream.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(
                f"Expected a file that can be read, got {self._path} ({error.strerror}). Use another file."
            ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines, all of them or none."""
        lines = "".join(f"{json.dumps(log, separators=(',', ':'))}\n" for log in logs)
        with locked(self._path), explained(self._path):
            finish_last_line(self._path)
            append_whole(self._path, lines.encode())

    def damage(self, number: int) -> InputError:
        """Return the error for a line that is not one of a study."""
        if number == 1:
            return InputError(f"Expected {self._path} to hold a study, got another kind of file. Use another file.")
        return InputError(
            f"Expected lines of a study in {self._path}, got something else in line {number}. Restore the file from a "
            "copy, or use another file."
        )


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the change that a line describes. None if it describes none."""
    check_memory(len(line) * JSON_COST, "a line of a journal")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
