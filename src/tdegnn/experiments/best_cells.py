"""The cells of `tdegnn reproduce best`: batches of trainings, scores of kernel skips, and means over five seeds.

`find_open_cells` reads the results and says what can be computed now. Each cell adds its lines when it is done, all at
once; what is in the results is not computed again. So the work can be interrupted at any time and shared by processes.
Scores of a kernel skip are solved once per split, and kept in files next to the results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
import torch
from torch import nn

from tdegnn.data.benchmarks.load import load_nodes
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments.best_rows import ABLATION, ROWS, Row, ablated, best_row, row_configs, trainings_of
from tdegnn.experiments.best_search import RUNG_3, SYSTEM, Family, Runs, Training, follow_search, read_families, seed_of
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.node_systems import PreparedNodes, train_members
from tdegnn.experiments.operator_rules import EULER
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.metrics import accuracy
from tdegnn.nets.kernel_skip import KernelRidgeSkip, keep_scores_in
from tdegnn.nets.node_skips import SKIPS
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement
from tdegnn.training.loop import Look
from tdegnn.training.node_training import Classification, as_input, as_seen

Item = TypeVar("Item")

SCORES, SEARCH = "scores", "search"
# Scores are also solved when they are needed. As a stage, they are all solved before.
STAGES = (SCORES, SEARCH, ROWS, ABLATION)
NUM_SEEDS = 5
# Lines of the mean of five seeds, and their stage.
MEAN_SYSTEM, SEEDS = f"{SYSTEM}, mean of five seeds", "five seeds"
# Numbers in the states of all members of a batch, after all layers. A training keeps about six times as many, in 4
# bytes each: twelve processes fit on one device.
MOST_VALUES = 2**28
# The same times the number of steps. On an H200, 10 million numbers take 2.7 ms: a batch takes at most 16 s alone, and
# a minute or two next to others. So little is lost when the time is over.
MOST_WORK = 6e10
# Points of the validation curve in a result line.
NUM_POINTS = 12
# Steps between two validations, as in Table 1.
VALIDATE_EVERY = 3
# A dataset whose nodes without features are in no subset. In Citeseer these have no label either.
WITHOUT_EMPTY = ", without empty nodes"
WITH_EMPTY = ("citeseer",)

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
            skip = _skip_of(self.config, prepared).to(placement.device)
            skip.see_training_nodes(_seen(prepared, self.split))

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


class Plan:
    """What can be computed now.

    Args:
        datasets: Names of the datasets.
        stages: Which of `STAGES` to compute. A stage begins when the one before is done.
        files: Where results are.
        families: What is searched. If None, `best_searches.toml`.
    """

    def __init__(
        self, datasets: Sequence[str], stages: Sequence[str], files: Files, families: Sequence[Family] | None = None
    ) -> None:
        self._datasets, self._stages, self._files = datasets, stages, files
        self._families = read_families() if families is None else families
        self._benches: dict[str, PreparedNodes] = {}
        self._scores_files: dict[tuple[Any, ...], Path] = {}
        self._scores_cells: dict[Path, ScoresCell] = {}

    def find_open_cells(self) -> list[AnyCell]:
        """Return the cells that can be computed now: earlier stages first, and long ones before short ones."""
        lines = read_lines(self._files.lines, BEST_LINES)
        found: list[tuple[int, AnyCell]] = []
        for name in self._datasets:
            own = [line for line in lines if line["dataset"] in (name, f"{name}{WITHOUT_EMPTY}")]
            found += self._cells_of(name, own)
        ranked = sorted(found, key=lambda pair: (pair[0], -pair[1].cost))
        return list(dict.fromkeys(cell for _, cell in ranked))

    def _cells_of(self, name: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, AnyCell]]:
        """Yield the open cells of a dataset, and the number of their stage."""
        bench = self._bench(name)
        splits, runs = bench.splits, _runs_of(name, lines)
        yield from self._if_asked(SCORES, self._all_scores(name))
        state = follow_search(self._families, len(splits), runs)
        if not state.finalists:
            yield from self._if_asked(SEARCH, self._batches(name, state.trainings, runs))
            return
        rows = row_configs(state.finalists[0])
        wanted = list(trainings_of(ROWS, {str(row): config for row, config in rows.items()}, splits))
        if runs.missing(wanted):
            yield from self._if_asked(ROWS, self._batches(name, wanted, runs))
            return
        best = best_row(rows, splits, runs)
        yield from self._if_asked(ROWS, self._further_rows(name, rows, best, lines))
        ablations = list(trainings_of(ABLATION, ablated(rows[best]), splits))
        yield from self._if_asked(ABLATION, self._batches(name, ablations, runs))

    def _if_asked(self, stage: str, cells: Iterator[AnyCell]) -> Iterator[tuple[int, AnyCell]]:
        if stage in self._stages:
            yield from ((STAGES.index(stage), cell) for cell in cells)

    def _all_scores(self, name: str) -> Iterator[AnyCell]:
        """Yield the scores that the search may need."""
        for family in self._families:
            for shape in range(len(family.shapes)):
                config = family.candidates(shape)[0].config(RUNG_3)
                for split in self._bench(name).splits:
                    if not self._has_scores(name, config, split):
                        yield self._scores_cell(name, config, split)

    def _further_rows(
        self, name: str, rows: Mapping[Row, NodeConfig], best: Row, lines: Sequence[Mapping[str, Any]]
    ) -> Iterator[AnyCell]:
        """Yield the five seeds of the best row; and the row, and c = [1], without nodes that have no features."""
        means = [line for line in lines if line["dataset"] == name and line["system"] == MEAN_SYSTEM]
        done = {line["split"] for line in means if line["configuration"] == rows[best].to_record()}
        size = max(1, self._batch_size(name, rows[best]) // NUM_SEEDS)
        splits = self._bench(name).splits
        for batch in _evenly(splits, size):
            missing = tuple(split for split in batch if split not in done)
            if missing:
                yield SeedsCell(name, rows[best], missing, self._cost(name, rows[best]) * len(missing) * NUM_SEEDS)
        if name in WITH_EMPTY:
            variant = f"{name}{WITHOUT_EMPTY}"
            chosen = {str(row): rows[row] for row in dict.fromkeys((best, Row(EULER, best.has_skip)))}
            trainings = list(trainings_of(ROWS, chosen, splits))
            yield from self._batches(variant, trainings, _runs_of(variant, lines))

    def _batches(self, name: str, trainings: Sequence[Training], runs: Runs) -> Iterator[AnyCell]:
        """Yield the cells of trainings that are not done; of those whose skip has no scores yet, the scores."""
        for _, group in groupby(trainings, key=lambda training: (training.stage, training.group)):
            own = list(group)
            missing = runs.missing(own)
            unsolved = [each for each in missing if not self._has_scores(name, each.config, each.split)]
            if unsolved:
                by_split = {each.split: each for each in reversed(unsolved)}
                yield from (self._scores_cell(name, each.config, each.split) for each in by_split.values())
                continue
            # Batches do not depend on what is done: those that are being computed stay the same.
            for each in _evenly(own, self._batch_size(name, own[0].config)):
                batch = tuple(runs.missing(each))
                if batch:
                    yield TrainingCell(name, batch, self._cost(name, batch[0].config) * len(batch))

    def _has_scores(self, name: str, config: NodeConfig, split: int) -> bool:
        return config.skip is None or self._scores_file(name, config, split).exists()

    def _scores_cell(self, name: str, config: NodeConfig, split: int) -> ScoresCell:
        # Configurations that need the same file make the same cell.
        file = self._scores_file(name, config, split)
        return self._scores_cells.setdefault(file, ScoresCell(name, config, split))

    def _scores_file(self, name: str, config: NodeConfig, split: int) -> Path:
        prepared = self._bench(name).for_config(config)
        key = (id(prepared), config.skip, split)
        if key not in self._scores_files:
            skip = _skip_of(config, prepared)
            self._scores_files[key] = skip.file_in(self._files.scores, _seen(prepared, split))
        return self._scores_files[key]

    def _batch_size(self, name: str, config: NodeConfig) -> int:
        num_values = self._num_values(name, config)
        return max(1, min(MOST_VALUES // num_values, int(MOST_WORK / (num_values * config.num_steps))))

    def _cost(self, name: str, config: NodeConfig) -> float:
        return float(self._num_values(name, config) * config.num_steps)

    def _num_values(self, name: str, config: NodeConfig) -> int:
        return self._bench(name).dataset.num_nodes * config.hidden_channels * config.num_layers

    def _bench(self, name: str) -> PreparedNodes:
        if name not in self._benches:
            self._benches[name] = PreparedNodes(load_dataset(name))
        return self._benches[name]


def _evenly(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Return items in as few pieces as possible, of about the same size, at most `most`."""
    num_pieces = -(-len(items) // most)
    size = -(-len(items) // num_pieces)
    return [items[start : start + size] for start in range(0, len(items), size)]


def _runs_of(name: str, lines: Sequence[Mapping[str, Any]]) -> Runs:
    return Runs(line for line in lines if (line["dataset"], line["system"]) == (name, SYSTEM))


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
    for batch in _evenly(members, size):
        looks: list[Look] = []
        training, runs = train_members(
            prepared, batch, placement=placement, validate_every=VALIDATE_EVERY, on_look=looks.append
        )
        curves = torch.stack([look.scores for look in looks], dim=1).tolist()
        steps = [look.step for look in looks]
        trained.records.extend(
            run.to_record() | {"curve": _thinned(list(zip(steps, curve, strict=True)))}
            for run, curve in zip(runs, curves, strict=True)
        )
        scores = training.members.evaluate(as_input(prepared, placement), prepared.graph)
        trained.probabilities.extend(nn.functional.softmax(scores.double(), dim=-1).cpu().numpy())
    seconds = (time.perf_counter() - start) / len(members)
    about |= {"seconds": seconds, **describe_environment(placement.device)}
    return replace(trained, records=[record | about for record in trained.records])


def _thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return a few points of a validation curve, the last among them: steps, and accuracies or minus losses."""
    places = np.unique(np.linspace(0, len(curve) - 1, NUM_POINTS).round().astype(int))
    return [(curve[place][0], round(curve[place][1], 4)) for place in places]


def _skip_of(config: NodeConfig, prepared: NodeDataset) -> KernelRidgeSkip:
    skip: KernelRidgeSkip = SKIPS.make(config.skip, num_nodes=prepared.num_nodes, num_outputs=prepared.num_classes)
    return skip


def _seen(prepared: NodeDataset, split: int) -> Any:
    task = Classification(torch.as_tensor(prepared.labels))
    return as_seen(prepared, task, prepared.training_masks[split], prepared.num_classes)


def _free(placement: Placement) -> None:
    """Give memory of the device back, which other processes need."""
    if placement.device.type == "cuda":
        torch.cuda.empty_cache()
