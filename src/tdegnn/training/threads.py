"""How many CPU threads to compute with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one CPU thread meanwhile.

    For small problems: more threads gain nothing there, wait for each other for minutes where another program uses the
    machine too, and add in an order that depends on their number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
