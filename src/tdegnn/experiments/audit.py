"""What makes accuracies on benchmarks high besides a network: twins among the nodes, and choices by test accuracy.

Twins are nodes with the same list of links. If one of them is a training node, its label can be looked up: no network
is needed. A configuration that is chosen by its test accuracy, among those of a search, reports a higher number than
the one that validation chooses, and predicts no better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Int

from tdegnn.data.nodes import NodeDataset

# Searches of fewer configurations say little about a choice among them.
FEWEST_CONFIGURATIONS = 12


@dataclass(frozen=True)
class TwinReport:
    """Twins of one dataset. Shares are means over the splits, between 0 and 1.

    Attributes:
        twins: Share of the nodes that have a twin.
        covered: Share of the test nodes that have a twin among the training nodes.
        accuracy: Accuracy on these test nodes, of the most frequent label of their twins. NaN if there are none.
    """

    twins: float
    covered: float
    accuracy: float

    def to_record(self) -> dict[str, float]:
        """Return the shares by name."""
        return asdict(self)


def find_twins(dataset: NodeDataset) -> Int[np.ndarray, " nodes"]:
    """Return the number of the group of twins of each node. Nodes without links are in no group: -1."""
    received = scipy.sparse.csr_array(dataset.graph.received, copy=True)
    received.sum_duplicates()  # and sorts the links of each node
    groups: dict[bytes, int] = {}
    found = np.full(dataset.num_nodes, -1)
    for node in range(dataset.num_nodes):
        links = received.indices[received.indptr[node] : received.indptr[node + 1]]
        if len(links):
            found[node] = groups.setdefault(links.tobytes(), len(groups))
    return found


def report_twins(dataset: NodeDataset) -> TwinReport:
    """Look up the labels of test nodes at their twins among the training nodes, on all splits."""
    groups = find_twins(dataset)
    is_grouped = groups >= 0
    sizes = np.bincount(groups[is_grouped], minlength=1)
    twins = float((is_grouped & (sizes[groups] > 1)).mean())
    covered, accuracies = [], []
    for training, test in zip(dataset.training_masks, dataset.test_masks, strict=True):
        votes = np.zeros((len(sizes), dataset.num_classes))
        known = training & is_grouped
        np.add.at(votes, (groups[known], dataset.labels[known]), 1)
        asked = np.flatnonzero(test & is_grouped)
        asked = asked[votes[groups[asked]].any(axis=1)]
        covered.append(len(asked) / test.sum())
        if len(asked):
            accuracies.append(float((votes[groups[asked]].argmax(axis=1) == dataset.labels[asked]).mean()))
    return TwinReport(twins, fmean(covered), fmean(accuracies) if accuracies else float("nan"))


@dataclass(frozen=True)
class SelectionReport:
    """What a choice by test accuracy adds to the reported number, over the searches of one kind.

    Attributes:
        stage: The kind of search, as its lines say.
        num_searches: Number of searches: of one system on one dataset each.
        num_configurations: Configurations per search, their mean.
        mean_gain: Points that the choice by test adds over the choice by validation, their mean.
        highest_gain: The highest.
    """

    stage: str
    num_searches: int
    num_configurations: float
    mean_gain: float
    highest_gain: float

    def to_record(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)


def report_selection(lines: Sequence[Mapping[str, Any]]) -> list[SelectionReport]:
    """Compare, in each search, the configuration that is best on test with the one that is best on validation.

    Args:
        lines: Lines of searches: dataset, system, stage, and the accuracies of a configuration.
    """
    searches: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        searches.setdefault((line["stage"], line["dataset"], line["system"]), []).append(line)
    by_stage: dict[str, list[list[Mapping[str, Any]]]] = {}
    for (stage, _, _), trials in searches.items():
        if len(trials) >= FEWEST_CONFIGURATIONS:
            by_stage.setdefault(stage, []).append(trials)
    reports = []
    for stage, same_stage in by_stage.items():
        gains = [_gain(trials) for trials in same_stage]
        reports.append(SelectionReport(stage, len(gains), fmean(map(len, same_stage)), fmean(gains), max(gains)))
    return reports


def _gain(trials: Sequence[Mapping[str, Any]]) -> float:
    chosen = max(trials, key=lambda line: line["validation_accuracy"])
    highest = max(line["test_accuracy"] for line in trials)
    return 100 * float(highest - chosen["test_accuracy"])
