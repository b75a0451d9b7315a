"""`tdegnn reproduce traffic-folds`: what edges are worth to forecasts of traffic, on expanding folds of the week."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.options import with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions


@with_groups
def traffic_folds(
    traffic: Annotated[
        Path, typer.Option(help="Result lines of `tdegnn reproduce traffic`, which are the last fold.")
    ] = Path("runs/traffic.jsonl"),
    run: ExperimentOptions = ExperimentOptions(Path("runs/traffic_folds.jsonl")),
) -> None:
    """Errors without edges minus errors with edges, fitted to more and more of a week of traffic."""
    from tdegnn.experiments.records import read_lines
    from tdegnn.experiments.traffic import FOLD_FORECASTERS, FOLD_LINES, FOLDS, TRAFFIC_LINES, try_fold, worth_of_edges

    asked = [(name, trained, run.out, run.device.value) for trained in FOLDS for name in FOLD_FORECASTERS]
    run.compute(try_fold, asked, "traffic", lambda name, *_: name)
    worth = worth_of_edges(run.read(FOLD_LINES), read_lines(traffic, TRAFFIC_LINES))
    records = [
        {"steps": steps, **{name: tuple(each) for name, each in found.items()}} for steps, found in worth.items()
    ]
    rows = [[steps, *(str(each) for each in found.values())] for steps, found in worth.items()]
    title = "Errors without edges minus with edges, paired by origin, with 95 % intervals"
    run.show(records, [(title, ["judged on", "MAE", "RMSE"], rows)], f"{len(worth)} rows from {run.out}.")
