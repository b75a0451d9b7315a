"""`tdegnn reproduce coverage`: how often intervals contain what is observed, on the test steps of a series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Report, ResultLines, check_report, choose_names
from tdegnn.cli.output import print_json, print_table, progress_bar


def coverage(
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="Name of a dataset. Can be repeated. Default: Chickenpox."),
    ] = None,
    window: Annotated[int, typer.Option(help="Number of steps that a forecast sees.", min=4)] = 4,
    seeds: Annotated[int, typer.Option(help="Number of seeds, trained together.", min=1)] = 5,
    out: ResultLines = Path("runs/coverage.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Coverage of 90 % intervals one to four steps ahead: fixed widths, and widths that adapt."""
    from tdegnn.experiments.coverage import COVERAGE_LINES, measure_dataset, summarize_coverage
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.series_tasks import TASKS
    from tdegnn.training.devices import choose_placement

    datasets = choose_names(dataset or ["chickenpox"], tuple(TASKS), "dataset")
    check_report(report, out)
    if not report:
        placement = choose_placement(device.value)
        with progress_bar(len(datasets), "coverage", is_quiet=quiet or as_json) as tick:
            for name in datasets:
                measure_dataset(name, out, placement=placement, window=window, seeds=range(seeds))
                tick(name)
    cells = summarize_coverage(read_lines(out, COVERAGE_LINES, dataset=datasets))
    if as_json:
        print_json(
            [
                {"dataset": name, "window": size, "intervals": kind, "coverage": reached.tolist()}
                for (name, size, kind), reached in cells.items()
            ]
        )
        return
    if not quiet:
        header = ["dataset", "window", "intervals", *(f"step {step}" for step in range(1, 5))]
        rows = [
            [name, str(size), kind, *(f"{100 * share:.1f} %" for share in reached)]
            for (name, size, kind), reached in cells.items()
        ]
        print_table("Share of observations in the intervals of 90 %, on the test steps", header, rows)
    typer.echo(f"{len(cells)} rows in {out}.")
