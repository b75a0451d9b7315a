"""What `tdegnn reproduce best` is to compute next: the cells that are open, given the results so far.

Cells that are in the results are not computed again, so the work can be interrupted at any time and shared by
processes. The search of a dataset opens its rows, and these its five seeds and its ablation. Datasets do not wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tdegnn.experiments.best_cells import (
    BEST_LINES,
    MEAN_SYSTEM,
    MOST_VALUES,
    NUM_SEEDS,
    WITHOUT_EMPTY,
    AnyCell,
    Files,
    ScoresCell,
    SeedsCell,
    TrainingCell,
    evenly,
    load_dataset,
    seen_on,
    skip_of,
)
from tdegnn.experiments.best_rows import ABLATION, ROWS, Row, ablated, best_row, row_configs, trainings_of
from tdegnn.experiments.best_search import (
    RUNG_3,
    SYSTEM,
    Family,
    Runs,
    Training,
    fitting_families,
    follow_search,
    read_families,
)
from tdegnn.experiments.node_systems import PreparedNodes
from tdegnn.experiments.operator_rules import EULER
from tdegnn.experiments.records import read_lines
from tdegnn.nodes.settings import NodeConfig

SCORES, SEARCH = "scores", "search"
# Scores are also solved when they are needed. As a stage, they are all solved before.
STAGES = (SCORES, SEARCH, ROWS, ABLATION)
# Numbers in the states of a batch after all layers (see `MOST_VALUES`), times its steps. A step on an H200 takes 2.7 ms
# per 10 million: a batch takes at most 16 s alone, a minute or two next to others. Little is lost when time is over.
MOST_WORK = 6e10
# Datasets with nodes that have neither features nor a label.
WITH_EMPTY = ("citeseer",)


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
        # By dataset: the number of its lines and of all scores, and the cells that were open then.
        self._found: dict[str, tuple[tuple[int, int], list[tuple[int, AnyCell]]]] = {}

    def find_open_cells(self) -> list[AnyCell]:
        """Return the cells that can be computed now: earlier stages first, and long ones before short ones."""
        lines = read_lines(self._files.lines, BEST_LINES)
        num_scores = len(list(self._files.scores.glob("*")))
        found: list[tuple[int, AnyCell]] = []
        for name in self._datasets:
            own = [line for line in lines if line["dataset"] in (name, f"{name}{WITHOUT_EMPTY}")]
            seen, cells = self._found.get(name, (None, []))
            if seen != (len(own), num_scores):  # otherwise nothing is new for this dataset
                cells = list(self._cells_of(name, own))
                self._found[name] = ((len(own), num_scores), cells)
            found += cells
        ranked = sorted(found, key=lambda pair: (pair[0], -pair[1].cost))
        return list(dict.fromkeys(cell for _, cell in ranked))

    def _cells_of(self, name: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, AnyCell]]:
        """Yield the open cells of a dataset, and the number of their stage."""
        bench = self._bench(name)
        splits, runs = bench.splits, _runs_of(name, lines)
        yield from self._if_asked(SCORES, self._all_scores(name))
        state = follow_search(self._families_of(name), len(splits), runs)
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
        removed = ablated(rows[best], is_directed=bench.dataset.graph.direction != "both")
        ablations = list(trainings_of(ABLATION, removed, splits))
        yield from self._if_asked(ABLATION, self._batches(name, ablations, runs))

    def _families_of(self, name: str) -> Sequence[Family]:
        return fitting_families(self._families, self._bench(name).dataset.num_nodes)

    def _if_asked(self, stage: str, cells: Iterator[AnyCell]) -> Iterator[tuple[int, AnyCell]]:
        if stage in self._stages:
            yield from ((STAGES.index(stage), cell) for cell in cells)

    def _all_scores(self, name: str) -> Iterator[AnyCell]:
        """Yield the scores that the search may need."""
        for family in self._families_of(name):
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
        for batch in evenly(splits, size):
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
            for each in evenly(own, self._batch_size(name, own[0].config)):
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
            skip = skip_of(config, prepared)
            self._scores_files[key] = skip.file_in(self._files.scores, seen_on(prepared, split))
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


def _runs_of(name: str, lines: Sequence[Mapping[str, Any]]) -> Runs:
    return Runs(line for line in lines if (line["dataset"], line["system"]) == (name, SYSTEM))
