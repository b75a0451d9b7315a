"""What are the rows of the adjacency matrix worth as features? Recipes of Table 1 that have them, trained without.

All else is the same, and networks of one split start with weights of the same seed. Nothing is searched anew, so the
numbers say what the rows add to these recipes, not what the best network without rows would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement

DATASETS = ("squirrel", "chameleon")
SYSTEMS = ("DE-GNN", "TDE-GNN_D", "TDE-GNN_A")
ROWLESS_LINES = LineKind(
    "networks without adjacency rows", NODE_LINES.entries, identity=("dataset", "system", "split", "seed")
)


def train_without_rows(dataset_name: str, system: str, path: Path, placement: Placement) -> None:
    """Train the recipe of a system without adjacency rows, on all splits, unless `path` has the lines."""
    recipe, dataset = read_recipes(dataset_name)[system], load_nodes(dataset_name)
    assert isinstance(recipe, NodeConfig)
    if len(read_lines(path, ROWLESS_LINES, dataset=[dataset_name], system=[system])) == dataset.num_splits:
        return
    config = replace(recipe, adjacency_features=False)
    runs = train_together(dataset, [config], range(dataset.num_splits), placement=placement)
    environment = describe_environment(placement.device)
    append_lines(path, [{"dataset": dataset_name, **run.to_record(), **environment} for run in runs], ROWLESS_LINES)


def summarize_rowless(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Cell]:
    """Return the cells by dataset and system."""
    keys = dict.fromkeys((line["dataset"], line["system"]) for line in lines)
    return {key: Cell.from_lines([line for line in lines if (line["dataset"], line["system"]) == key]) for key in keys}
