"""`tdegnn reproduce as-published`: cells of Table 1 made as the published numbers were, where ours are far off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers


@with_groups
def as_published(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: all.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option("--system", help="A row, for example GCN. Can be repeated. Default: all.", show_default=False),
    ] = None,
    run: ExperimentOptions = ExperimentOptions(Path("runs/as_published.jsonl")),
    workers: Workers = 1,
) -> None:
    """Cells of Table 1 made as the published numbers were, where ours are more than 1.5 points from them."""
    from tdegnn.experiments.as_published import (
        PUBLISHED_LINES,
        read_published_ways,
        summarize_published_ways,
        train_as_published,
    )
    from tdegnn.experiments.paper import PUBLISHED_ACCURACY

    ways = read_published_ways()
    systems = choose_names(system, tuple(dict.fromkeys(row for row, _ in ways)), "system")
    datasets = choose_names(dataset, tuple(dict.fromkeys(name for _, name in ways)), "dataset")
    asked = [way for (row, name), way in ways.items() if row in systems and name in datasets]
    cells = ((way, run.out, run.placement) for way in asked)
    run.compute(
        train_as_published, cells, "as published", lambda way, *_: f"{way.dataset} {way.system}", num_workers=workers
    )
    found = summarize_published_ways(run.read(PUBLISHED_LINES, dataset=datasets, system=systems))
    records, rows = [], []
    for (row, name), (way, cell) in found.items():
        printed = PUBLISHED_ACCURACY[row][name].mean
        num_splits = len(cell.test_accuracies)
        records.append(
            {
                "dataset": name,
                "system": row,
                "made": way.made,
                "published": printed,
                "test_accuracy": cell.mean,
                "deviation": cell.deviation,
                "splits": num_splits,
            }
        )
        accuracy = f"{cell.mean:.2f} ± {cell.deviation:.2f}"
        rows.append([name, row, way.made, f"{printed:.2f}", accuracy, str(num_splits)])
    header = ["dataset", "system", "as published", "published", "made so", "splits"]
    run.show(records, [("Test accuracy, made as published", header, rows)], f"{len(rows)} cells in {run.out}.")
