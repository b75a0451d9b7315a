"""`tdegnn reproduce defaults`: what a classifier does without a word, next to a tuned one and to no network at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import Datasets, choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers


@with_groups
def defaults(
    dataset: Datasets = None,
    splits: Annotated[int, typer.Option(help="Number of splits of each dataset, from the first on.", min=1)] = 10,
    table1: Annotated[Path, typer.Option(help="Result lines of Table 1, for the tuned row.")] = Path(
        "results/table1.jsonl"
    ),
    run: ExperimentOptions = ExperimentOptions(Path("runs/defaults.jsonl")),
    workers: Workers = 1,
) -> None:
    """Table of defaults: `NodeClassifier()`, the best learned c of Table 1, logistic regression and kernel ridge."""
    from tdegnn.experiments.defaults import COLUMNS, DEFAULT, DEFAULT_LINES, TUNED, compare_defaults, try_defaults
    from tdegnn.experiments.node_results import NODE_LINES, paired_gain
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.table1 import DATASETS

    datasets = choose_names(dataset, DATASETS, "dataset")
    asked = [(name, split, run.out, run.device.value) for name in datasets for split in range(splits)]
    run.compute(try_defaults, asked, "defaults", num_workers=workers)
    lines = run.read(DEFAULT_LINES, dataset=datasets)
    cells = compare_defaults(lines, read_lines(table1, NODE_LINES, dataset=datasets))
    records = [
        {"dataset": name, "column": column, "test_accuracy": cell.mean, "splits": cell.test_accuracies}
        for (name, column), cell in cells.items()
    ]
    rows = []
    for name in datasets:
        if (name, DEFAULT) in cells:
            own = [cells.get((name, column)) for column in COLUMNS]
            tuned = cells.get((name, TUNED))
            gain = "-" if tuned is None else f"{paired_gain(cells[name, DEFAULT], tuned).mean:+.2f}"
            rows.append([name, *("-" if cell is None else f"{cell.mean:.2f}" for cell in own), gain])
    header = ["dataset", *COLUMNS, "default over tuned"]
    run.show(records, [("Test accuracy of defaults", header, rows)], f"{len(rows)} datasets in {run.out}.")
