"""`tdegnn reproduce direction`: what the direction of links is worth to some systems of Table 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def direction(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="A graph with directed links. Can be repeated. Default: all.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="GCN, GAT, FAGCN, LINKX or DE-GNN. Can be repeated. Default: all."),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/direction.jsonl")),
) -> None:
    """Accuracy of some systems along links, against links, and along both directions, on ten splits."""
    from tdegnn.experiments.direction import (
        DIRECTED,
        DIRECTION_LINES,
        DIRECTIONS,
        SYSTEMS,
        summarize_directions,
        train_directions,
    )

    datasets = choose_names(dataset, DIRECTED, "dataset")
    systems = choose_names(system, SYSTEMS, "system")
    asked = ((name, row, run.out, run.placement) for name in datasets for row in systems)
    run.compute(train_directions, asked, "direction")
    cells = summarize_directions(run.read(DIRECTION_LINES, dataset=datasets, system=systems))
    records = [
        {"dataset": name, "system": row, "direction": way, "test_accuracy": cell.mean, "deviation": cell.deviation}
        for (name, row, way), cell in cells.items()
    ]
    texts = {key: f"{cell.mean:.2f} ± {cell.deviation:.2f}" for key, cell in cells.items()}
    pairs = list(dict.fromkeys((name, row) for name, row, _ in cells))
    rows = [[name, row, *(texts.get((name, row, way), "-") for way in DIRECTIONS)] for name, row in pairs]
    table = ("Test accuracy by whose states a node receives", ["dataset", "system", *DIRECTIONS], rows)
    run.show(records, [table], f"{len(cells)} rows in {run.out}.")
