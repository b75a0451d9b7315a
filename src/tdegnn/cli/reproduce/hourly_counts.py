"""`tdegnn reproduce hourly-counts`: what a forecaster does without a word on counts, most of them zero."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Report, ResultLines, check_report
from tdegnn.cli.output import print_json, print_table, progress_bar, share


def hourly_counts(
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 3,
    first_seed: Annotated[int, typer.Option(help="The first seed. The others follow it.", min=0)] = 0,
    out: ResultLines = Path("runs/hourly_counts.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Error and intervals of `Forecaster(horizon=12)` on simulated hourly counts, against the true rate."""
    from tdegnn.experiments.hourly_counts import COUNT_LINES, summarize_counts, try_counts
    from tdegnn.experiments.records import read_lines

    check_report(report, out)
    if not report:
        with progress_bar(seeds, "hourly counts", is_quiet=quiet or as_json) as tick:
            for seed in range(first_seed, first_seed + seeds):
                try_counts(seed, out, device.value)
                tick(f"seed {seed}")
    lines = read_lines(out, COUNT_LINES)
    found = summarize_counts(lines) if lines else {}
    if as_json:
        print_json(found)
        return
    if not quiet and found:
        header = ["seeds", "MSE over that of the true rate", "mean by hour and weekday", "in intervals", "of positive"]
        shares = [share(found["coverage"]), share(found["coverage_of_positive"])]
        row = [f"{found['seeds']:.0f}", f"{found['error_ratio']:.3f}", f"{found['naive_ratio']:.3f}", *shares]
        print_table("Forecasts of hourly counts, most of them zero", header, [row])
    typer.echo(f"{len(lines)} lines in {out}.")
