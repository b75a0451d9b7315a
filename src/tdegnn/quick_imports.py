"""Imports without the collector of garbage.

What an import makes stays for good. The collector would still look through all of it again and again while torch is
imported, for a sixth of the time that loading a model and one prediction take, and once more when it goes on.
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
            _call_all_objects_old()
            gc.enable()


def _call_all_objects_old() -> None:
    """Move all objects to the oldest generation: new ones would be looked through at the next chance.

    Nothing is kept that would not be kept otherwise: the next full collection looks through all of them. Objects that
    the user has frozen stay so.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
