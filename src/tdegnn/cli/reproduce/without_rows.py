"""`tdegnn reproduce without-rows`: what the rows of the adjacency matrix add to our rows of Table 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def without_rows(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="squirrel or chameleon. Can be repeated. Default: both.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="DE-GNN, TDE-GNN_D or TDE-GNN_A. Can be repeated. Default: all."),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/without_rows.jsonl")),
) -> None:
    """Accuracy of our recipes without the rows of the adjacency matrix as features, on ten splits."""
    from tdegnn.experiments.without_rows import (
        DATASETS,
        ROWLESS_LINES,
        SYSTEMS,
        summarize_rowless,
        train_without_rows,
    )

    datasets, systems = choose_names(dataset, DATASETS, "dataset"), choose_names(system, SYSTEMS, "system")
    asked = ((name, row, run.out, run.placement) for name in datasets for row in systems)
    run.compute(train_without_rows, asked, "without rows")
    cells = summarize_rowless(run.read(ROWLESS_LINES, dataset=datasets, system=systems))
    records = [
        {"dataset": name, "system": row, "test_accuracy": cell.mean, "deviation": cell.deviation}
        for (name, row), cell in cells.items()
    ]
    rows = [[name, row, f"{cell.mean:.2f} ± {cell.deviation:.2f}"] for (name, row), cell in cells.items()]
    table = ("Test accuracy without adjacency rows", ["dataset", "system", "accuracy"], rows)
    run.show(records, [table], f"{len(cells)} rows in {run.out}.")
