"""`tdegnn reproduce series-rows`: Table 2 with the same search for every system, and what a learned c is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import typer

from tdegnn.cli.options import (
    AsJson,
    Datasets,
    Device,
    DeviceOption,
    Quiet,
    Report,
    ResultLines,
    check_report,
    choose_names,
)
from tdegnn.cli.output import print_json, print_table, progress_bar
from tdegnn.cli.reproduce.operators import Workers
from tdegnn.cli.reproduce.table2 import SeriesSystems, Window


def series_rows(
    dataset: Datasets = None,
    system: SeriesSystems = None,
    window: Window = 4,
    out: ResultLines = Path("runs/table2_searched.jsonl"),
    report: Report = False,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search the settings of every system of Table 2: twelve configurations each; then our best with every rule."""
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.series_search import (
        ROW,
        RULES,
        SEARCHED_LINES,
        SYSTEMS,
        SeriesCell,
        search_cell,
        summarize_searched,
        train_rules,
        worth_of_rules,
    )
    from tdegnn.experiments.series_tasks import TASKS
    from tdegnn.experiments.side_by_side import compute_cells
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    check_report(report, out)
    if not report:
        placement = choose_placement(device.value)
        cells = [(SeriesCell(name, window, row), out, placement) for name in datasets for row in systems]
        with progress_bar(len(cells) + len(datasets), "series rows", is_quiet=quiet or as_json) as tick:
            compute_cells(search_cell, cells, workers, lambda cell: tick(f"{cell[0].dataset} {cell[0].system}"))
            rules = [(name, window, out, placement) for name in datasets]
            compute_cells(train_rules, rules, min(workers, len(rules)), lambda cell: tick(f"{cell[0]} rules"))
    lines = read_lines(out, SEARCHED_LINES, dataset=datasets)
    rows, worth = summarize_searched(lines, ROW), worth_of_rules(summarize_searched(lines, RULES))
    if as_json:
        print_json(
            {
                "rows": [_to_record(key, own) for key, own in rows.items()],
                "rules": [
                    {"dataset": key[0], "window": key[1], "system": key[2], "saved": astuple(gain)}
                    for key, gain in worth.items()
                ],
            }
        )
        return
    if not quiet:
        header = ["dataset", "window", "system", "validation", "test"]
        title = "Forecasting one step ahead, mean squared error, chosen on validation among twelve configurations"
        print_table(title, header, [_texts(key, own) for key, own in rows.items()])
        if worth:
            table = [[key[0], str(key[1]), key[2], gain.text(4)] for key, gain in worth.items()]
            title = "By how much a rule for c lowers the error of c = [1], paired over the test steps (95 % interval)"
            print_table(title, ["dataset", "window", "system", "lower by"], table)
    typer.echo(f"{len(rows)} rows in {out}.")


def _to_record(key: tuple[str, int, str], lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "dataset": key[0],
        "window": key[1],
        "system": key[2],
        "validation_mse": [line["validation_mse"] for line in lines],
        "test_mse": [line["test_mse"] for line in lines],
        "configuration": lines[0]["configuration"],
    }


def _texts(key: tuple[str, int, str], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    on_validation = fmean(line["validation_mse"] for line in lines)
    errors = [line["test_mse"] for line in lines]
    return [key[0], str(key[1]), key[2], f"{on_validation:.3f}", f"{fmean(errors):.3f} ± {pstdev(errors):.3f}"]
