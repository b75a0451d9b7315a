"""`tdegnn reproduce traffic`: default forecasts of a week of traffic, and what edges and learned time are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import choose_names, with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def traffic(
    forecaster: Annotated[
        list[str] | None, typer.Option(help="Name of a forecaster. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0 on.", min=1)] = 1,
    run: ExperimentOptions = ExperimentOptions(Path("runs/traffic.jsonl")),
) -> None:
    """Errors of an hour of traffic, from defaults, without edges, and with other rules for c; paired differences."""
    from tdegnn.experiments.traffic import (
        FORECASTERS,
        PAIRS,
        REACHES,
        TRAFFIC_LINES,
        paired_differences,
        summarize_traffic,
        try_forecaster,
        try_naive,
    )

    names = choose_names(forecaster, tuple(FORECASTERS), "forecaster")
    if run.must_compute():
        try_naive(run.out)
    asked = [(name, seed, run.out, run.device.value) for name in names for seed in range(seeds)]
    run.compute(try_forecaster, asked, "traffic", lambda name, *_: name)
    means = summarize_traffic(run.read(TRAFFIC_LINES))
    pairs = [pair for pair in PAIRS if {*pair} <= {*means}]
    differences = {pair: paired_differences(means[pair[0]], means[pair[1]]) for pair in pairs}
    worth = [
        {"of": of, "over": over, **{name: tuple(each) for name, each in errors.items()}}
        for (of, over), errors in differences.items()
    ]
    header = ["", *REACHES.values(), "coverage (%)", "fit (s)"]
    rows = [[name, *_cells(mean)] for name, mean in means.items()]
    compared = [
        [f"{over} minus {of}", *(str(each) for each in found.values())] for (of, over), found in differences.items()
    ]
    run.show(
        {"forecasters": means, "differences": worth},
        [
            ("MAE / RMSE in miles per hour, over all steps up to", header, rows),
            ("Differences, paired by origin, with 95 % intervals", ["", "MAE", "RMSE"], compared),
        ],
        f"{len(means)} forecasters in {run.out}.",
    )


def _cells(mean: dict[str, Any]) -> list[str]:
    errors = [f"{mae:.2f} / {rmse:.2f}" for mae, rmse in zip(mean["mae"], mean["rmse"], strict=True)]
    if not mean["coverage"]:
        return [*errors, "-", "-"]
    low, high = 100 * min(mean["coverage"]), 100 * max(mean["coverage"])
    return [*errors, f"{low:.1f} to {high:.1f}", f"{mean['seconds']:.0f}"]
