"""The networks that an estimator for nodes chooses from by validation, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps, and the best one on validation is trained to the
end (`training/network_choice.py`).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from tdegnn.graph import Graph
from tdegnn.nodes.baselines import MOST_TRAINING

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


def suitable_networks(graph: Graph, num_training: int, *, has_classes: bool) -> list[str]:
    """Return the names of the networks that are tried.

    Args:
        graph: The graph. Without a direction, its link lists are those of both directions, and mix two things.
        num_training: Number of training nodes, which a kernel ridge compares with each other.
        has_classes: Whether classes are learned, and not numbers.
    """
    with_links = graph.direction != "both" and num_training <= MOST_TRAINING and has_classes
    return [name for name in USUAL_NETWORKS if name != "links" or with_links]
