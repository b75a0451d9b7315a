"""Disks that become full. A command must say so in one line and, given space, end as if undisturbed.

Three kinds of full disk: a file operation that finds no space left, a limit on the size of a file, and a small file
system, which needs root.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.faults.nursery import Fault, nursery
from tests.faults.works import WORKS, check_one_line, compare, contents, run_well, scratch, undisturbed, with_fault

# What is written, by the name of the work that writes it.
KINDS = {"run folder": "fit", "journal": "sweep, journal", "sqlite": "sweep, sqlite"}
PAGE = 4096


def fill_and_compare(kind: str, seed: int, folder: Path) -> str:
    """Let a work find a full disk, give it space, let it finish, and compare its result with an undisturbed one.

    Args:
        kind: A name in `KINDS`.
        seed: Chooses the kind of full disk in turn, and the point.
        folder: An empty folder.

    Returns:
        "same".
    """
    methods = available_methods(kind)
    return methods[seed % len(methods)](KINDS[kind], random.Random(f"{kind} {seed}"), folder)


def available_methods(kind: str) -> list[Callable[[str, random.Random, Path], str]]:
    """Return the kinds of full disk that can be tried here. A database writes in C, so no operation can be chosen."""
    methods = [_large_file] if kind == "sqlite" else [_operation, _large_file]
    return [*methods, _small_disk] if can_mount() else methods


@cache
def can_mount() -> bool:
    """Return whether this process may mount a file system."""
    place = scratch() / "mount"
    place.mkdir()
    try:
        with _mounted(place, 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _operation(work: str, draw: random.Random, folder: Path) -> str:
    return _try(work, folder, Fault(full_from=draw.randint(1, undisturbed(work).num_growing)))


def _large_file(work: str, draw: random.Random, folder: Path) -> str:
    largest = max(map(len, contents(undisturbed(work).folder).values()))
    return _try(work, folder, Fault(largest_file=draw.randint(0, largest - 1)))


def _small_disk(work: str, draw: random.Random, folder: Path) -> str:
    sizes = [len(content) for content in contents(undisturbed(work).folder).values()]
    # What a file takes is a multiple of a page. One page less than that is too little.
    num_pages = draw.randint(1, sum(-(-size // PAGE) for size in sizes) - 1)
    with _mounted(folder, num_pages):
        return _try(work, folder, Fault())


def _try(work: str, folder: Path, fault: Fault) -> str:
    (outcome,) = nursery().run(with_fault(WORKS[work].begin(folder), fault))
    check_one_line(outcome)
    _make_space(folder)
    run_well(WORKS[work].finish(folder))
    compare(WORKS[work].result(folder), undisturbed(work).result)
    return "same"


@contextmanager
def _mounted(folder: Path, num_pages: int) -> Iterator[None]:
    """Mount a small file system."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        raise PermissionError("only root can mount")
    options = f"size={num_pages * PAGE}"
    subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def _make_space(folder: Path) -> None:
    if folder.is_mount():
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True, capture_output=True)
