"""`tdegnn reproduce hourly-counts`: what a forecaster does without a word on counts, most of them zero."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import with_groups
from tdegnn.cli.output import share
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def hourly_counts(
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 3,
    first_seed: Annotated[int, typer.Option(help="The first seed. The others follow it.", min=0)] = 0,
    run: ExperimentOptions = ExperimentOptions(Path("runs/hourly_counts.jsonl")),
) -> None:
    """Error and intervals of `Forecaster(horizon=12)` on simulated hourly counts, against the true rate."""
    from tdegnn.experiments.hourly_counts import COUNT_LINES, summarize_counts, try_counts

    asked = [(seed, run.out, run.device.value) for seed in range(first_seed, first_seed + seeds)]
    run.compute(try_counts, asked, "hourly counts", lambda seed, *_: f"seed {seed}")
    lines = run.read(COUNT_LINES)
    found = summarize_counts(lines) if lines else {}
    tables = []
    if found:
        header = ["seeds", "MSE over that of the true rate", "mean by hour and weekday", "in intervals", "of positive"]
        shares = [share(found["coverage"]), share(found["coverage_of_positive"])]
        row = [f"{found['seeds']:.0f}", f"{found['error_ratio']:.3f}", f"{found['naive_ratio']:.3f}", *shares]
        tables.append(("Forecasts of hourly counts, most of them zero", header, [row]))
    run.show(found, tables, f"{len(lines)} lines in {run.out}.")
