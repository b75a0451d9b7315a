"""Does the direction of links matter? Recipes of Table 1, trained along each direction of the graphs that have one.

On these graphs a link points from a page to a page. With direction `"out"` a node receives from the nodes that it
points to, with `"in"` from those that point to it, with `"both"` from all of them, as in papers that make the graphs
undirected. All else is the same, and networks of one split start with the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.node_systems import train_together
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.graph import Direction
from tdegnn.training.devices import Placement

DIRECTED = ("squirrel", "film", "chameleon", "squirrel-filtered", "chameleon-filtered")
SYSTEMS = ("GCN", "GAT", "FAGCN", "LINKX", "DE-GNN")
DIRECTIONS: tuple[str, ...] = get_args(Direction)
DIRECTION_LINES = LineKind(
    "the directions of links",
    {**NODE_LINES.entries, "direction": str},
    identity=("dataset", "system", "direction", "split", "seed"),
)


def train_directions(dataset_name: str, system: str, path: Path, placement: Placement) -> None:
    """Train the recipe of a system along each direction, on all splits, and add the lines that `path` lacks."""
    recipe, dataset = read_recipes(dataset_name)[system], load_nodes(dataset_name)
    environment = describe_environment(placement.device)
    for direction in get_args(Direction):
        asked = {"dataset": [dataset_name], "system": [system], "direction": [direction]}
        if len(read_lines(path, DIRECTION_LINES, **asked)) == dataset.num_splits:
            continue
        config = replace(recipe, direction=direction)
        runs = train_together(dataset, [config], range(dataset.num_splits), placement=placement)
        lines = [{"dataset": dataset_name, "direction": direction, **run.to_record(), **environment} for run in runs]
        append_lines(path, lines, DIRECTION_LINES)


def summarize_directions(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], Cell]:
    """Return the cells by dataset, system and direction."""
    members: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        members.setdefault((line["dataset"], line["system"], line["direction"]), []).append(line)
    return {key: Cell.from_lines(own) for key, own in members.items()}
