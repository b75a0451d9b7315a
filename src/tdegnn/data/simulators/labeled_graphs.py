"""Graphs whose nodes have classes, with a known part of the answer in the features and a known part in the edges.

Features are normal around a center per class. The class of a neighbor is drawn by a rule: the own class, the next one,
or any. So one can say what a classifier could know, and which baseline should be hard to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int64

from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Direction, Graph

NeighborRule: TypeAlias = Literal["own", "next", "any"]


@dataclass(frozen=True, eq=False)
class LabeledGraph:
    """Nodes with features, a graph and classes.

    Attributes:
        features: One row per node.
        labels: The class of each node, from 0 on.
        graph: The graph.
    """

    features: Float[np.ndarray, "nodes features"]
    labels: Int64[np.ndarray, " nodes"]
    graph: Graph


def simulate_labels(
    num_nodes: int,
    num_classes: int,
    seed: int,
    *,
    distance: float = 0.0,
    neighbors: NeighborRule = "any",
    agreement: float = 0.8,
    degree: int = 6,
    num_features: int = 16,
    shares: Sequence[float] | None = None,
    direction: Direction = "both",
) -> LabeledGraph:
    """Draw a graph whose nodes have classes.

    Args:
        num_nodes: Number of nodes.
        num_classes: Number of classes.
        seed: Seed of everything that is drawn.
        distance: Standard deviation of the centers of classes, where that of a node around its center is 1. If 0,
            features say nothing about classes.
        neighbors: Which class neighbors have: the `"own"` one, the `"next"` one, or `"any"`: edges say nothing.
        agreement: Share of the edges that follow this rule. The others lead anywhere.
        degree: Edges that are drawn per node.
        num_features: Number of features.
        shares: Share of each class. If None, all are equally frequent.
        direction: Whose states a node receives, see `Graph`.
    """
    check_count(num_nodes=num_nodes, num_classes=num_classes, degree=degree, num_features=num_features)
    check_count(minimum=0, seed=seed)
    check_finite(distance=distance, agreement=agreement)
    if shares is not None and (len(shares) != num_classes or min(shares) <= 0):
        raise InputError(f"Expected {num_classes} shares above 0, one per class, got {list(shares)}.")
    draw = np.random.default_rng(seed)
    chances = np.full(num_classes, 1 / num_classes) if shares is None else np.asarray(shares) / np.sum(shares)
    labels = draw.choice(num_classes, num_nodes, p=chances)
    # Each class once, so that it exists.
    labels[:num_classes] = np.arange(num_classes)
    centers = distance * draw.standard_normal((num_classes, num_features))
    features = centers[labels] + draw.standard_normal((num_nodes, num_features))
    sources = np.repeat(np.arange(num_nodes), degree)
    targets = draw.integers(0, num_nodes, len(sources))
    if neighbors != "any":
        wanted = (labels[sources] + (neighbors == "next")) % num_classes
        for label in range(num_classes):
            edges = np.flatnonzero((wanted == label) & (draw.random(len(sources)) < agreement))
            targets[edges] = draw.choice(np.flatnonzero(labels == label), len(edges))
    return LabeledGraph(
        features.astype(np.float32), labels, Graph(np.stack([sources, targets]), num_nodes, direction=direction)
    )
