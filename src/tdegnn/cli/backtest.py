"""`tdegnn backtest`: what a forecaster would have forecast if the series had ended earlier, and naive forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tdegnn.cli.forecaster_options import ForecasterOptions
from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Seed, reads_files, with_groups
from tdegnn.cli.output import compare_errors, print_errors, print_json, print_notes, progress_bar
from tdegnn.cli.series import NodeFeaturesFile, SeriesFile, TableOptions, read_features, read_series
from tdegnn.cli.tables import check_table, write_table


@reads_files
@with_groups
def backtest(
    series: SeriesFile,
    tables: TableOptions,
    settings: ForecasterOptions,
    node_features: NodeFeaturesFile = None,
    folds: Annotated[int, typer.Option(help="Number of times to train and forecast.", min=1)] = 3,
    stride: Annotated[
        int | None, typer.Option(help="Steps from one forecast to the next.", min=1, show_default="the horizon")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV or Parquet: one line per fold and method.", dir_okay=False),
    ] = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure forecasts: train on the start of the series and forecast the steps after it, several times."""
    if out is not None:
        check_table(out)
    settings.check(tables.given | {"node_features": node_features})
    # Read tables first: importing the forecaster takes seconds.
    panel = read_series(series, tables)
    model = settings.make(seed, device)
    features = read_features(node_features, panel, tables)
    notes = [*panel.notes, *(() if features is None else features.notes)]
    with progress_bar(folds, "folds", is_quiet=quiet or as_json) as tick:
        result = model.backtest(panel, node_features=features, num_folds=folds, stride=stride, on_fold=tick)
    if model.order == "auto":
        orders = ", ".join(str(line.order) for line in result.of_forecaster())
        notes.append(f"Orders that were chosen, fold by fold: {orders}.")
    means = result.means()
    # Print first, so that nothing is lost if the disk is full.
    if as_json:
        lines = [vars(line) for line in result.lines]
        facts = {"folds": folds, "aimed_coverage": result.aimed_coverage, "means": means, "lines": lines}
        print_json(facts | {"notes": notes})
    else:
        if not quiet:
            title = f"Mean errors of {folds} forecasts of {model.horizon} steps"
            print_errors(f"{title}; intervals aim at {100 * result.aimed_coverage:g}%", means)
            print_notes(notes)
        place = "" if out is None else f" All lines: {out}"
        typer.echo(f"In {folds} folds {compare_errors(means)}.{place}")
    if out is not None:
        write_table(result.to_frame(), out)
