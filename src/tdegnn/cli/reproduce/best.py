"""`tdegnn reproduce best`: the search for the best network of each dataset, its rows, and its ablation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import Datasets, Picture, choose_names, with_groups
from tdegnn.cli.output import TextTable
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers

if TYPE_CHECKING:
    from tdegnn.experiments.best_tables import BestResult, Tried
    from tdegnn.experiments.node_results import Cell


class StageOption(StrEnum):
    """What is computed."""

    SCORES = "scores"
    SEARCH = "search"
    ROWS = "rows"
    ABLATION = "ablation"


@with_groups
def best(
    dataset: Datasets = None,
    stage: Annotated[
        list[StageOption] | None,
        typer.Option(
            "--stage",
            help="What is computed. Can be repeated. [bold]scores[/bold] solves for all kernel skips beforehand.",
            show_default="search, rows and ablation",
        ),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/best.jsonl")),
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Begin nothing after this many minutes. The same command does the rest later."),
    ] = None,
    recipes: Annotated[
        Path | None,
        typer.Option(
            help="Folder that gets the best rows, as recipes, and their runs, as table1.jsonl.", show_default="none"
        ),
    ] = None,
    picture: Picture = None,
    workers: Workers = 1,
) -> None:
    """Search the best network of each dataset by validation; then its rules for c, five seeds, and its ingredients."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.best_cells import BEST_LINES, Files, compute_cell
    from tdegnn.experiments.best_plan import STAGES, Plan
    from tdegnn.experiments.best_plots import plot_curves
    from tdegnn.experiments.best_search import most_steps, read_families
    from tdegnn.experiments.best_tables import adopt_best, summarize_best, summarize_families
    from tdegnn.experiments.side_by_side import compute_open_cells
    from tdegnn.experiments.table1 import DATASETS

    datasets = choose_names(dataset, DATASETS, "dataset")
    num_open = 0
    if run.must_compute():
        start, placement = time.monotonic(), run.placement
        asked = [each.value for each in stage] if stage else STAGES[1:]
        plan = Plan(datasets, asked, Files(run.out))
        with run.progress(None, "best") as tick:
            compute_open_cells(
                compute_cell,
                lambda: [(cell, Files(run.out), placement) for cell in plan.find_open_cells()],
                workers,
                lambda cell: tick(str(cell[0])),
                lambda: minutes is not None and time.monotonic() - start >= 60 * minutes,
            )
        num_open = len(plan.find_open_cells())
    if recipes is not None:
        adopt_best(run.out, recipes, recipes / "table1.jsonl")
    lines = run.read(BEST_LINES)
    found = {name: result for name in datasets if (result := summarize_best(lines, name)) is not None}
    if found:
        save_figure(plot_curves(lines, found), picture or run.out.with_suffix(".png"))
    rest = f" {num_open} cells can be computed next: run the command again." if num_open else ""
    run.show(
        [_to_record(name, result) for name, result in found.items()],
        _tables({name: summarize_families(lines, name) for name in datasets}, found),
        f"{len(found)} of {len(datasets)} datasets have all rows, in {run.out}. The budget of a search is "
        f"{most_steps(read_families(), 10):,} steps per dataset.{rest}",
    )


def _tables(tried: Mapping[str, Mapping[str, Tried]], found: Mapping[str, BestResult]) -> Iterator[TextTable]:
    yield from _table_of_families(tried)
    if found:
        yield _table_of_finalists(found)
        yield _table_of_rows(found)
        yield _table_of_worth(found)
        yield from _table_of_ingredients(found)


def _show(cell: Cell) -> list[str]:
    from tdegnn.experiments.best_tables import validation_of

    return [f"{validation_of(cell):.2f}", f"{cell.mean:.2f} ± {cell.deviation:.2f}"]


def _table_of_families(tried: Mapping[str, Mapping[str, Tried]]) -> Iterator[TextTable]:
    rows = [
        [name, family, each.stage, str(each.num_configs), f"{each.validation:.2f}", f"{each.test:.2f}"]
        for name, families in tried.items()
        for family, each in families.items()
    ]
    if rows:
        header = ["dataset", "family", "last rung", "configurations", "validation there", "test there"]
        yield "Families of the search, their best configuration in the last rung that they entered", header, rows


def _table_of_finalists(found: Mapping[str, BestResult]) -> TextTable:
    from tdegnn.experiments.best_tables import describe_backbone

    rows = [
        [name, describe_backbone(config), *_show(cell)]
        for name, result in found.items()
        for config, cell in result.finalists
    ]
    return "Finalists of the search, with c = [1]", ["dataset", "network", "validation", "test"], rows


def _table_of_rows(found: Mapping[str, BestResult]) -> TextTable:
    rows = []
    for name, result in found.items():
        rows += [[name, str(row), *_show(cell)] for row, cell in result.rows.items()]
        if result.mean_of_seeds is not None:
            rows.append([name, f"{result.best}, mean of five seeds", *_show(result.mean_of_seeds)])
        rows += [[f"{name}, without empty nodes", str(row), *_show(cell)] for row, cell in result.without_empty.items()]
    return "Rows on the best network, mean over the splits", ["dataset", "row", "validation", "test"], rows


def _table_of_worth(found: Mapping[str, BestResult]) -> TextTable:
    rows = [
        [name, str(result.nested.gain), "; ".join(map(str, dict.fromkeys(result.nested.chosen)))]
        for name, result in found.items()
    ]
    title = "What learned time adds over c = [1]: chosen on half of the splits, measured on the other, both ways"
    return title, ["dataset", "points (95 % interval)", "chosen rows"], rows


def _table_of_ingredients(found: Mapping[str, BestResult]) -> Iterator[TextTable]:
    rows = [
        [name, str(result.best), ingredient, str(gain)]
        for name, result in found.items()
        for ingredient, gain in result.ablation.items()
    ]
    if rows:
        header = ["dataset", "best row", "without", "points of the best row over it (95 % interval)"]
        yield "One ingredient removed at a time, paired over the splits", header, rows


def _to_record(name: str, result: BestResult) -> dict[str, Any]:
    from tdegnn.experiments.best_tables import validation_of

    def cell_record(cell: Cell | None) -> dict[str, Any] | None:
        if cell is None:
            return None
        return {
            "validation_accuracy": validation_of(cell),
            "test_accuracy": cell.mean,
            "deviation": cell.deviation,
            "splits": cell.test_accuracies,
        }

    return {
        "dataset": name,
        "best": str(result.best),
        "configuration": result.configs[result.best].to_record(),
        "rows": {str(row): cell_record(cell) for row, cell in result.rows.items()},
        "mean_of_five_seeds": cell_record(result.mean_of_seeds),
        "without_empty_nodes": {str(row): cell_record(cell) for row, cell in result.without_empty.items()},
        "learned_time": {"points": str(result.nested.gain), "chosen": [str(row) for row in result.nested.chosen]},
        "ablation": {ingredient: str(gain) for ingredient, gain in result.ablation.items()},
        "seconds": result.seconds,
        "num_trainings": result.num_trainings,
    }
