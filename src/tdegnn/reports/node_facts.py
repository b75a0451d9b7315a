"""What is known about a node classifier: which classes are mixed up, for which nodes, and how sure it is.

Everything is measured on test nodes, or on validation nodes if there are no test nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from tdegnn.graph import Graph
from tdegnn.nodes.fitted import FittedNodes
from tdegnn.training.devices import choose_placement, place
from tdegnn.training.node_training import as_input

# Ends of the classes of degrees and of homophily.
DEGREE_ENDS = (1, 2, 3, 5, 9, 17, 33)
HOMOPHILY_ENDS = (0.2, 0.4, 0.6, 0.8)
NUM_BINS = 10


@dataclass(frozen=True)
class Group:
    """Nodes that have something in common.

    Attributes:
        name: What they have in common.
        count: How many they are.
        share: Share of them whose class is right.
    """

    name: str
    count: int
    share: float


@dataclass(frozen=True, eq=False)
class ClassFacts:
    """Predicted and true classes.

    Attributes:
        names: Names of the classes.
        truth: The class of each node, by number. -1 if it is not known.
        probabilities: The probability of each class.
        judged: The nodes on which the classifier is judged.
        judged_name: What these nodes are: "test" or "validation".
        graph: The graph.
        embedding: The last state of each node.
    """

    names: tuple[str, ...]
    truth: Int[np.ndarray, " nodes"]
    probabilities: Float[np.ndarray, "nodes classes"]
    judged: Bool[np.ndarray, " nodes"]
    judged_name: str
    graph: Graph
    embedding: Float[np.ndarray, "nodes channels"]

    @cached_property
    def predicted(self) -> Int[np.ndarray, " nodes"]:
        """The likeliest class of each node."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @cached_property
    def is_right(self) -> Bool[np.ndarray, " nodes"]:
        """Whether the likeliest class is the true one."""
        return np.asarray(self.predicted == self.truth)

    @property
    def confusion(self) -> Int[np.ndarray, "classes classes"]:
        """Number of judged nodes by true class (row) and predicted class (column)."""
        counts = np.zeros((len(self.names), len(self.names)), dtype=np.int64)
        np.add.at(counts, (self.truth[self.judged], self.predicted[self.judged]), 1)
        return counts

    def by_degree(self) -> list[Group]:
        """Return accuracy by the number of neighbors from which a node receives."""
        degrees = np.bincount(self.graph.received.row, minlength=len(self.truth))
        starts = (0, *DEGREE_ENDS)
        names = [
            str(low) if high == low + 1 else f"{low} to {high - 1}"
            for low, high in zip(starts, DEGREE_ENDS, strict=False)
        ]
        return self._groups(np.digitize(degrees, DEGREE_ENDS), (*names, f"{DEGREE_ENDS[-1]} or more"), self.judged)

    def by_homophily(self) -> list[Group]:
        """Return accuracy by the share of neighbors, of those whose class is known, that have the class of the node."""
        received = self.graph.received
        row, column = received.row, received.col
        is_known = (self.truth[column] >= 0) & (row != column)
        num_known = np.bincount(row[is_known], minlength=len(self.truth))
        is_same = is_known & (self.truth[row] == self.truth[column])
        shares = np.bincount(row[is_same], minlength=len(self.truth)) / np.maximum(num_known, 1)
        ends = (0.0, *HOMOPHILY_ENDS, 1.0)
        names = [f"{100 * low:.0f} to {100 * high:.0f} %" for low, high in pairwise(ends)]
        return self._groups(np.digitize(shares, HOMOPHILY_ENDS), tuple(names), self.judged & (num_known > 0))

    def calibration(self) -> list[tuple[float, float, int]]:
        """Return the mean probability, the share that is right, and the number of nodes, by bins of the probability."""
        sure, is_right = self.probabilities.max(axis=1)[self.judged], self.is_right[self.judged]
        bins = np.minimum((sure * NUM_BINS).astype(np.int64), NUM_BINS - 1)
        return [
            (float(sure[bins == each].mean()), float(is_right[bins == each].mean()), int((bins == each).sum()))
            for each in np.unique(bins)
        ]

    @property
    def calibration_error(self) -> float:
        """Mean distance between probability and share that is right, weighted by the number of nodes."""
        bins = self.calibration()
        return sum(abs(given - reached) * count for given, reached, count in bins) / sum(count for *_, count in bins)

    def in_two_dimensions(self) -> tuple[Float[np.ndarray, "nodes two"], float]:
        """Return the two directions in which the last states differ most, and the share of their variance."""
        centered = self.embedding - self.embedding.mean(axis=0)
        _, values, directions = np.linalg.svd(centered, full_matrices=False)
        variances = values**2
        two = directions[:2].T
        places = centered @ two
        if places.shape[1] < 2:
            places = np.column_stack([places[:, 0], np.zeros(len(places))])
        return places, float(variances[:2].sum() / max(variances.sum(), np.finfo(float).tiny))

    def _groups(self, number: np.ndarray, names: tuple[str, ...], chosen: np.ndarray) -> list[Group]:
        return [
            Group(names[each], int(mask.sum()), float(self.is_right[mask].mean()))
            for each in np.unique(number[chosen])
            if (mask := chosen & (number == each)).any()
        ]


def judged_nodes(fitted: FittedNodes) -> tuple[Bool[np.ndarray, " nodes"], str]:
    """Return the nodes on which an estimator is judged, and what they are."""
    assert fitted.question is not None
    _, validation, test = fitted.question.subsets
    return (test, "test") if test.any() else (validation, "validation")


def class_facts(fitted: FittedNodes) -> ClassFacts:
    """Return what a classifier says of the nodes of its training."""
    assert fitted.question is not None
    assert fitted.nodes is not None
    outputs = torch.as_tensor(fitted.outputs(fitted.nodes, "auto"))
    judged, name = judged_nodes(fitted)
    return ClassFacts(
        tuple(str(each) for each in fitted.learned["classes"]),
        np.asarray(fitted.question.answers),
        np.asarray(torch.softmax(outputs, dim=-1).numpy()),
        judged,
        name,
        fitted.nodes.graph,
        _last_states(fitted),
    )


def _last_states(fitted: FittedNodes) -> Float[np.ndarray, "nodes channels"]:
    assert fitted.nodes is not None
    placement = choose_placement("cpu", fitted.config["settings"]["precision"])
    nodes = fitted.settings.prepare(fitted.nodes)
    network = fitted.network
    place(network, placement).eval()
    with torch.no_grad():
        state = network.integrate(as_input(nodes, placement), nodes.graph).state
    # Some networks have complex states.
    real = torch.view_as_real(state).flatten(-2) if state.is_complex() else state
    return np.asarray(real.double().cpu().numpy())
