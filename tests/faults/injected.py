"""Faults at single file operations of this process: it is killed there, or the disk is full from there on.

Python's own functions that change files are counted, and so is every write of a file opened in Python. What a database
does in C is not counted: kills at random moments and small file systems are for that.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

# Operations that need space on the disk, and others that change what is on it.
GROWING = ("fsync", "mkdir", "symlink")
OTHERS = ("replace", "rename", "unlink", "remove", "rmdir", "truncate", "ftruncate", "link")


class FileOperations:
    """The file operations of this process.

    Attributes:
        count: Number of operations so far.
        num_growing: Number of those that need space on the disk.
    """

    def __init__(self, kill_at: int | None, full_from: int | None) -> None:
        self.count = self.num_growing = 0
        self._kill_at, self._full_from = kill_at, full_from

    def install(self) -> None:
        """Count the operations of this process from now on. It cannot be undone, so it is called in a forked child."""
        for name in (*GROWING, *OTHERS):
            setattr(os, name, self._counted(getattr(os, name), name in GROWING))
        os.open = self._counted_open(os.open)
        os.write = self._counted_write(os.write)
        builtins.open = io.open = _opener(self)

    def begin(self, *, is_growing: bool, half: Callable[[], int] | None = None) -> int | None:
        """Count an operation before it is done.

        Args:
            is_growing: Whether it needs space on the disk.
            half: Writes the first half, and returns the number of bytes. A kill and a full disk come in the middle.

        Returns:
            The number of bytes that still went to the disk, if this write is the one that fills it.
        """
        self.count += 1
        self.num_growing += is_growing
        if self.count == self._kill_at:
            if half is not None:
                half()
            _die()
        if is_growing and self._full_from is not None and self.num_growing >= self._full_from:
            written = half() if half is not None and self.num_growing == self._full_from else 0
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return written
        return None

    def _counted(self, function: Callable[..., Any], is_growing: bool) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.begin(is_growing=is_growing)
            return function(*arguments, **options)

        return counted

    def _counted_open(self, function: Callable[..., int]) -> Callable[..., int]:
        def counted(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                self.begin(is_growing=not os.path.lexists(path))
            return function(path, flags, *arguments, **options)

        return counted

    def _counted_write(self, function: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def counted(descriptor: int, data: Any) -> int:
            written = self.begin(is_growing=True, half=lambda: function(descriptor, memoryview(data)[: len(data) // 2]))
            return function(descriptor, data) if written is None else written

        return counted


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _opener(operations: FileOperations) -> Callable[..., Any]:
    """Return a function that opens files as `open` does, and counts what is written to them."""
    plain_open = io.open

    class CountedFile(io.FileIO):
        def write(self, data: Any) -> int:
            whole = super().write
            written = operations.begin(is_growing=True, half=lambda: whole(memoryview(data)[: len(data) // 2]) or 0)
            return whole(data) if written is None else written

        def truncate(self, size: int | None = None) -> int:
            operations.begin(is_growing=False)
            return super().truncate(size)

    def counting_open(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not set(mode) & set("wax+"):
            return plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int) and ("r" not in mode):
            operations.begin(is_growing=not os.path.lexists(file))
        raw = CountedFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        if "b" in mode:
            return buffer
        return io.TextIOWrapper(buffer, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)

    return counting_open
