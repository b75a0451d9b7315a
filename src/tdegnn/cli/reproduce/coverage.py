"""`tdegnn reproduce coverage`: how often intervals contain what is observed, on the test steps of a series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def coverage(
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: Chickenpox."),
    ] = None,
    window: Annotated[int, typer.Option(help="Number of steps that a forecast sees.", min=4)] = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=1)] = 5,
    run: ExperimentOptions = ExperimentOptions(Path("runs/coverage.jsonl")),
) -> None:
    """Coverage of 90 % intervals one to four steps ahead: fixed widths, and widths that adapt."""
    from tdegnn.experiments.coverage import COVERAGE_LINES, measure_dataset, summarize_coverage
    from tdegnn.experiments.series_tasks import TASKS

    datasets = choose_names(dataset or ["chickenpox"], tuple(TASKS), "dataset")
    run.compute(
        lambda name: measure_dataset(name, run.out, placement=run.placement, window=window, seeds=range(seeds)),
        [(name,) for name in datasets],
        "coverage",
    )
    cells = summarize_coverage(run.read(COVERAGE_LINES, dataset=datasets))
    records = [
        {"dataset": name, "window": size, "intervals": kind, "coverage": reached.tolist()}
        for (name, size, kind), reached in cells.items()
    ]
    header = ["dataset", "window", "intervals", *(f"step {step}" for step in range(1, 5))]
    rows = [
        [name, str(size), kind, *(f"{100 * share:.1f} %" for share in reached)]
        for (name, size, kind), reached in cells.items()
    ]
    title = "Share of observations in the intervals of 90 %, on the test steps"
    run.show(records, [(title, header, rows)], f"{len(cells)} rows in {run.out}.")
