"""Table 1: node classification, systems by datasets, ten splits each, and what learned coefficients add over c = [1].

Each training is a line of the results file. Trainings that are already there are not run again. Configurations are
recipes, chosen by validation; test accuracy is only reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.recipe_files import config_from_record, read_recipes
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.rivals.nodes.link_ridge import fit_link_ridge
from tdegnn.rivals.nodes.registry import NODE_NETWORKS

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
FIXED, LEARNED = "DE-GNN", ("TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S")
LINK_RIDGE = "LINK-ridge"
# All rows of the table. Those that are trained need a recipe; LINK-ridge is solved.
SYSTEMS = (LINK_RIDGE, *NODE_NETWORKS, FIXED, *LEARNED)


def solve_link_ridge(dataset_name: str, path: Path) -> None:
    """Solve LINK-ridge on the splits of one dataset that have no line in `path` yet, and add their lines."""
    done = {line["split"] for line in read_lines(path, NODE_LINES, dataset=[dataset_name], system=[LINK_RIDGE])}
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
        append_lines(path, [line | environment], NODE_LINES)


def summarize(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Cell]:
    """Return the cells of the table, by dataset and system. Only lines of the current recipes count."""
    by_cell: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    recipes = {name: read_recipes(name) for name in {line["dataset"] for line in lines}}
    for line in lines:
        recipe = recipes[line["dataset"]].get(line["system"])
        is_solved = line["system"] == LINK_RIDGE
        if is_solved or (recipe is not None and config_from_record(line["configuration"]) == recipe):
            by_cell.setdefault((line["dataset"], line["system"]), []).append(line)
    return {key: Cell.from_lines(members) for key, members in by_cell.items()}
