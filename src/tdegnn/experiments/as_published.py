"""Cells of Table 1 made as the published number was, where it is far from ours: what is known of how it was made.

`as_published.toml` says, by system and dataset, which settings the code behind a printed number has, which nodes,
splits and features, and how it chooses a step. All else is our recipe. These numbers say why two numbers differ. They
are no rows of the table, and choose nothing: some are chosen by test accuracy, because the published ones were.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments.drawn_configs import config_of
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.node_systems import AnyConfig, train_members
from tdegnn.experiments.recipe_files import GROUPS, config_from_record, read_recipes
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.training.devices import Placement

NUM_SPLITS = 10
# Shares of the nodes of each class that random splits train on, and of all nodes that they validate on.
TRAINED, VALIDATED = 0.6, 0.2
PUBLISHED_LINES = LineKind(
    "cells made as published",
    {**NODE_LINES.entries, "made": str},
    identity=("dataset", "system", "made", "split", "seed", "configuration"),
)
# By what a step is chosen: the validation nodes, the test nodes, or not at all.
Choice = Literal["validation", "test", "last step"]


def _with_largest_component(dataset: NodeDataset) -> NodeDataset:
    """Leave the test nodes outside of the largest component out."""
    component = connected_components(dataset.graph.received, directed=False)[1]
    is_inside = component == np.bincount(component).argmax()
    return replace(dataset, test_masks=dataset.test_masks & is_inside)


def _with_random_splits(dataset: NodeDataset) -> NodeDataset:
    """Split all nodes whose class is known at random, 60 / 20 / 20 percent, the first by class."""
    masks = np.zeros((3, NUM_SPLITS, dataset.num_nodes), dtype=bool)
    for split in range(NUM_SPLITS):
        random = np.random.default_rng(split)
        shuffled = random.permutation(np.flatnonzero(dataset.labels >= 0))
        by_class = [shuffled[dataset.labels[shuffled] == label] for label in range(dataset.num_classes)]
        trained = np.concatenate([nodes[: round(TRAINED * len(nodes))] for nodes in by_class])
        others = shuffled[~np.isin(shuffled, trained)]
        num_validated = round(VALIDATED * len(shuffled))
        for mask, nodes in zip(masks, (trained, others[:num_validated], others[num_validated:]), strict=True):
            mask[split, nodes] = True
    return replace(dataset, training_masks=masks[0], validation_masks=masks[1], test_masks=masks[2])


def _with_identity(dataset: NodeDataset) -> NodeDataset:
    """Tell nodes apart, and nothing else of them."""
    return replace(dataset, features=scipy.sparse.eye_array(dataset.num_nodes, dtype=np.float32, format="csr"))


DATA: dict[str, Callable[[NodeDataset], NodeDataset]] = {
    "largest component": _with_largest_component,
    "random splits": _with_random_splits,
    "identity features": _with_identity,
}


@dataclass(frozen=True)
class PublishedWay:
    """How a published number was made, as far as it is not how ours are.

    Attributes:
        system: The system.
        dataset: Name of the benchmark.
        made: What is as published, in words that begin a sentence.
        settings: Settings in place of those of our recipe, written flat (`drawn_configs.py`). If there are any, rates
            must be among them.
        data: Members of `DATA`, applied one after the other.
        choice: By what a step is chosen.
        num_splits: The number of splits, the first ones.
    """

    system: str
    dataset: str
    made: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: Sequence[str] = ()
    choice: Choice = "validation"
    num_splits: int = NUM_SPLITS

    def config(self) -> AnyConfig:
        """Return the configuration."""
        recipe = read_recipes(self.dataset)[self.system].to_record()
        if not self.settings:
            return config_from_record(recipe)
        others = {name: value for name, value in recipe.items() if name not in ("system", *GROUPS)}
        return config_of(self.system, {**others, **self.settings})

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """Return a dataset with the nodes, splits and features of this way."""
        for name in self.data:
            dataset = DATA[name](dataset)
        if self.choice == "test":
            # What chooses is looked at as validation nodes are. No other test nodes are left.
            nobody = np.zeros_like(dataset.test_masks)
            dataset = replace(dataset, validation_masks=dataset.test_masks, test_masks=nobody)
        return dataset


def read_published_ways() -> dict[tuple[str, str], PublishedWay]:
    """Return how published numbers were made, by system and dataset."""
    sections = tomllib.loads(resources("tdegnn.experiments").joinpath("as_published.toml").read_text())
    return {
        (system, dataset): PublishedWay(system, dataset, **entries)
        for system, by_dataset in sections.items()
        for dataset, entries in by_dataset.items()
    }


def train_as_published(way: PublishedWay, path: Path, placement: Placement) -> None:
    """Train a cell as the published number was made, unless `path` has its lines."""
    if len(lines_of(way, read_lines(path, PUBLISHED_LINES))) == way.num_splits:
        return
    config = way.config()
    members = [(config, split, 1000 * split) for split in range(way.num_splits)]
    # Without a look before the end, the last step is the best one.
    between_looks = config.num_steps if way.choice == "last step" else 2
    prepared = config.prepare(way.prepare(load_nodes(way.dataset)))
    runs = train_members(prepared, members, placement=placement, validate_every=between_looks)[1]
    shared = {"dataset": way.dataset, "made": way.made, "protocol": "as published"}
    environment = describe_environment(placement.device)
    lines = [{**run.to_record(), **shared, **environment} for run in runs]
    if way.choice == "test":
        lines = [{**line, "test_accuracy": line["validation_accuracy"]} for line in lines]
    append_lines(path, lines, PUBLISHED_LINES)


def lines_of(way: PublishedWay, lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines that were made in a way, as it is today."""
    asked = {"dataset": way.dataset, "system": way.system, "made": way.made, "configuration": way.config().to_record()}
    return [line for line in lines if all(line[name] == value for name, value in asked.items())]


def summarize_published_ways(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[PublishedWay, Cell]]:
    """Return the ways that have lines, with their cells, by system and dataset."""
    found = {key: (way, lines_of(way, lines)) for key, way in read_published_ways().items()}
    return {key: (way, Cell.from_lines(own)) for key, (way, own) in found.items() if own}
