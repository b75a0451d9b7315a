"""`tdegnn reproduce best`: the search for the best network of each dataset, its rows, and its ablation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import (
    AsJson,
    Datasets,
    Device,
    DeviceOption,
    Picture,
    Quiet,
    Report,
    ResultLines,
    check_report,
    choose_names,
)
from tdegnn.cli.output import print_json, print_table, progress_bar
from tdegnn.cli.reproduce.operators import Workers

if TYPE_CHECKING:
    from tdegnn.experiments.best_tables import BestResult, Tried
    from tdegnn.experiments.node_results import Cell


class StageOption(StrEnum):
    """What is computed."""

    SCORES = "scores"
    SEARCH = "search"
    ROWS = "rows"
    ABLATION = "ablation"


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
    out: ResultLines = Path("runs/best.jsonl"),
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
    report: Report = False,
    picture: Picture = None,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search the best network of each dataset by validation; then its rules for c, five seeds, and its ingredients."""
    from tdegnn.analysis.plots import save_figure
    from tdegnn.experiments.best_cells import BEST_LINES, Files, compute_cell
    from tdegnn.experiments.best_plan import STAGES, Plan
    from tdegnn.experiments.best_plots import plot_curves
    from tdegnn.experiments.best_search import most_steps, read_families
    from tdegnn.experiments.best_tables import adopt_best, summarize_best, summarize_families
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.side_by_side import compute_open_cells
    from tdegnn.experiments.table1 import DATASETS
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, DATASETS, "dataset")
    check_report(report, out)
    num_open = 0
    if not report:
        start, placement = time.monotonic(), choose_placement(device.value)
        asked = [each.value for each in stage] if stage else STAGES[1:]
        plan = Plan(datasets, asked, Files(out))
        with progress_bar(None, "best", is_quiet=quiet or as_json) as tick:
            compute_open_cells(
                compute_cell,
                lambda: [(cell, Files(out), placement) for cell in plan.find_open_cells()],
                workers,
                lambda cell: tick(str(cell[0])),
                lambda: minutes is not None and time.monotonic() - start >= 60 * minutes,
            )
        num_open = len(plan.find_open_cells())
    if recipes is not None:
        adopt_best(out, recipes, recipes / "table1.jsonl")
    lines = read_lines(out, BEST_LINES)
    found = {name: result for name in datasets if (result := summarize_best(lines, name)) is not None}
    if found:
        save_figure(plot_curves(lines, found), picture or out.with_suffix(".png"))
    if as_json:
        print_json([_to_record(name, result) for name, result in found.items()])
        return
    if not quiet:
        _print_families({name: summarize_families(lines, name) for name in datasets})
    if found and not quiet:
        _print_rows(found)
        _print_worth(found)
        _print_ablation(found)
    rest = f" {num_open} cells can be computed next: run the command again." if num_open else ""
    typer.echo(
        f"{len(found)} of {len(datasets)} datasets have all rows, in {out}. The budget of a search is "
        f"{most_steps(read_families(), 10):,} steps per dataset.{rest}"
    )


def _show(cell: Cell) -> list[str]:
    from tdegnn.experiments.best_tables import validation_of

    return [f"{validation_of(cell):.2f}", f"{cell.mean:.2f} ± {cell.deviation:.2f}"]


def _print_families(tried: Mapping[str, Mapping[str, Tried]]) -> None:
    rows = [
        [name, family, each.stage, str(each.num_configs), f"{each.validation:.2f}", f"{each.test:.2f}"]
        for name, families in tried.items()
        for family, each in families.items()
    ]
    if rows:
        header = ["dataset", "family", "last rung", "configurations", "validation there", "test there"]
        print_table("Families of the search, their best configuration in the last rung that they entered", header, rows)


def _print_rows(found: Mapping[str, BestResult]) -> None:
    from tdegnn.experiments.best_tables import describe_backbone

    finalists = [
        [name, describe_backbone(config), *_show(cell)]
        for name, result in found.items()
        for config, cell in result.finalists
    ]
    print_table("Finalists of the search, with c = [1]", ["dataset", "network", "validation", "test"], finalists)
    rows = []
    for name, result in found.items():
        rows += [[name, str(row), *_show(cell)] for row, cell in result.rows.items()]
        if result.mean_of_seeds is not None:
            rows.append([name, f"{result.best}, mean of five seeds", *_show(result.mean_of_seeds)])
        rows += [[f"{name}, without empty nodes", str(row), *_show(cell)] for row, cell in result.without_empty.items()]
    print_table("Rows on the best network, mean over the splits", ["dataset", "row", "validation", "test"], rows)


def _print_worth(found: Mapping[str, BestResult]) -> None:
    rows = [
        [name, str(result.nested.gain), "; ".join(map(str, dict.fromkeys(result.nested.chosen)))]
        for name, result in found.items()
    ]
    title = "What learned time adds over c = [1]: chosen on half of the splits, measured on the other, both ways"
    print_table(title, ["dataset", "points (95 % interval)", "chosen rows"], rows)


def _print_ablation(found: Mapping[str, BestResult]) -> None:
    rows = [
        [name, str(result.best), ingredient, str(gain)]
        for name, result in found.items()
        for ingredient, gain in result.ablation.items()
    ]
    if rows:
        header = ["dataset", "best row", "without", "points of the best row over it (95 % interval)"]
        print_table("One ingredient removed at a time, paired over the splits", header, rows)


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
