"""The cells of `tdegnn reproduce best`: batches of trainings, scores of kernel skips, and means over five seeds.

Each cell adds its lines when it is done, all at once. Any process can compute it. Scores of a kernel skip are solved
once per split, and kept in files next to the results. What is to be computed is decided by `best_plan.py`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
import torch
from torch import nn

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments.best_search import SYSTEM, Training, seed_of
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.node_systems import PreparedNodes, train_members
from tdegnn.experiments.records import LineKind, append_lines, describe_environment
from tdegnn.metrics import accuracy
from tdegnn.nets.kernel_skip import KernelRidgeSkip, keep_scores_in
from tdegnn.nets.node_skips import SKIPS
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement
from tdegnn.training.loop import Look
from tdegnn.training.node_training import Classification, as_input, as_seen
from tdegnn.training_nodes import TrainingNodes

Item = TypeVar("Item")

NUM_SEEDS = 5
# Lines of the mean of five seeds, and their stage.
MEAN_SYSTEM, SEEDS = f"{SYSTEM}, mean of five seeds", "five seeds"
# Numbers in the states of all members of a batch, after all layers. A training keeps about six times as many, in 4
# bytes each: twelve processes fit on one device.
MOST_VALUES = 2**28
# Points of the validation curve in a result line.
NUM_POINTS = 12
# Steps between two validations, as in Table 1.
VALIDATE_EVERY = 3
# A dataset whose nodes without features are in no subset. In Citeseer these have no label either.
WITHOUT_EMPTY = ", without empty nodes"

BEST_LINES = LineKind(
    "the search for the best network",
    {**NODE_LINES.entries, "stage": str, "group": str, "seconds": float},
    identity=NODE_LINES.identity,
)


@dataclass(frozen=True)
class Files:
    """Where results are.

    Attributes:
        lines: The result lines.
    """

    lines: Path

    @property
    def scores(self) -> Path:
        """The folder of scores of kernel skips."""
        return self.lines.parent / "kernel_scores"


def load_dataset(name: str) -> NodeDataset:
    """Load a benchmark, or one without the nodes that have no features: these are in no subset then."""
    if not name.endswith(WITHOUT_EMPTY):
        return load_nodes(name)
    dataset = load_nodes(name.removesuffix(WITHOUT_EMPTY))
    has_features = np.asarray(abs(scipy.sparse.csr_array(dataset.features)).sum(axis=1)) > 0
    masks = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
    training, validation, test = (mask & has_features for mask in masks)
    return replace(dataset, name=name, training_masks=training, validation_masks=validation, test_masks=test)


@dataclass(frozen=True)
class ScoresCell:
    """The scores of a kernel skip on one split.

    Attributes:
        dataset: Name of the dataset.
        config: A configuration with the skip.
        split: The split.
    """

    dataset: str
    config: NodeConfig
    split: int

    @property
    def cost(self) -> float:
        """How urgent it is. Trainings wait for it."""
        return float("inf")

    def compute(self, files: Files, placement: Placement) -> None:
        """Solve for the scores, on the device, and keep them."""
        prepared = self.config.prepare(load_dataset(self.dataset))
        with keep_scores_in(files.scores):
            skip = skip_of(self.config, prepared).to(placement.device)
            skip.see_training_nodes(seen_on(prepared, self.split))

    def __str__(self) -> str:
        return f"{self.dataset}, kernel of split {self.split}"


@dataclass(frozen=True)
class TrainingCell:
    """Trainings that are one batch.

    Attributes:
        dataset: Name of the dataset.
        trainings: The trainings, all of one stage and group.
        cost: How long they take, in any unit.
    """

    dataset: str
    trainings: tuple[Training, ...]
    cost: float = field(compare=False)

    def compute(self, files: Files, placement: Placement) -> None:
        """Train them, and add their lines."""
        stage, group, *_ = self.trainings[0]
        about = {"dataset": self.dataset, "stage": stage, "group": group}
        with keep_scores_in(files.scores):
            bench = PreparedNodes(load_dataset(self.dataset))
            trained = _train(bench, [training[2:] for training in self.trainings], placement, **about)
        append_lines(files.lines, trained.records, BEST_LINES)
        _free(placement)

    def __str__(self) -> str:
        return f"{self.dataset}, {self.trainings[0].stage}, {self.trainings[0].group}"


@dataclass(frozen=True)
class SeedsCell:
    """One configuration with five seeds on some splits, and the mean of their probabilities.

    Attributes:
        dataset: Name of the dataset.
        config: The configuration.
        splits: The splits.
        cost: How long it takes, in any unit.
    """

    dataset: str
    config: NodeConfig
    splits: tuple[int, ...]
    cost: float = field(compare=False)

    def compute(self, files: Files, placement: Placement) -> None:
        """Train all seeds, and add their lines and those of the mean."""
        members = [(self.config, split, seed_of(split, seed)) for split in self.splits for seed in range(NUM_SEEDS)]
        about = {"dataset": self.dataset, "stage": SEEDS, "group": SEEDS}
        with keep_scores_in(files.scores):
            bench = PreparedNodes(load_dataset(self.dataset))
            trained = _train(bench, members, placement, **about)
        by_split = [trained.probabilities[start : start + NUM_SEEDS] for start in range(0, len(members), NUM_SEEDS)]
        shared = {**about, "seconds": 0.0, **describe_environment(placement.device)}
        means = [
            self._mean_line(bench.dataset, split, probabilities) | shared
            for split, probabilities in zip(self.splits, by_split, strict=True)
        ]
        append_lines(files.lines, [*trained.records, *means], BEST_LINES)
        _free(placement)

    def _mean_line(self, dataset: NodeDataset, split: int, probabilities: Sequence[np.ndarray]) -> dict[str, Any]:
        predicted = np.mean(probabilities, axis=0).argmax(axis=-1)
        masks = (dataset.validation_masks[split], dataset.test_masks[split])
        on_validation, on_test = (float(accuracy(predicted, dataset.labels, mask)) for mask in masks)
        return {
            "system": MEAN_SYSTEM,
            "split": split,
            "seed": None,
            "protocol": "honest",
            "validation_accuracy": on_validation,
            "test_accuracy": on_test,
            "configuration": self.config.to_record(),
            "epoch": None,
            "is_diverged": False,
        }

    def __str__(self) -> str:
        return f"{self.dataset}, five seeds"


AnyCell = ScoresCell | TrainingCell | SeedsCell


def compute_cell(cell: AnyCell, files: Files, placement: Placement) -> None:
    """Compute a cell, in any process."""
    cell.compute(files, placement)


def evenly(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Return items in as few pieces as possible, of about the same size, at most `most`."""
    num_pieces = -(-len(items) // most)
    size = -(-len(items) // num_pieces)
    return [items[start : start + size] for start in range(0, len(items), size)]


@dataclass(frozen=True)
class _Trained:
    """Members after their training.

    Attributes:
        records: A result line of each.
        probabilities: Of each member, those of all classes at all nodes.
    """

    records: list[dict[str, Any]]
    probabilities: list[np.ndarray]


def _train(
    bench: PreparedNodes, members: Sequence[tuple[NodeConfig, int, int]], placement: Placement, **about: Any
) -> _Trained:
    """Train members of one shape, in as few batches as fit.

    Args:
        bench: The nodes.
        members: Configuration, split and seed of each.
        placement: Where to compute.
        about: Further entries of all result lines.
    """
    start, config = time.perf_counter(), members[0][0]
    prepared = bench.for_config(config)
    size = max(1, MOST_VALUES // (prepared.num_nodes * config.hidden_channels * config.num_layers))
    trained = _Trained([], [])
    for batch in evenly(members, size):
        own = _train_batch(prepared, batch, placement)
        trained.records.extend(own.records)
        trained.probabilities.extend(own.probabilities)
    seconds = (time.perf_counter() - start) / len(members)
    about |= {"seconds": seconds, **describe_environment(placement.device)}
    return replace(trained, records=[record | about for record in trained.records])


def _train_batch(prepared: NodeDataset, batch: Sequence[tuple[NodeConfig, int, int]], placement: Placement) -> _Trained:
    looks: list[Look] = []
    training, runs = train_members(
        prepared, batch, placement=placement, validate_every=VALIDATE_EVERY, on_look=looks.append
    )
    curves = torch.stack([look.scores for look in looks], dim=1).tolist()
    steps = [look.step for look in looks]
    records = [
        run.to_record() | {"curve": _thinned(list(zip(steps, curve, strict=True)))}
        for run, curve in zip(runs, curves, strict=True)
    ]
    scores = training.members.evaluate(as_input(prepared, placement), prepared.graph)
    return _Trained(records, list(nn.functional.softmax(scores.double(), dim=-1).cpu().numpy()))


def _thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return a few points of a validation curve, the last among them: steps, and accuracies or minus losses."""
    places = np.unique(np.linspace(0, len(curve) - 1, NUM_POINTS).round().astype(int))
    return [(curve[place][0], round(curve[place][1], 4)) for place in places]


def skip_of(config: NodeConfig, prepared: NodeDataset) -> KernelRidgeSkip:
    """Return the skip of a configuration, without its scores."""
    skip: KernelRidgeSkip = SKIPS.make(config.skip, num_nodes=prepared.num_nodes, num_outputs=prepared.num_classes)
    return skip


def seen_on(prepared: NodeDataset, split: int) -> TrainingNodes:
    """Return the nodes as a skip sees them that is trained on a split."""
    task = Classification(torch.as_tensor(prepared.labels))
    return as_seen(prepared, task, prepared.training_masks[split], prepared.num_classes)


def _free(placement: Placement) -> None:
    """Give memory of the device back, which other processes need."""
    if placement.device.type == "cuda":
        torch.cuda.empty_cache()
