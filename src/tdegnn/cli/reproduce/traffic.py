"""`tdegnn reproduce traffic`: default forecasts of a week of traffic, and what edges and learned time are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Report, ResultLines, check_report, choose_names
from tdegnn.cli.output import print_json, print_table, progress_bar

# What is compared with what.
PAIRS = (
    ("default", "without edges"),
    ("learned vector", "c = [1]"),
    ("attention", "c = [1]"),
    ("stable", "c = [1]"),
)


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
        REACHES,
        TRAFFIC_LINES,
        mean_of_seeds,
        naive_line,
        paired_differences,
        try_forecaster,
    )

    names = choose_names(forecaster, tuple(FORECASTERS), "forecaster")
    check_report(report, out)
    if not report:
        with progress_bar(len(names) * seeds, "traffic", is_quiet=quiet or as_json) as tick:
            for name in names:
                for seed in range(seeds):
                    try_forecaster(name, seed, out, device.value)
                    tick(name)
    lines = read_lines(out, TRAFFIC_LINES, forecaster=names)
    means = {
        name: mean_of_seeds(own)
        for name in names
        if (own := [line for line in lines if line["forecaster"] == name and line["settings"] == FORECASTERS[name]])
    }
    naive = naive_line()
    pairs = [pair for pair in PAIRS if {*pair} <= {*means}]
    differences = {pair: paired_differences(means[pair[0]], means[pair[1]]) for pair in pairs}
    if as_json:
        worth = [
            {"of": of, "over": over, **{name: tuple(each) for name, each in errors.items()}}
            for (of, over), errors in differences.items()
        ]
        print_json({"forecasters": {naive.pop("forecaster"): naive, **means}, "differences": worth})
        return
    if not quiet:
        rows = [[naive["forecaster"], *_cells(naive), "-", "-"]]
        for name, mean in means.items():
            low, high = 100 * min(mean["coverage"]), 100 * max(mean["coverage"])
            rows.append([name, *_cells(mean), f"{low:.1f} to {high:.1f}", f"{mean['seconds']:.0f}"])
        header = ["", *(f"{name}" for name in REACHES.values()), "coverage (%)", "fit (s)"]
        print_table("MAE / RMSE in miles per hour, over all steps up to", header, rows)
        rows = []
        for (of, over), found in differences.items():
            texts = [f"{each.difference:+.3f} ({each.low:+.3f} to {each.high:+.3f})" for each in found.values()]
            rows.append([f"{over} minus {of}", *texts])
        print_table("Differences, paired by origin, with 95 % intervals", ["", "MAE", "RMSE"], rows)
    typer.echo(f"{len(means)} forecasters in {out}.")


def _cells(line: dict[str, list[float]]) -> list[str]:
    return [f"{mae:.2f} / {rmse:.2f}" for mae, rmse in zip(line["mae"], line["rmse"], strict=True)]
