"""A reader with every kind of failure, to see that the fuzz runner notices them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def try_one(seed: int, folder: Path) -> str:
    """Fail in the way of the seed."""
    assert folder.is_dir()
    if seed == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 3:
        return str(1 / 0)
    if seed == 4:
        return str(len(bytearray(4 * 2**30)))
    if seed == 5:
        time.sleep(60)
    return "refused" if seed == 1 else "read"
