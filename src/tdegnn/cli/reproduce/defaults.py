"""`tdegnn reproduce defaults`: what a classifier does without a word, next to a tuned one and to no network at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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


def defaults(
    dataset: Datasets = None,
    splits: Annotated[int, typer.Option(help="Number of splits of each dataset, from the first on.", min=1)] = 10,
    table1: Annotated[Path, typer.Option(help="Result lines of Table 1, for the tuned row.")] = Path(
        "results/table1.jsonl"
    ),
    out: ResultLines = Path("runs/defaults.jsonl"),
    report: Report = False,
    workers: Workers = 1,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Table of defaults: `NodeClassifier()`, the best learned c of Table 1, logistic regression and kernel ridge."""
    from tdegnn.experiments.defaults import COLUMNS, DEFAULT, DEFAULT_LINES, TUNED, compare_defaults, try_defaults
    from tdegnn.experiments.node_results import NODE_LINES, paired_gain
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.side_by_side import compute_cells
    from tdegnn.experiments.table1 import DATASETS

    datasets = choose_names(dataset, DATASETS, "dataset")
    check_report(report, out)
    if not report:
        asked = [(name, split, out, device.value) for name in datasets for split in range(splits)]
        with progress_bar(len(asked), "defaults", is_quiet=quiet or as_json) as tick:
            compute_cells(try_defaults, asked, workers, lambda cell: tick(f"{cell[0]} {cell[1]}"))
    lines = read_lines(out, DEFAULT_LINES, dataset=datasets)
    cells = compare_defaults(lines, read_lines(table1, NODE_LINES, dataset=datasets))
    found = [name for name in datasets if (name, DEFAULT) in cells]
    if as_json:
        records = [
            {"dataset": name, "column": column, "test_accuracy": cell.mean, "splits": cell.test_accuracies}
            for (name, column), cell in cells.items()
        ]
        print_json(records)
        return
    if not quiet:
        rows = []
        for name in found:
            own = [cells.get((name, column)) for column in COLUMNS]
            tuned = cells.get((name, TUNED))
            gain = "-" if tuned is None else f"{paired_gain(cells[name, DEFAULT], tuned).mean:+.2f}"
            rows.append([name, *("-" if cell is None else f"{cell.mean:.2f}" for cell in own), gain])
        print_table("Test accuracy of defaults", ["dataset", *COLUMNS, "default over tuned"], rows)
    typer.echo(f"{len(found)} datasets in {out}.")
