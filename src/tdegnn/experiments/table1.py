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
from tdegnn.experiments.row_search import read_row_searches
from tdegnn.kernel_ridge import candidates
from tdegnn.metrics import accuracy
from tdegnn.node_views import NodeViews
from tdegnn.rivals.nodes.kernel_ridge import choose_setting, score_nodes
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
# Of the search for the best network: with c = [1], and with a learned rule.
BEST = BEST_FIXED, BEST_LEARNED = "DE-GNN, best", "TDE-GNN, best"
# Rows with a learned c. Validation says which of them is our best on a dataset.
TUNED = (*LEARNED, BEST_LEARNED)
SOLVED = LINK_RIDGE, KERNEL_RIDGE = "LINK-ridge", "kernel ridge"
# All rows of the table. Those that are trained need a recipe; two are solved.
SYSTEMS = tuple(dict.fromkeys((*SOLVED, *NODE_NETWORKS, *read_row_searches(), FIXED, *LEARNED, *BEST)))


def solve_link_ridge(dataset_name: str, path: Path) -> None:
    """Solve LINK-ridge on the splits of one dataset that have no line in `path` yet, and add their lines."""
    done = _solved_splits(dataset_name, LINK_RIDGE, path)
    dataset = load_nodes(dataset_name)
    environment = describe_environment(torch.device("cpu"))
    for split in range(dataset.num_splits):
        if split in done:
            continue
        training, validation, test = (
            masks[split] for masks in (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        )
        solved = fit_link_ridge(dataset.graph.received, dataset.labels, training, validation)
        configuration = {"system": LINK_RIDGE, "lambda": solved.chosen_lambda}
        test_accuracy = float(np.mean(solved.predicted[test] == dataset.labels[test]))
        line = _solved_line(dataset_name, split, solved.validation_accuracy, test_accuracy, configuration)
        append_lines(path, [line | environment], NODE_LINES)


def solve_kernel_ridge(dataset_name: str, path: Path, device: torch.device | None = None) -> None:
    """Solve the kernel ridge on all splits of one dataset, and add the lines that are not in `path` yet.

    One setting for all splits is chosen: that of the highest mean accuracy on validation. Of several, the first. It is
    then solved on each split. With many training nodes, only the choice is an approximation (`choose_setting`).

    Args:
        dataset_name: The dataset.
        path: The results file.
        device: Where to compute. If None, the CPU.
    """
    device = device or torch.device("cpu")
    done = _solved_splits(dataset_name, KERNEL_RIDGE, path)
    dataset = load_nodes(dataset_name)
    if done == {*range(dataset.num_splits)}:
        return
    settings = candidates(dataset.graph)
    views = NodeViews(dataset.features, dataset.graph, settings, device=device)
    chosen = choose_setting(views, dataset.labels, dataset.training_masks, dataset.validation_masks, settings)
    views_of, sharpness, ridge = chosen
    configuration = {"system": KERNEL_RIDGE, "views": [*views_of], "sharpness": sharpness, "lambda": ridge}
    environment = describe_environment(device)
    for split in sorted({*range(dataset.num_splits)} - done):
        predicted = score_nodes(views, dataset.labels, dataset.training_masks[split], chosen).argmax(axis=1)
        on_validation, on_test = (
            float(accuracy(predicted, dataset.labels, masks[split]))
            for masks in (dataset.validation_masks, dataset.test_masks)
        )
        line = _solved_line(dataset_name, split, on_validation, on_test, configuration)
        append_lines(path, [line | environment], NODE_LINES)


def _solved_splits(dataset_name: str, system: str, path: Path) -> set[int]:
    """Return the splits that have a line already."""
    return {line["split"] for line in read_lines(path, NODE_LINES, dataset=[dataset_name], system=[system])}


def _solved_line(
    dataset_name: str, split: int, validation_accuracy: float, test_accuracy: float, configuration: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "dataset": dataset_name,
        "system": configuration["system"],
        "split": split,
        "seed": None,
        "protocol": "honest",
        "validation_accuracy": validation_accuracy,
        "test_accuracy": test_accuracy,
        "configuration": configuration,
        "epoch": None,
        "is_diverged": False,
    }


def summarize(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Cell]:
    """Return the cells of the table, by dataset and system. Only lines of the current recipes count."""
    by_cell: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    recipes = {name: read_recipes(name) for name in {line["dataset"] for line in lines}}
    for line in lines:
        recipe = recipes[line["dataset"]].get(line["system"])
        if line["system"] in SOLVED or (recipe is not None and config_from_record(line["configuration"]) == recipe):
            by_cell.setdefault((line["dataset"], line["system"]), []).append(line)
    return {key: Cell.from_lines(members) for key, members in by_cell.items()}
