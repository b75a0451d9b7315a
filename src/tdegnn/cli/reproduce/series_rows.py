"""`tdegnn reproduce series-rows`: Table 2 with the same search for every system, and what a learned c is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from tdegnn.cli.options import Datasets, choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers
from tdegnn.cli.reproduce.table2 import SeriesSystems, Window


@with_groups
def series_rows(
    dataset: Datasets = None,
    system: SeriesSystems = None,
    window: Window = 4,
    run: ExperimentOptions = ExperimentOptions(Path("runs/table2_searched.jsonl")),
    workers: Workers = 1,
) -> None:
    """Search the settings of every system of Table 2: twelve configurations each; then our best with every rule."""
    from tdegnn.experiments.series_rows import shown_names
    from tdegnn.experiments.series_search import (
        ROW,
        SEARCHED_LINES,
        SYSTEMS,
        SeriesCell,
        leads_over_rivals,
        search_cell,
        summarize_searched,
        train_rules,
        worth_of_rules,
    )
    from tdegnn.experiments.series_tasks import TASKS
    from tdegnn.experiments.side_by_side import compute_cells

    datasets = choose_names(dataset, tuple(TASKS), "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    if run.must_compute():
        cells = [(SeriesCell(name, window, row), run.out, run.placement) for name in datasets for row in systems]
        with run.progress(len(cells) + len(datasets), "series rows") as tick:
            compute_cells(search_cell, cells, workers, lambda cell: tick(f"{cell[0].dataset} {cell[0].system}"))
            rules = [(name, window, run.out, run.placement) for name in datasets]
            compute_cells(train_rules, rules, min(workers, len(rules)), lambda cell: tick(f"{cell[0]} rules"))
    lines = run.read(SEARCHED_LINES, dataset=datasets)
    rows, worth = summarize_searched(lines, ROW), worth_of_rules(lines)
    leads, shown = leads_over_rivals(rows), shown_names(lines)
    record = {
        "rows": [_to_record(key, own) | {"panel": shown[key[0]]} for key, own in rows.items()],
        "rules": [
            {"dataset": key[0], "window": key[1], "states": key[2], "system": key[3], "saved": astuple(gain)}
            for key, gain in worth.items()
        ],
        "leads": [
            {"dataset": key[0], "window": key[1], "rival": key[2], "ours": lead.ours, "lead": astuple(lead.gain)}
            for key, lead in leads.items()
        ],
    }
    header = ["dataset", "window", "system", "validation", "test"]
    title = "Forecasting one step ahead, mean squared error, chosen on validation among twelve configurations"
    tables = [(title, header, [[shown[key[0]], *_texts(key, own)] for key, own in rows.items()])]
    if worth:
        header = ["dataset", "window", "states", "system", "lower by"]
        title = "By how much a rule for c lowers the error of c = [1], paired over the test steps (95 % interval)"
        tables.append(
            (title, header, [[shown[key[0]], *map(str, key[1:]), gain.text(4)] for key, gain in worth.items()])
        )
    if leads:
        header = ["dataset", "window", "rival", "ours", "rival's error minus ours"]
        title = "Rivals and our best learned rule by validation, paired over the test steps (95 % interval)"
        texts = [[shown[key[0]], str(key[1]), key[2], lead.ours, lead.gain.text(4)] for key, lead in leads.items()]
        tables.append((title, header, texts))
    run.show(record, tables, f"{len(rows)} rows in {run.out}.")


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
    return [str(key[1]), key[2], f"{on_validation:.3f}", f"{fmean(errors):.3f} ± {pstdev(errors):.3f}"]
