"""Arrays in files that are mapped into memory: what was read can be let go of again."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def let_go(array: Any) -> None:
    """Count what was read of a mapped file no longer as memory of this process.

    The system keeps it as long as nobody needs the memory, so to read it again is quick. An array that is in memory, or
    that could be written to, stays as it is.
    """
    only_reads = False
    while isinstance(array, np.ndarray):
        only_reads = only_reads or (isinstance(array, np.memmap) and array.mode == "r")
        array = array.base
    # Windows does not have it.
    if only_reads and isinstance(array, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)
