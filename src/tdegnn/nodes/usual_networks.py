"""The networks that an estimator for nodes chooses from by validation, if the user says nothing about its network.

Each is a set of settings, by name. All are trained for some steps, and the best one on validation is trained to the
end (`training/network_choice.py`).

A few validation nodes choose between networks nearly by chance. So each start of a trial holds out other nodes, and
more of them have a say: the first start the validation nodes, each other one another share of the training nodes. The
test nodes are never among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, inf, isnan, nan
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Int64

from tdegnn.files import finite_or_null
from tdegnn.graph import Graph
from tdegnn.nodes.baselines import MOST_TRAINING
from tdegnn.training.network_choice import ChosenNetwork
from tdegnn.training.node_training import NodeSubsets

Mask = Bool[np.ndarray, " nodes"]
NetworkName: TypeAlias = Literal["auto", "diffusion", "links", "directed", "deep", "many-nodes", "alone", "linear"]
FEATURES_ALONE: dict[str, Any] = {
    "operator": "alone",
    "num_layers": 1,
    "input_map": "affine",
    "outer_dropout": 0.3,
    "embedding_weight_decay": 0.01,
    "spatial_weight_decay": 0.01,
    "select_by": "loss",
}
WITHOUT_EDGES = ("alone", "linear")
# They have weights or scores of each node.
BOUND_TO_NODES = ("links", "directed")
# Separate maps for the nodes that a node points to and for those that point to it, two steps far.
BOTH_WAYS: dict[str, Any] = {
    "operator": {"name": "directed-diffusion", "settings": {"num_hops": 2}},
    "step_size": 0.5,
}
# Settings as JSON keeps them.
USUAL_NETWORKS: dict[str, dict[str, Any]] = {
    # The defaults of the estimator: two layers of near-identity diffusion.
    "diffusion": {},
    # For graphs with a direction, with a kernel ridge of link lists and features that is added: which pages a page
    # links to can say more than what is on it. Of eleven families, the best on both Wikipedia graphs (`tdegnn reproduce
    # best`).
    "links": {
        **BOTH_WAYS,
        "readout": "concatenation",
        "skip": "kernel-ridge",
        "outer_dropout": 0.6,
        "embedding_weight_decay": 1e-4,
        "spatial_weight_decay": 1e-4,
    },
    # The same for graphs without twins: link lists are features, which the network weighs by itself.
    "directed": {
        **BOTH_WAYS,
        "adjacency_features": True,
        "outer_dropout": 0.65,
        "hidden_dropout": 0.5,
        "embedding_weight_decay": 1e-3,
        "spatial_weight_decay": 1e-3,
    },
    # For graphs whose neighbors are alike: GCNII's step.
    "deep": {
        "operator": "gcnii",
        "num_layers": 8,
        "hidden_dropout": 0.5,
        "spatial_weight_decay": 0.01,
        "select_by": "loss",
    },
    # For thousands of labels: GCNII*'s step, and nearly no decay.
    "many-nodes": {
        "operator": "gcnii*",
        "num_layers": 4,
        "outer_dropout": 0.2,
        "hidden_dropout": 0.5,
        "embedding_weight_decay": 5e-5,
        "spatial_weight_decay": 5e-5,
        "select_by": "loss",
    },
    # Features without edges: where edges say nothing, layers along them do harm.
    "alone": FEATURES_ALONE,
    # The same with h = 0: a linear map of the features, as in logistic regression, for few nodes.
    "linear": {**FEATURES_ALONE, "step_size": 0.0},
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
# From this number of training nodes on, weights need nearly no decay.
MANY_TRAINING = 3000
# Below this number of nodes, several networks are trained from other first weights, and the best one is kept.
FEW_NODES, NUM_STARTS = 1000, 4
# Their weights are running means. On few validation nodes, single steps are often best by chance, and the more of them
# there are, the more so: the best of 3,000 steps was another one than the best of the first few hundred.
FEW_NODES_SETTINGS: dict[str, Any] = {"averaging": 0.99}


class Trial(NamedTuple):
    """A network after a short training, at its step of the lowest loss on validation.

    Attributes:
        score: Its score on validation, or the mean over folds. Higher is better. NaN if there is none.
        loss: Its loss there.
        error: The standard error of the score.
    """

    score: float
    loss: float
    error: float


def can_have_folds(subsets: tuple[Mask, ...], num_starts: int) -> bool:
    """Return whether each start of a trial holds out other nodes.

    As many validation nodes as training nodes, or more, are enough to choose by. Each fold needs a node.

    Args:
        subsets: Training, validation and test nodes.
        num_starts: Number of starts.
    """
    num_training, num_validation, _ = (int(mask.sum()) for mask in subsets)
    return num_starts > 1 and num_training >= num_starts and num_validation < num_training


def repeat_subsets(subsets: tuple[Mask, ...], num_starts: int) -> NodeSubsets:
    """Return the same training, validation and test nodes for each start."""
    return NodeSubsets(*(np.tile(mask, (num_starts, 1)) for mask in subsets))


def hold_out_in_turn(
    subsets: tuple[Mask, ...], num_starts: int, seed: int, strata: Int64[np.ndarray, " nodes"] | None
) -> NodeSubsets:
    """Return subsets in which each start holds out other nodes, and is trained on all others of known label.

    The first start holds out the validation nodes. With n starts, each other one holds out one of n parts of the
    training nodes, so that it is trained on about as many nodes.

    Args:
        subsets: Training, validation and test nodes.
        num_starts: Number of starts.
        seed: Seed of the parts.
        strata: The class of each node, if parts are to have equal shares of each class.
    """
    training, validation, test = subsets
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(training))
    if strata is not None:
        nodes = nodes[np.argsort(strata[nodes], kind="stable")]
    held = np.zeros((num_starts, len(training)), dtype=bool)
    held[0] = validation
    for part in range(num_starts - 1):
        # Every n-th node of each class, since nodes are in the order of their classes.
        held[1 + part, nodes[part::num_starts]] = True
    return NodeSubsets((training | validation) & ~held, held, np.tile(test, (num_starts, 1)))


def mean_trial(trials: Sequence[Trial]) -> Trial:
    """Return the mean of trials of one network on several folds, and the standard error of the mean score.

    ROC-AUC is not a number in a fold without a node of one class: such folds have no say in the score.
    """
    known = [trial for trial in trials if not isnan(trial.score)]
    loss = fmean(trial.loss for trial in trials)
    if not known:
        return Trial(nan, loss, 0.0)
    # Folds are disjoint, so their errors are taken as independent.
    return Trial(fmean(trial.score for trial in known), loss, hypot(*(trial.error for trial in known)) / len(known))


def choose_by_trials(
    networks: Mapping[str, dict[str, Any]], trials: Mapping[str, Trial], num_starts: int
) -> ChosenNetwork:
    """Return the network with the best score; of those within one standard error of it, the one of the lowest loss.

    On few validation nodes, many networks have similar scores by chance. The loss says more: it also counts how sure a
    network is.

    Args:
        networks: The settings of the networks, by name.
        trials: Those that were trained for some steps, at least one.
        num_starts: Number of networks that are trained from other first weights.
    """
    known = {name: trial for name, trial in trials.items() if not isnan(trial.score)} or trials
    top = max(known.values(), key=lambda trial: trial.score)
    near = {name: trial.loss for name, trial in known.items() if not trial.score < top.score - top.error}
    best = min(near, key=lambda name: inf if isnan(near[name]) else near[name])
    texts = ", ".join(f"{name}: {trial.score:.4g}" for name, trial in trials.items())
    by = "score" if len(near) == 1 else "loss"
    why = "" if by == "score" else ", since scores are within one standard error of each other"
    reason = f"The network {best!r} was chosen by its {by} on validation after a short training{why} ({texts})."
    scores = finite_or_null({name: trial.score for name, trial in trials.items()})
    return ChosenNetwork(best, networks[best], num_starts, reason, scores)


def suitable_networks(graph: Graph, num_training: int, *, has_classes: bool) -> list[str]:
    """Return the names of the networks that are tried.

    Args:
        graph: The graph. Without a direction, its link lists are those of both directions, and mix two things.
        num_training: Number of training nodes, which a kernel ridge compares with each other.
        has_classes: Whether classes are learned, and not numbers.
    """
    is_directed = graph.direction != "both" and num_training <= MOST_TRAINING
    suits = {
        "links": is_directed and has_classes,
        "directed": is_directed,
        "many-nodes": num_training >= MANY_TRAINING,
    }
    return [name for name in USUAL_NETWORKS if suits.get(name, True)]
