"""The networks that an estimator for nodes chooses from by validation, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps, and the best one on validation is trained to the
end. A `ChosenNetwork` says which it is and why, and is kept in the run folder together with its settings: a later
version may know other networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tdegnn.files import finite_or_null
from tdegnn.graph import Graph
from tdegnn.nodes.baselines import MOST_TRAINING
from tdegnn.runs.run_folder import RunFolder

NetworkName: TypeAlias = Literal["auto", "diffusion", "links", "deep"]
# Settings as JSON keeps them.
USUAL_NETWORKS: dict[str, dict[str, Any]] = {
    # The defaults of the estimator: two layers of near-identity diffusion.
    "diffusion": {},
    # The same, and a kernel ridge of link lists and features that is added, for graphs with a direction: which pages a
    # page links to can say more than what is on it.
    "links": {"skip": "kernel-ridge"},
    # For graphs whose neighbors are alike: GCNII's step.
    "deep": {
        "operator": "gcnii",
        "num_layers": 8,
        "hidden_dropout": 0.5,
        "spatial_weight_decay": 0.01,
        "select_by": "loss",
    },
}
# A user who changes one of these settings of an estimator says something about its network.
NETWORK_SETTINGS = (
    "operator",
    "initial_states",
    "input_map",
    "state_norm",
    "readout",
    "skip",
    "hidden_channels",
    "num_layers",
    "step_size",
    "outer_dropout",
    "hidden_dropout",
    "readout_dropout",
    "embedding_learning_rate",
    "embedding_weight_decay",
    "spatial_learning_rate",
    "spatial_weight_decay",
    "adjacency_features",
    "self_loops",
    "averaging",
    "optimizer",
)
# A trial ends after this many steps, or earlier if validation does not improve. On large graphs a step takes a second.
TRIAL_STEPS, TRIAL_PATIENCE = 200, 50
MANY_NODES, FEW_TRIAL_STEPS = 10_000, 60
# Below this number of nodes, several networks are trained from other first weights, and the best one is kept.
FEW_NODES, NUM_STARTS = 1000, 4
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

    @staticmethod
    def kept_by(run: str | Path | None, *, resume: bool) -> ChosenNetwork | None:
        """Return the choice of a training that is resumed: networks are not tried again."""
        if run is None or not resume or not RunFolder.is_begun(run):
            return None
        from tdegnn.nodes.schema import check_chosen_network

        folder = RunFolder.open(run)
        check_chosen_network(folder)
        return ChosenNetwork.kept_in(folder.config)

    def to_config(self) -> dict[str, Any]:
        """Return the choice as an entry of the settings of a run folder."""
        return {CHOSEN: asdict(self)}


def suitable_networks(graph: Graph, num_training: int, *, has_classes: bool) -> list[str]:
    """Return the names of the networks that are tried.

    Args:
        graph: The graph. Without a direction, its link lists are those of both directions, and mix two things.
        num_training: Number of training nodes, which a kernel ridge compares with each other.
        has_classes: Whether classes are learned, and not numbers.
    """
    with_links = graph.direction != "both" and num_training <= MOST_TRAINING and has_classes
    return [name for name in USUAL_NETWORKS if name != "links" or with_links]


def choose_network(
    networks: Mapping[str, dict[str, Any]], score_of: Callable[[str], float], num_starts: int
) -> ChosenNetwork:
    """Return the network with the highest score on validation; of several, the first.

    Args:
        networks: The settings of the networks to try, at least one, by name.
        score_of: Trains the network of a name for some steps and returns its score.
        num_starts: Number of networks that are trained from other first weights.
    """
    scores = {name: score_of(name) for name in networks}
    best = max(scores, key=lambda name: -inf if isnan(scores[name]) else scores[name])
    texts = ", ".join(f"{name}: {score:.4g}" for name, score in scores.items())
    reason = f"The network {best!r} was chosen by its score on validation after a short training ({texts})."
    return ChosenNetwork(best, networks[best], num_starts, reason, finite_or_null(scores))
