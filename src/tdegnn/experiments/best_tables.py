"""The tables of `tdegnn reproduce best`, from its result lines; and the best rows as recipes and rows of Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tdegnn.experiments.best_cells import BEST_LINES, MEAN_SYSTEM, NUM_SEEDS, WITHOUT_EMPTY
from tdegnn.experiments.best_rows import NestedGain, Row, ablated, best_row, nested_gain, row_configs
from tdegnn.experiments.best_search import RUNG_1, RUNGS, SYSTEM, Family, Runs, follow_search, read_families, seed_of
from tdegnn.experiments.gain import Gain
from tdegnn.experiments.node_results import NODE_LINES, Cell, paired_gain
from tdegnn.experiments.operator_rules import EULER
from tdegnn.experiments.recipe_files import write_recipe
from tdegnn.experiments.records import append_lines, read_lines
from tdegnn.experiments.table1 import BEST_FIXED, BEST_LEARNED
from tdegnn.nodes.settings import FAMILIES, NodeConfig


class Tried(NamedTuple):
    """What was tried of a family on a dataset.

    Attributes:
        stage: The last rung that it entered.
        validation: Mean validation accuracy of its best configuration there, in percent.
        test: Mean test accuracy of this configuration.
        num_configs: Number of configurations in all rungs.
    """

    stage: str
    validation: float
    test: float
    num_configs: int


@dataclass(frozen=True)
class BestResult:
    """What is known of one dataset.

    Attributes:
        finalists: The finalists of the search and their cells, the best on validation first.
        configs: The configuration of each row.
        rows: The cell of each row.
        best: The row with the highest mean validation accuracy.
        mean_of_seeds: The cell of the mean of five seeds of the best row. None if it is not complete.
        seeds: The cells of these seeds, one by one, those that are complete.
        ablation: What the best row gains on test by each of its ingredients, paired over the splits.
        without_empty: The cells of rows that were trained and tested without nodes that have no features.
        seconds: Time of all trainings, summed over the processes.
        num_trainings: Number of all trainings.
    """

    finalists: Sequence[tuple[NodeConfig, Cell]]
    configs: Mapping[Row, NodeConfig]
    rows: Mapping[Row, Cell]
    best: Row
    mean_of_seeds: Cell | None
    seeds: Sequence[Cell]
    ablation: Mapping[str, Gain]
    without_empty: Mapping[Row, Cell]
    seconds: float
    num_trainings: int

    @property
    def best_learned(self) -> Row:
        """The row with a learned rule and the highest mean validation accuracy."""
        return max((row for row in self.rows if row.rule != EULER), key=lambda row: validation_of(self.rows[row]))

    @property
    def best_fixed(self) -> Row:
        """The row with c = [1] and the highest mean validation accuracy."""
        return max((row for row in self.rows if row.rule == EULER), key=lambda row: validation_of(self.rows[row]))

    @property
    def nested(self) -> NestedGain:
        """What learned time is worth."""
        return nested_gain(self.rows)


def validation_of(cell: Cell) -> float:
    """Return the mean validation accuracy over the splits."""
    return fmean(cell.validation_accuracies.values())


def describe_backbone(config: NodeConfig) -> str:
    """Return the parts of a configuration in a few words."""
    parts = {name: getattr(config, name) for name in ("input_map", "state_norm", "readout", "skip")}
    usual = {"input_map": "linear", "readout": "last"}
    named = {name: FAMILIES[name].name_of(part) for name, part in parts.items() if part is not None}
    words = [f"{name.replace('_', ' ')} {known}" for name, known in named.items() if usual.get(name) != known]
    flags = ("adjacency_features", "normalized_features", "self_loops")
    words += [name.replace("_", " ") for name in flags if getattr(config, name)]
    words += [] if config.direction is None else [f"direction {config.direction}"]
    words += [] if config.optimizer == "adam" else [config.optimizer]
    words += [] if config.select_by == "accuracy" else ["by loss"]
    size = f"{config.num_layers} x {config.hidden_channels}"
    return ", ".join([FAMILIES["operator"].name_of(config.operator), size, *words])


def summarize_families(lines: Sequence[Mapping[str, Any]], dataset: str) -> dict[str, Tried]:
    """Return what was tried of each family on a dataset."""
    by_config: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    stages = [rung.name for rung in RUNGS]
    for line in lines:
        if line["dataset"] == dataset and line["stage"] in stages:
            family = line["group"].rpartition(", shape")[0]
            by_config.setdefault((family, line["stage"], str(line["configuration"])), []).append(line)
    cells = {key: Cell.from_lines(members) for key, members in by_config.items()}
    tried = {}
    for family in dict.fromkeys(key[0] for key in cells):
        last = max(stage for name, stage, _ in cells if name == family)
        best = max((cell for key, cell in cells.items() if key[:2] == (family, last)), key=validation_of)
        tried[family] = Tried(last, validation_of(best), best.mean, sum(key[0] == family for key in cells))
    return dict(sorted(tried.items(), key=lambda pair: (pair[1].stage, pair[1].validation), reverse=True))


def summarize_best(
    lines: Sequence[Mapping[str, Any]], dataset: str, families: Sequence[Family] | None = None
) -> BestResult | None:
    """Return what is known of a dataset. None if its rows are not complete.

    Args:
        lines: Result lines of any datasets.
        dataset: Name of the dataset.
        families: What was searched. If None, `best_searches.toml`.
    """
    all_own = [line for line in lines if line["dataset"] == dataset]
    own = [line for line in all_own if line["system"] == SYSTEM]
    splits = range(1 + max((line["split"] for line in own), default=0))
    runs = Runs(own)
    # Families whose networks are too large for the graph have no lines.
    begun = {line["group"].rpartition(", shape")[0] for line in own if line["stage"] == RUNG_1.name}
    searched = [family for family in (read_families() if families is None else families) if family.name in begun]
    state = follow_search(searched, len(splits), runs)
    configs = row_configs(state.finalists[0]) if state.finalists else {}
    rows = {row: found for row, config in configs.items() if (found := _cell(own, config, len(splits))) is not None}
    if not rows or len(rows) < len(configs):
        return None
    best = best_row(configs, splits, runs)
    config = configs[best]
    removed = {name: _cell(own, other, len(splits)) for name, other in ablated(config).items()}
    variant = [line for line in lines if line["dataset"] == f"{dataset}{WITHOUT_EMPTY}"]
    variant_cells = {row: _cell(variant, other, len(splits)) for row, other in configs.items()}
    by_seed = [_cell(own, config, len(splits), number) for number in range(NUM_SEEDS)]
    means = [line for line in all_own if line["system"] == MEAN_SYSTEM]
    return BestResult(
        [(each, found) for each in state.finalists if (found := _cell(own, each, len(splits))) is not None],
        configs,
        rows,
        best,
        _cell(means, config, len(splits), None),
        [cell for cell in by_seed if cell is not None],
        {name: paired_gain(rows[best], cell) for name, cell in removed.items() if cell is not None},
        {row: cell for row, cell in variant_cells.items() if cell is not None},
        sum(line["seconds"] for line in (*own, *variant)),
        len(own) + len(variant),
    )


def _cell(lines: Sequence[Mapping[str, Any]], config: NodeConfig, num_splits: int, seed: int | None = 0) -> Cell | None:
    """Return the cell of a configuration. None if it is not complete."""
    record = config.to_record()
    chosen = [
        line
        for line in lines
        if line["configuration"] == record and line["seed"] == (None if seed is None else seed_of(line["split"], seed))
    ]
    return Cell.from_lines(chosen) if len({line["split"] for line in chosen}) == num_splits else None


def adopt_best(path: Path, recipes: Path, table: Path, families: Sequence[Family] | None = None) -> list[str]:
    """Make the best row with c = [1], and the best one with a learned rule, recipes and rows of Table 1.

    Args:
        path: The result lines.
        recipes: The folder of recipes.
        table: The result lines of Table 1.
        families: As in `summarize_best`.

    Returns:
        The datasets.
    """
    lines = read_lines(path, BEST_LINES)
    adopted = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        result = summarize_best(lines, name, families)
        if result is None:
            continue
        for row, system in ((result.best_fixed, BEST_FIXED), (result.best_learned, BEST_LEARNED)):
            record = result.configs[row].to_record()
            write_recipe(recipes / f"{name}.toml", replace(result.configs[row], system=system))
            chosen = [
                {**line, "system": system, "configuration": {**record, "system": system}}
                for line in lines
                if (line["dataset"], line["system"], line["configuration"]) == (name, SYSTEM, record)
                and line["seed"] == seed_of(line["split"])
            ]
            append_lines(table, chosen, NODE_LINES)
        adopted.append(name)
    return adopted
