"""`tdegnn backtest`: what a forecaster would have forecast if the series had ended earlier, and what others would."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tdegnn.cli.forecaster_options import ForecasterOptions
from tdegnn.cli.options import AsJson, Device, DeviceOption, Quiet, Seed, reads_files, with_groups
from tdegnn.cli.output import OURS, number, print_json, print_notes, print_table, progress_stages, share
from tdegnn.cli.series import NodeFeaturesFile, SeriesFile, TableOptions, read_features, read_series
from tdegnn.cli.tables import check_picture, check_table, write_table
from tdegnn.errors import InputError
from tdegnn.forecasting.backtests.own_training import describe_trainings, shared_notes
from tdegnn.forecasting.contenders.registry import CONTENDERS, GROUPS, expand_name

if TYPE_CHECKING:
    from tdegnn.forecasting.backtests.paired import Difference
    from tdegnn.forecasting.backtests.result import Backtest

# Maximum number of steps of the horizon in the printed table.
MOST_STEPS = 6


def parse_against(text: str) -> str:
    """Return names between commas. Raise an error for an unknown one, before anything is imported or read."""
    try:
        for name in text.split(","):
            expand_name(name)
    except InputError as error:
        raise typer.BadParameter(error.as_options()) from error
    return text


@reads_files
@with_groups
def backtest(
    series: SeriesFile,
    tables: TableOptions,
    settings: ForecasterOptions,
    node_features: NodeFeaturesFile = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Methods to compare with, between commas: {', '.join(CONTENDERS)}; or several at once: "
            f"{', '.join(GROUPS)}. lightgbm needs the extra [bold]boost[/bold], the auto ones [bold]stats[/bold]. Can "
            "be repeated.",
            parser=parse_against,
            metavar="NAME,...",
            show_default="naive",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Number of origins to forecast from.",
            min=1,
            show_default="those in the last fifth of the series; with --refit 3",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            help="Steps from one origin to the next.",
            min=1,
            show_default="1, or more to keep to 500 origins; with --folds or --refit the horizon",
        ),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Train anew for each origin, not once on the steps before the first.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="CSV or Parquet: every forecast and its error, by method, origin, step ahead and node.",
            dir_okay=False,
        ),
    ] = None,
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors",
            help="CSV or Parquet: all errors by method, node and step ahead, over the origins.",
            dir_okay=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Picture (.png, .pdf, .svg): the error by step ahead per method.", dir_okay=False),
    ] = None,
    seed: Seed = 0,
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure forecasts: train on the start of the series, and forecast from many later origins."""
    for table in (out, errors):
        if table is not None:
            check_table(table)
    if plot is not None:
        check_picture(plot)
    settings.check(tables.given | {"node_features": node_features})
    names = None if against is None else [name for text in against for name in text.split(",")]
    with progress_stages(is_quiet=quiet or as_json) as show:
        show("reading tables", 0, None)
        # Read tables first: importing the forecaster takes seconds.
        panel = read_series(series, tables)
        show("starting", 0, None)
        model = settings.make(seed, device)
        features = read_features(node_features, panel, tables)
        result = model.backtest(
            panel,
            node_features=features,
            against=names,
            num_folds=folds,
            stride=stride,
            refit=refit,
            on_progress=lambda moment: show(*moment),
        )
    notes = [*panel.notes, *(() if features is None else features.notes), *result.notes]
    # Print first, so that nothing is lost if the disk is full.
    if as_json:
        print_json(result.to_record() | {"notes": notes})
    else:
        if not quiet:
            _print_errors(result)
            _print_steps(result)
            typer.echo("\n".join(describe_trainings(result.trainings)))
            print_notes(dict.fromkeys([*notes, *shared_notes(result.trainings)]))
        files = {"Forecasts": out, "Errors": errors, "Picture": plot}
        places = [f" {what}: {path}" for what, path in files.items() if path is not None]
        typer.echo(f"{_verdict(result)}{''.join(places)}")
    if out is not None:
        write_table(result.to_frame(), out)
    if errors is not None:
        write_table(result.by_node_and_step(), errors)
    if plot is not None:
        from tdegnn.analysis.plots import save_figure

        save_figure(result.plot(), plot)


def _print_errors(result: Backtest) -> None:
    differences = result.differences()
    header = ["", "MAE", "RMSE", "MASE", "pinball", "in the interval", "MAE minus ours (95 %)", "seconds"]
    rows = []
    for name, errors in result.means().items():
        seconds = result.methods[name].fit_seconds + result.methods[name].predict_seconds
        compared = _interval(differences[name]["mae"]) if name in differences else "-"
        shown = [number(errors[error]) for error in ("mae", "rmse", "mase", "pinball")]
        row = [_label(name), *shown, share(errors["coverage"]), compared, f"{seconds:.1f}"]
        rows.append(row)
    trained = "trained anew for each" if result.refit else "trained once"
    title = f"Errors of forecasts of {result.horizon} steps from {result.num_origins} origins, {trained}"
    print_table(f"{title}; intervals aim at {100 * result.aimed_coverage:g}%", header, rows)


def _print_steps(result: Backtest) -> None:
    if result.horizon == 1:
        return
    table = result.by_step().set_index(["method", "step"])["mae"]
    every = -(-result.horizon // MOST_STEPS)
    # The last step is always shown.
    steps = list(range(result.horizon, 0, -every))[::-1]
    rows = [[_label(name), *(number(table[name, step]) for step in steps)] for name in result.means()]
    print_table("MAE by step ahead", ["", *map(str, steps)], rows)


def _interval(found: Difference) -> str:
    if isnan(found.low):
        return f"{found.difference:+.3g}"
    return f"{found.difference:+.3g} ({found.low:+.3g} to {found.high:+.3g})"


def _label(name: str) -> str:
    return f"the {name}" if name == OURS else name


def _verdict(result: Backtest) -> str:
    """Return how the forecaster compares with the best of the others, in one sentence."""
    means, differences = result.means(), result.differences()
    origins = f"From {result.num_origins} origin{'s' if result.num_origins > 1 else ''}"
    best = next((name for name in means if name != OURS), None)
    own = means[OURS]["mae"]
    if best is None or isnan(own) or isnan(means[best]["mae"]):
        return f"{origins} there is nothing to compare."
    found = differences[best]["mae"]
    compared = f"{best}: MAE {number(own)}, not {number(means[best]['mae'])}"
    if not isnan(found.low) and not found.is_clear:
        return f"{origins} the forecaster is about as good as {compared}; the 95 % interval holds zero."
    if found.difference <= 0:
        return f"{origins} the forecaster is no better than {compared}."
    return f"{origins} the forecaster is {found.difference / means[best]['mae']:.0%} better than {compared}."
