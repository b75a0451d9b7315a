"""`tdegnn reproduce traffic`: default forecasts of a week of traffic, and what edges and learned time are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Report, ResultLines, check_report, choose_names
from tdegnn.cli.output import print_json, print_table, progress_bar


def traffic(
    forecaster: Annotated[
        list[str] | None, typer.Option(help="Name of a forecaster. Can be repeated. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0 on.", min=1)] = 1,
    out: ResultLines = Path("runs/traffic.jsonl"),
    report: Report = False,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Errors of an hour of traffic, from defaults, without edges, and with other rules for c; paired differences."""
    from tdegnn.experiments.records import read_lines
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
    check_report(report, out)
    if not report:
        try_naive(out)
        with progress_bar(len(names) * seeds, "traffic", is_quiet=quiet or as_json) as tick:
            for name in names:
                for seed in range(seeds):
                    try_forecaster(name, seed, out, device.value)
                    tick(name)
    means = summarize_traffic(read_lines(out, TRAFFIC_LINES))
    pairs = [pair for pair in PAIRS if {*pair} <= {*means}]
    differences = {pair: paired_differences(means[pair[0]], means[pair[1]]) for pair in pairs}
    if as_json:
        worth = [
            {"of": of, "over": over, **{name: tuple(each) for name, each in errors.items()}}
            for (of, over), errors in differences.items()
        ]
        print_json({"forecasters": means, "differences": worth})
        return
    if not quiet:
        rows = [[name, *_cells(mean)] for name, mean in means.items()]
        header = ["", *REACHES.values(), "coverage (%)", "fit (s)"]
        print_table("MAE / RMSE in miles per hour, over all steps up to", header, rows)
        rows = [
            [f"{over} minus {of}", *(str(each) for each in found.values())] for (of, over), found in differences.items()
        ]
        print_table("Differences, paired by origin, with 95 % intervals", ["", "MAE", "RMSE"], rows)
    typer.echo(f"{len(means)} forecasters in {out}.")


def _cells(mean: dict[str, Any]) -> list[str]:
    errors = [f"{mae:.2f} / {rmse:.2f}" for mae, rmse in zip(mean["mae"], mean["rmse"], strict=True)]
    if not mean["coverage"]:
        return [*errors, "-", "-"]
    low, high = 100 * min(mean["coverage"]), 100 * max(mean["coverage"])
    return [*errors, f"{low:.1f} to {high:.1f}", f"{mean['seconds']:.0f}"]
