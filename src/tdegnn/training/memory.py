"""Memory that is kept: on a CPU, a fifth of a small training step went into asking the system for memory again."""

from __future__ import annotations

from functools import cache

import torch

# The C library of Linux gives blocks larger than a limit back to the system as soon as they are free. The limit follows
# the largest block that was freed, up to 32 MiB: a little less than that, once, and all smaller ones are kept.
LARGEST_KEPT = 31 * 2**20


@cache
def keep_freed_memory() -> None:
    """Let the process keep the memory it frees, for the next tensor. Done once; harmless where it does nothing."""
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)
