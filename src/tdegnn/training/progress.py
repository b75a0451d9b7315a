"""How far a long work is, for progress bars: its stages, one after another, and the steps of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Progress(NamedTuple):
    """A moment of a work.

    Attributes:
        stage: What is being done, in a few words.
        done: Number of finished steps of the stage. 0 when it begins.
        total: Number of all its steps.
    """

    stage: str
    done: int
    total: int


OnProgress: TypeAlias = Callable[[Progress], object]


def ignore(_: Progress) -> None:
    """Show nothing."""
