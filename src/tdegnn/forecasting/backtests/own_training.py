"""What a forecaster chose in one training of a backtest: without it, nobody could say which network was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdegnn.forecasting.forecaster import Forecaster
    from tdegnn.training.network_choice import ChosenNetwork


@dataclass(frozen=True)
class OwnTraining:
    """What one training of the forecaster chose, and what it says about itself.

    Attributes:
        network: Which of the usual networks was trained. None if settings of the network were given.
        window: Number of steps that a forecast sees, given or chosen.
        order: Length of the history, given or found.
        best_step: The step that was best on the held-out windows.
        notes: Remarks for the user.
    """

    network: ChosenNetwork | None
    window: int
    order: int
    best_step: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, trained: Forecaster) -> OwnTraining:
        """Return what a trained forecaster chose."""
        notes = tuple(trained.notes_)
        return cls(trained.network_choice_, trained.maker_.window, trained.order_, trained.best_step_, notes)

    def __str__(self) -> str:
        network = "the network of its settings" if self.network is None else f"network {self.network.name}"
        return f"{network}, window {self.window}, order {self.order}, best step {self.best_step}"

    def to_record(self) -> dict[str, Any]:
        """Return all of it, for JSON."""
        network = None if self.network is None else self.network.to_record()
        return {**vars(self), "network": network, "notes": list(self.notes)}


def describe_trainings(trainings: tuple[OwnTraining, ...]) -> list[str]:
    """Return a line per training."""
    if len(trainings) == 1:
        return [f"The forecaster: {trainings[0]}."]
    places = enumerate(trainings, start=1)
    return [f"The forecaster, training {place} of {len(trainings)}: {training}." for place, training in places]


def shared_notes(trainings: tuple[OwnTraining, ...]) -> list[str]:
    """Return the notes of the only training, or those that all trainings have."""
    first, *others = trainings
    return [note for note in first.notes if all(note in other.notes for other in others)]
