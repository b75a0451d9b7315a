"""What can be said of a user's file before it is read. Needs nothing that takes long to import."""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tdegnn.errors import InputError

MOST_NAMES = 1_000  # of a folder are compared with one that is not there


def check_file(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be read and is not empty."""
    path = Path(source)
    if path.is_dir():
        raise InputError(f"Expected a file, got the folder {path}. Name a file in it.")
    if not path.exists():
        raise InputError(f"Expected a file at {path}, there is none. {_hint(path)}")
    if not os.access(path, os.R_OK):
        raise InputError(f"Expected to be allowed to read {path}, but permission is denied. Change its permissions.")
    if not path.is_file():
        raise InputError(f"Expected a file, got {path}, which is a pipe or a device. Write it to a file first.")
    if path.stat().st_size == 0:
        raise InputError(f"Expected a table in {path.name}, got an empty file.")
    return path


def is_parquet(path: Path) -> bool:
    """Whether a file is in Parquet format, whatever its name."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _hint(path: Path) -> str:
    near = find_similar(path)
    return "Check the path." if near is None else f"Did you mean {near}?"


def find_similar(path: Path) -> Path | None:
    """A file beside it that is spelled nearly so, or the same but for upper case or the ending; None without one."""
    by_name: dict[str, str] = {}
    with suppress(OSError):
        for other in islice(path.parent.iterdir(), MOST_NAMES):
            if other.is_file():
                by_name[other.name.lower()] = other.name
                by_name.setdefault(other.stem.lower(), other.name)
    near = difflib.get_close_matches(path.name.lower(), by_name, n=1, cutoff=0.8)
    return path.with_name(by_name[near[0]]) if near else None
