"""Table 1: node classification, systems by datasets, ten splits each, and what learned coefficients add over c = [1].

Every training is a line of the results file; what is there already is not trained again. Configurations are recipes,
chosen by validation; test accuracy is only reported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from lightning_fabric import Fabric

from tdegnn.data.load import load_nodes
from tdegnn.experiments.node_systems import AnyConfig, train_together
from tdegnn.experiments.recipe_files import config_from_record, read_recipes
from tdegnn.experiments.records import describe_environment
from tdegnn.zoo.link_ridge import fit_link_ridge
from tdegnn.zoo.registry import NODE_NETWORKS

DATASETS = (
    "squirrel",
    "film",
    "chameleon",
    "citeseer",
    "pubmed",
    "cora",
    "squirrel-filtered",
    "chameleon-filtered",
)
FIXED, LEARNED = "DE-GNN", ("TDE-GNN_D", "TDE-GNN_A")
LINK_RIDGE = "LINK-ridge"
# Every row the table can have. Those that are trained need a recipe; LINK-ridge is solved.
SYSTEMS = (LINK_RIDGE, *NODE_NETWORKS, FIXED, *LEARNED)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """A dataset and a system.

    Attributes:
        test_accuracies: Test accuracy in percent, by split.
        validation_accuracies: Validation accuracy in percent, by split.
    """

    test_accuracies: Mapping[int, float]
    validation_accuracies: Mapping[int, float]

    @property
    def mean(self) -> float:
        """Mean test accuracy over the splits."""
        return float(np.mean(list(self.test_accuracies.values())))

    @property
    def deviation(self) -> float:
        """Standard deviation of the test accuracy over the splits."""
        return float(np.std(list(self.test_accuracies.values())))


@dataclass(frozen=True)
class Gain:
    """What one system adds over another on the same splits: mean difference in points and its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def train_row(
    dataset_name: str,
    config: AnyConfig,
    path: Path,
    *,
    fabric: Fabric,
    seed: int = 0,
) -> None:
    """Train one system on the splits of one dataset that have no line in `path` yet, and add their lines."""
    done = {
        line["split"]
        for line in read_lines(path)
        if (line["dataset"], line["system"]) == (dataset_name, config.system)
        and config_from_record(line["configuration"]) == config
        and line["seed"] == seed + 1000 * line["split"]
    }
    dataset = load_nodes(dataset_name)
    splits = [split for split in range(dataset.num_splits) if split not in done]
    if splits:
        runs = train_together(dataset, [config], splits, seed=seed, fabric=fabric)
        environment = describe_environment(fabric.device)
        append_lines(path, [{"dataset": dataset_name, **run.to_record(), **environment} for run in runs])


def solve_link_ridge(dataset_name: str, path: Path) -> None:
    """Solve LINK-ridge on the splits of one dataset that have no line in `path` yet, and add their lines."""
    done = {
        line["split"] for line in read_lines(path) if line["dataset"] == dataset_name and line["system"] == LINK_RIDGE
    }
    dataset = load_nodes(dataset_name)
    environment = describe_environment(torch.device("cpu"))
    for split in range(dataset.num_splits):
        if split in done:
            continue
        training, validation, test = (
            masks[split] for masks in (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        )
        solved = fit_link_ridge(dataset.graph.received, dataset.labels, training, validation)
        line = {
            "dataset": dataset_name,
            "system": LINK_RIDGE,
            "split": split,
            "seed": None,
            "protocol": "honest",
            "validation_accuracy": solved.validation_accuracy,
            "test_accuracy": float(np.mean(solved.predicted[test] == dataset.labels[test])),
            "configuration": {"system": LINK_RIDGE, "lambda": solved.chosen_lambda},
            "epoch": None,
            "is_diverged": False,
        }
        append_lines(path, [line | environment])


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Result lines; none where there is no file yet."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def append_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Add result lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def summarize(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Cell]:
    """Cells of the table, by dataset and system. Only lines of the present recipes count."""
    by_cell: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    recipes = {name: read_recipes(name) for name in {line["dataset"] for line in lines}}
    for line in lines:
        recipe = recipes[line["dataset"]].get(line["system"])
        is_solved = line["system"] == LINK_RIDGE
        if is_solved or (recipe is not None and config_from_record(line["configuration"]) == recipe):
            by_cell.setdefault((line["dataset"], line["system"]), []).append(line)
    return {
        key: Cell(
            {line["split"]: 100 * line["test_accuracy"] for line in members},
            {line["split"]: 100 * line["validation_accuracy"] for line in members},
        )
        for key, members in by_cell.items()
    }


def paired_gain(learned: Cell, fixed: Cell) -> Gain:
    """Mean difference of test accuracy over the splits both have, with a t interval."""
    splits = sorted(set(learned.test_accuracies) & set(fixed.test_accuracies))
    differences = np.array([learned.test_accuracies[split] - fixed.test_accuracies[split] for split in splits])
    if len(differences) < 2:
        return Gain(float(differences.mean()), -math.inf, math.inf)
    spread = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, len(differences) - 1) * scipy.stats.sem(differences)
    mean = float(differences.mean())
    return Gain(mean, mean - float(spread), mean + float(spread))
