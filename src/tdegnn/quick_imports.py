"""Imports without the collector of garbage.

What an import makes stays for good. The collector would still look through all of it again and again while torch is
imported, for a sixth of the time that loading a model and one prediction take.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Inside the `with` block, for imports, nothing is collected. Afterwards it is as before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
