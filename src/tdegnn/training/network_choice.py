"""Choose one of a few usual networks by validation, for an estimator whose user says nothing about its network.

A `ChosenNetwork` says which it is and why, and is kept in the run folder together with its settings: a later version
may know other networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import inf, isnan
from typing import Any

from tdegnn.files import finite_or_null

# The entry of a run folder's settings that keeps the choice.
CHOSEN = "chosen_network"


@dataclass(frozen=True)
class ChosenNetwork:
    """A network, and the reason for it.

    Attributes:
        name: Its name.
        settings: The settings that it sets, as JSON keeps them.
        num_starts: Number of networks that are trained from other first weights.
        reason: One sentence. Empty if the user chose.
        scores: The scores on validation by which it was chosen, by name.
    """

    name: str
    settings: dict[str, Any]
    num_starts: int = 1
    reason: str = ""
    scores: dict[str, float | None] = field(default_factory=dict)

    @staticmethod
    def kept_in(config: Mapping[str, Any]) -> ChosenNetwork | None:
        """Return the choice in the settings of a run folder. None if the settings of the network were given."""
        return ChosenNetwork(**config[CHOSEN]) if config.get(CHOSEN) is not None else None

    def to_record(self) -> dict[str, Any]:
        """Return name, settings and scores, for JSON. The reason is among the notes."""
        return {"name": self.name, "settings": self.settings, "scores": self.scores}

    def to_config(self) -> dict[str, Any]:
        """Return the choice as an entry of the settings of a run folder."""
        return {CHOSEN: asdict(self)}


def choose_network(
    networks: Mapping[str, dict[str, Any]], scores: Mapping[str, float], num_starts: int = 1
) -> ChosenNetwork:
    """Return the network with the highest score on validation; of several, the first.

    Args:
        networks: The settings of the networks, by name.
        scores: The score of each of them that was trained for some steps, at least one.
        num_starts: Number of networks that are trained from other first weights.
    """
    best = max(scores, key=lambda name: -inf if isnan(scores[name]) else scores[name])
    texts = ", ".join(f"{name}: {score:.4g}" for name, score in scores.items())
    reason = f"The network {best!r} was chosen by its score on validation after a short training ({texts})."
    return ChosenNetwork(best, networks[best], num_starts, reason, finite_or_null(scores))


def given_settings(estimator: Any, kind: type) -> set[str]:
    """Return the names of settings of an estimator that are not at their defaults.

    Args:
        estimator: The estimator.
        kind: The dataclass that has the defaults.
    """
    return {each.name for each in fields(kind) if each.init and getattr(estimator, each.name) != each.default}


def without_given(networks: Mapping[str, Mapping[str, Any]], given: set[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of networks, by name, without those that the user gave."""
    return {
        name: {setting: value for setting, value in settings.items() if setting not in given}
        for name, settings in networks.items()
    }
