"""What `NodeClassifier()` does without a word on ten graphs that need no download.

Beside it stand logistic regression on the features, and itself with 3,000 steps that no patience ends. Eight graphs are
drawn: the features carry the labels, the edges do, or both. Two are bundled with networkx and scikit-learn. Half of the
nodes are test nodes, and choose nothing. Scores are accuracy, or ROC-AUC for two classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import networkx
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from tdegnn.data.simulators.labeled_graphs import LabeledGraph, simulate_labels
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.graph import Graph
from tdegnn.nodes.classifier import NodeClassifier
from tdegnn.nodes.settings import FAMILIES
from tdegnn.parts import parts_to_record
from tdegnn.training.devices import DeviceName, choose_placement, single_thread

DEFAULT, LONG, FEATURES, PERCEPTRON = "default", "3,000 steps", "logistic regression", "a perceptron"
# All systems of the table, and those that are trained. The others are measured with the default.
COLUMNS = (DEFAULT, LONG, FEATURES, PERCEPTRON)
TRAINED: dict[str, dict[str, Any]] = {DEFAULT: {}, LONG: {"num_steps": 3000, "patience": None}}
PROTOCOL = "half of the nodes are test nodes; a fifth of the others is validation"
NUM_NEIGHBORS = 8
GRAPH_LINES = LineKind(
    "ten graphs",
    {
        "graph": str,
        "system": str,
        "seed": int,
        "protocol": str,
        "validation_score": float,
        "test_score": float,
        "configuration": dict,
    },
    identity=("graph", "system", "seed", "protocol", "configuration"),
)


def karate_club(seed: int) -> LabeledGraph:  # noqa: ARG001 (there is one club)
    """Return the karate club, which split in two: its members are told apart by their links alone."""
    club = networkx.karate_club_graph()
    labels = np.array([club.nodes[member]["club"] == "Officer" for member in club], dtype=np.int64)
    edges = np.array(club.edges, dtype=np.int64).T
    return LabeledGraph(np.eye(len(labels), dtype=np.float32), labels, Graph(edges, len(labels), direction="both"))


def breast_cancer(seed: int) -> LabeledGraph:  # noqa: ARG001 (there is one dataset)
    """Return the tumors of scikit-learn, each linked to those whose measures are nearest."""
    features, labels = load_breast_cancer(return_X_y=True)
    nearest = kneighbors_graph(StandardScaler().fit_transform(features), NUM_NEIGHBORS).tocoo()
    graph = Graph(np.stack([nearest.row, nearest.col]).astype(np.int64), len(labels), direction="both")
    return LabeledGraph(features.astype(np.float32), labels.astype(np.int64), graph)


# By name, the graph of a seed.
GRAPHS: dict[str, Callable[[int], LabeledGraph]] = {
    "features": partial(simulate_labels, 300, 4, distance=0.45),
    "features, 2,000 nodes": partial(simulate_labels, 2000, 6, distance=0.4),
    "edges": partial(simulate_labels, 300, 4, neighbors="own"),
    "both": partial(simulate_labels, 300, 4, distance=0.35, neighbors="own", agreement=0.6),
    "both, opposites": partial(simulate_labels, 300, 4, distance=0.45, neighbors="next"),
    "both, directed": partial(simulate_labels, 300, 4, distance=0.35, neighbors="next", direction="out"),
    "both, few nodes": partial(simulate_labels, 220, 5, distance=0.6, neighbors="own", agreement=0.4),
    "two classes, one rare": partial(simulate_labels, 400, 2, distance=0.3, shares=(0.85, 0.15)),
    "karate club": karate_club,
    "breast cancer": breast_cancer,
}


def try_graph(name: str, system: str, seed: int, path: Path, device: DeviceName = "auto") -> None:
    """Fit a classifier to the graph of a seed, unless `path` has its lines, and add them.

    Args:
        name: The graph.
        system: `"default"`, or `"3,000 steps"`.
        seed: Seed of the graph, of its test nodes and of the classifier.
        path: The results file.
        device: Where to compute.
    """
    model = NodeClassifier(**TRAINED[system], seed=seed, device=device)
    # Seed and device are no settings of the result.
    configuration = parts_to_record(FAMILIES, model.get_params(deep=False) | {"device": "auto", "seed": 0})
    known = read_lines(path, GRAPH_LINES, graph=[name], system=[system], seed=[seed], protocol=[PROTOCOL])
    if any(line["configuration"] == configuration for line in known):
        return
    drawn = GRAPHS[name](seed)
    test = np.random.default_rng(seed).permutation(len(drawn.labels))[: len(drawn.labels) // 2]
    began = time.process_time()
    with single_thread():
        model.fit(drawn.features, drawn.labels, graph=drawn.graph, test=test)
    summary, choice = model.summary_, model.network_choice_
    scores = {system: {"validation": summary["validation_score"], "test": summary["test_score"]}}
    if system == DEFAULT:
        scores |= {baseline: summary["baselines"][baseline] for baseline in (FEATURES, PERCEPTRON)}
    shared = {
        "score": summary["score"],
        "network": None if choice is None else choice.name,
        "network_settings": None if choice is None else choice.settings,
        "steps": model.history_[-1]["step"],
        "best_step": summary["best_step"],
        "cpu_seconds": time.process_time() - began,
        "protocol": PROTOCOL,
        "configuration": configuration,
        **describe_environment(choose_placement(device).device),
    }
    lines = [
        {"graph": name, "system": each, "seed": seed, "validation_score": of["validation"], "test_score": of["test"]}
        | shared
        for each, of in scores.items()
    ]
    append_lines(path, lines, GRAPH_LINES)


class Comparison(NamedTuple):
    """Two systems on one graph.

    Attributes:
        gain: How many points the default is ahead, the mean over the seeds that both have.
        error: The standard error of this mean, from the differences of the seeds. NaN for a single seed.
        num_seeds: Number of these seeds.
    """

    gain: float
    error: float
    num_seeds: int

    def __str__(self) -> str:
        error = "" if isnan(self.error) else f" ± {self.error:.1f}"
        return f"{self.gain:+.1f}{error} ({self.num_seeds})"


def gains_by_seed(lines: Sequence[Mapping[str, Any]], name: str, other: str) -> dict[int, float]:
    """Return how many points the default is ahead of another system on a graph, for each seed that has both.

    Args:
        lines: The lines of this experiment. If a seed has several, the last one counts.
        name: The graph.
        other: The other system.
    """
    own, others = (
        {line["seed"]: 100 * line["test_score"] for line in lines if (line["graph"], line["system"]) == (name, system)}
        for system in (DEFAULT, other)
    )
    return {seed: own[seed] - others[seed] for seed in sorted(own.keys() & others.keys())}


def compare(lines: Sequence[Mapping[str, Any]], name: str, other: str) -> Comparison | None:
    """Return how far the default is ahead of another system on a graph. None if no seed has both.

    Args:
        lines: The lines of this experiment. If a seed has several, the last one counts.
        name: The graph.
        other: The other system.
    """
    gains = [*gains_by_seed(lines, name, other).values()]
    if not gains:
        return None
    error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else nan
    return Comparison(fmean(gains), error, len(gains))


def mean_scores(lines: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Return the mean test score of each system on a graph, in percent."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if line["graph"] == name:
            found.setdefault(line["system"], {})[line["seed"]] = 100 * line["test_score"]
    return {system: fmean(scores.values()) for system, scores in found.items()}
