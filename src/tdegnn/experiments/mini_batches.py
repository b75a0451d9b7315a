"""What batches and short messages cost in accuracy: one recipe, on the whole graph and by other ways to train.

The whole graph with messages of 32 and of 16 bits, partitions, and neighborhoods, on PubMed and Squirrel, ten splits.
All see each training node once per epoch. In as many epochs, batches make several times the steps of the whole graph,
so they are compared with a whole graph that makes as many steps, if it has lines: on Squirrel, more steps alone gain
two points. On PubMed the whole graph has its best step long before its last one. Small partitions, an eighth of the
others, make as many steps as those, in an eighth of the epochs: as many epochs would take eight times as many steps.
The step is chosen on validation, and scores are those of all nodes at once, whatever the batches of the training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdegnn.batches.base import Batches
from tdegnn.batches.registry import BATCHES
from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.nodes.classifier import NodeClassifier
from tdegnn.nodes.settings import ESTIMATOR_FAMILIES
from tdegnn.parts import Part, parts_to_record
from tdegnn.training.devices import DeviceName, Precision, choose_placement

DATASETS = ("pubmed", "squirrel")
WHOLE, PARTITIONS, NEIGHBORHOODS = "whole graph", "partitions", "neighborhoods"
SHORT_MESSAGES = "whole graph, 16-bit messages"
WHOLE_AS_LONG = "whole graph, as many steps as batches"
SMALL_PARTITIONS = "small partitions"
NUM_PARTS = 64
# Batches per epoch: of small partitions, and of the others.
NUM_SMALL_BATCHES, NUM_BATCHES = 32, 4
# The settings of the batches of each way to train. Those of neighborhoods have a quarter of the training nodes, too.
WAYS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    SHORT_MESSAGES: {},
    WHOLE_AS_LONG: {},
    PARTITIONS: {"num_parts": NUM_PARTS, "parts_per_batch": NUM_PARTS // NUM_BATCHES, "halo": 1},
    NEIGHBORHOODS: {"num_neighbors": 20},
    SMALL_PARTITIONS: {"num_parts": NUM_PARTS, "parts_per_batch": NUM_PARTS // NUM_SMALL_BATCHES, "halo": 1},
}
# Whom a way to train is compared with: one that makes as many steps, or `WHOLE` if that has no lines.
RIVALS = {
    WHOLE: WHOLE,
    SHORT_MESSAGES: WHOLE,
    WHOLE_AS_LONG: WHOLE_AS_LONG,
    PARTITIONS: WHOLE_AS_LONG,
    NEIGHBORHOODS: WHOLE_AS_LONG,
    SMALL_PARTITIONS: WHOLE_AS_LONG,
}
NUM_EPOCHS = 400
# The usual network of `NodeClassifier`, trained by AdamW: a decay inside the gradient of Adam is weaker the noisier the
# gradient is, and so would be another recipe for batches.
RECIPE: dict[str, Any] = {
    "network": "diffusion",
    "optimizer": "adamw",
    "embedding_weight_decay": 1.0,
    "spatial_weight_decay": 1.0,
    "averaging": 0.95,
    "patience": None,
    "baselines": False,
    "validate_every": NUM_BATCHES,
}
BATCH_LINES = LineKind(
    "mini-batches",
    {**NODE_LINES.entries, "epochs": int, "seconds": float},
    identity=("dataset", "system", "split", "seed", "epochs", "configuration"),
)


class Comparison(NamedTuple):
    """A way to train on one dataset.

    Attributes:
        cell: Its accuracies.
        seconds: Mean time of a training.
        num_steps: How many steps a training makes.
        difference: How many points its mean is ahead of its rival, see `RIVALS`, on the splits that both have.
        is_within: Whether it is within one standard deviation (over the splits) of its rival.
    """

    cell: Cell
    seconds: float
    num_steps: int
    difference: float | None
    is_within: bool | None


def try_batches(
    dataset_name: str, system: str, split: int, path: Path, device: DeviceName = "auto", num_epochs: int = NUM_EPOCHS
) -> None:
    """Fit a classifier to one split, unless `path` has its line, and add it.

    Args:
        dataset_name: The dataset.
        system: How to train: a name of `WAYS`.
        split: Which of its splits.
        path: The results file.
        device: Where to compute.
        num_epochs: How often each training node is seen; by a whole graph that makes as many steps as batches, more,
            and by small partitions, which make as many steps too, an eighth of that.
    """
    nodes = load_nodes(dataset_name)
    num_steps = num_epochs * (NUM_BATCHES if WAYS[system] or system == WHOLE_AS_LONG else 1)
    batches = _make_batches(system, int(nodes.training_masks[split].sum()))
    precision: Precision = "bf16-mixed" if system == SHORT_MESSAGES else "32-true"
    model = NodeClassifier(**RECIPE, num_steps=num_steps, batches=batches, precision=precision, device=device)
    # The device is no setting of the result.
    configuration = parts_to_record(ESTIMATOR_FAMILIES, model.get_params(deep=False) | {"device": "auto"})
    known = read_lines(path, BATCH_LINES, dataset=[dataset_name], split=[split], system=[system])
    if any(line["configuration"] == configuration for line in known):
        return
    began = time.perf_counter()
    model.fit(nodes, split=split)
    summary = model.summary_
    line = {
        "dataset": dataset_name,
        "system": system,
        "split": split,
        "seed": model.seed,
        "validation_accuracy": summary["validation_score"],
        "test_accuracy": summary["test_score"],
        "best_step": summary["best_step"],
        "epochs": -(-num_steps // _batches_per_epoch(system)),
        "seconds": time.perf_counter() - began,
        "configuration": configuration,
        **describe_environment(choose_placement(device).device),
    }
    append_lines(path, [line], BATCH_LINES)


def shares_of_nodes(dataset_name: str, system: str, split: int = 0) -> list[float]:
    """Return the share of all nodes that each batch of the first epoch sees, inner ones and the others.

    Args:
        dataset_name: The dataset.
        system: How to train: a name of `WAYS`, with batches.
        split: Which of its splits.
    """
    nodes = load_nodes(dataset_name)
    training = np.flatnonzero(nodes.training_masks[split])
    model = NodeClassifier(**RECIPE, batches=_make_batches(system, len(training)))
    batches: Batches = BATCHES.make(model.batches, num_layers=model.num_layers)
    plan = batches.plan(nodes.graph, training, model.seed)
    return [len(plan.choose(number).nodes) / nodes.num_nodes for number in range(plan.num_batches)]


def _make_batches(system: str, num_training: int) -> Part | None:
    settings = WAYS[system]
    if system == NEIGHBORHOODS:
        settings = settings | {"batch_size": -(-num_training // NUM_BATCHES)}
    kind = PARTITIONS if system == SMALL_PARTITIONS else system
    return Part(kind, **settings) if settings else None


def _batches_per_epoch(system: str) -> int:
    if not WAYS[system]:
        return 1
    return NUM_SMALL_BATCHES if system == SMALL_PARTITIONS else NUM_BATCHES


def compare_batches(lines: Sequence[Mapping[str, Any]], dataset_name: str) -> dict[str, Comparison]:
    """Return the ways to train that have lines, by name.

    Args:
        lines: The lines of this experiment. If a split has several, the last one counts.
        dataset_name: The dataset.
    """
    own = [line for line in lines if line["dataset"] == dataset_name]
    by_system = {system: [line for line in own if line["system"] == system] for system in WAYS}
    cells = {system: Cell.from_lines(rows) for system, rows in by_system.items() if rows}
    rivals = {system: cells.get(RIVALS[system], cells.get(WHOLE)) for system in cells}
    return {system: _compare(cell, by_system[system], rivals[system]) for system, cell in cells.items()}


def _compare(cell: Cell, rows: Sequence[Mapping[str, Any]], rival: Cell | None) -> Comparison:
    seconds = sum(row["seconds"] for row in rows) / len(rows)
    num_steps = rows[-1]["configuration"]["num_steps"]
    shared = set() if rival is None else set(cell.test_accuracies) & set(rival.test_accuracies)
    if rival is None or not shared:
        return Comparison(cell, seconds, num_steps, None, None)
    difference = sum(cell.test_accuracies[split] - rival.test_accuracies[split] for split in shared) / len(shared)
    return Comparison(cell, seconds, num_steps, difference, abs(difference) <= rival.deviation)
