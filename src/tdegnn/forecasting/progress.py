"""How far a long work is, for progress bars: its stages, one after another, and the steps of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

# The stages of a fit, in this order. Networks are tried between the second and the third, each in a stage of its own.
# The linear forecast is solved anew for each network, and for the second training.
WINDOW_SEARCH, ORDER_SEARCH, LINEAR = "window search", "order search", "linear forecast"
TRAINING, INTERVALS, TRAINING_AGAIN = "training", "errors and intervals", "again, with the held-out steps"


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
