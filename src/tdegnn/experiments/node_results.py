"""Result lines of node classification: how they are made, kept in a file, and summarized over splits.

There is one line per training. Trainings that are already in the file are not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.gain import Gain
from tdegnn.experiments.node_systems import AnyConfig, train_together
from tdegnn.experiments.recipe_files import config_from_record
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.training.devices import Placement

NODE_LINES = LineKind(
    "node classification",
    {
        "dataset": str,
        "system": str,
        "split": int,
        "validation_accuracy": float,
        "test_accuracy": float,
        "configuration": dict,
    },
    identity=("dataset", "system", "split", "seed", "configuration"),
)


@dataclass(frozen=True)
class Cell:
    """A dataset and a system.

    Attributes:
        test_accuracies: Test accuracy in percent, by split.
        validation_accuracies: Validation accuracy in percent, by split.
    """

    test_accuracies: Mapping[int, float]
    validation_accuracies: Mapping[int, float]

    @classmethod
    def from_lines(cls, lines: Sequence[Mapping[str, Any]]) -> Cell:
        """Make a cell from its result lines."""
        return cls(
            {line["split"]: 100 * line["test_accuracy"] for line in lines},
            {line["split"]: 100 * line["validation_accuracy"] for line in lines},
        )

    @property
    def mean(self) -> float:
        """Mean test accuracy over the splits."""
        return float(np.mean(list(self.test_accuracies.values())))

    @property
    def deviation(self) -> float:
        """Standard deviation of the test accuracy over the splits."""
        return float(np.std(list(self.test_accuracies.values())))


def train_row(
    dataset_name: str,
    config: AnyConfig,
    path: Path,
    *,
    placement: Placement,
    seed: int = 0,
) -> None:
    """Train one system on the splits of one dataset that have no line in `path` yet, and add their lines."""
    done = {
        line["split"]
        for line in read_lines(path, NODE_LINES)
        if (line["dataset"], line["system"]) == (dataset_name, config.system)
        and config_from_record(line["configuration"]) == config
        and line.get("seed") == seed + 1000 * line["split"]
    }
    dataset = load_nodes(dataset_name)
    splits = [split for split in range(dataset.num_splits) if split not in done]
    if splits:
        runs = train_together(dataset, [config], splits, seed=seed, placement=placement)
        environment = describe_environment(placement.device)
        append_lines(path, [{"dataset": dataset_name, **run.to_record(), **environment} for run in runs], NODE_LINES)


def paired_gain(learned: Cell, fixed: Cell) -> Gain:
    """Return the mean difference of test accuracy over the splits that both have."""
    splits = sorted(set(learned.test_accuracies) & set(fixed.test_accuracies))
    return Gain.of([learned.test_accuracies[split] - fixed.test_accuracies[split] for split in splits])
