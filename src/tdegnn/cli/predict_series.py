"""`tdegnn predict` for a run of a forecaster: the next steps, as a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.options import DirectionOption, check_given
from tdegnn.cli.output import print_json, print_notes
from tdegnn.cli.series import TableOptions, check_series, read_edges, read_series
from tdegnn.cli.tables import check_table, write_table
from tdegnn.errors import InputError
from tdegnn.quick_imports import collection_paused

if TYPE_CHECKING:
    from tdegnn.forecasting.forecast import Forecast


@dataclass(frozen=True)
class NewSeries:
    """Options about the steps to forecast, and the steps before them."""

    PANEL: ClassVar[str] = "For a run of tdegnn fit"

    series: Annotated[
        Path | None,
        typer.Option(
            help="The series up to now.",
            show_default="those of the training",
            readable=False,
            callback=check_series,
        ),
    ] = None
    future: Annotated[
        Path | None,
        typer.Option(
            help="Known values of the steps to forecast: node, time and the columns of --known.",
            readable=False,
            callback=check_given,
        ),
    ] = None
    horizon: Annotated[
        int | None, typer.Option(help="Number of steps to forecast.", min=1, show_default="that of the training")
    ] = None
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of the observations that intervals should contain.",
            min=0.01,
            max=0.999,
            show_default="that of the training",
        ),
    ] = None
    quantile: Annotated[
        list[float] | None,
        typer.Option(
            help="Quantile to forecast too, such as 0.1: a column q0.1. Can be repeated.", min=0.0005, max=0.9995
        ),
    ] = None


def predict_series(
    run: Path, new: NewSeries, options: TableOptions, out: Path, *, is_quiet: bool, as_json: bool
) -> None:
    """Forecast the steps after the series of the training, or after newer series.

    Args:
        run: Folder of the training.
        new: The series up to now, and the steps to forecast.
        options: Options about new tables. Options that are not given are those of the training.
        out: Table to write.
        is_quiet: Print one line.
        as_json: Print JSON.
    """
    with collection_paused():
        from tdegnn.forecasting.forecaster import Forecaster
        from tdegnn.forecasting.inputs import arrange_nodes

    check_table(out)
    model = Forecaster.load(run)
    data = model.fitted_.config["data"]
    if new.future is not None and not model.known:
        raise InputError(f"Expected no --future, as {run} was trained without --known. Leave it out, or train with it.")
    tables = tables_of_training(data, options, run)
    seen = None
    if new.series is not None:
        seen = arrange_nodes(read_series(new.series, tables.without_graph()), data["nodes"])
    if options.edges is not None:
        check_edges_change(data, run)
        if seen is None:
            raise InputError("Expected --series with --edges, got none. Add it.")
        seen = read_edges(seen, tables)
    ahead = None
    if new.future is not None:
        known = replace(tables.without_graph(), value=list(model.known), exogenous=None)
        ahead = arrange_nodes(read_series(new.future, known), data["nodes"])
    forecast = model.predict(new.horizon, panel=seen, future=ahead, coverage=new.coverage, quantiles=new.quantile or ())
    write_table(forecast.to_frame(), out)
    notes = [*(() if seen is None else seen.notes), *forecast.notes]
    if as_json:
        print_json(_facts(forecast, out) | {"notes": notes, "forecasts": _rows(forecast)})
        return
    if not is_quiet:
        print_notes(notes)
    typer.echo(_verdict(forecast, out))


def check_edges_change(data: dict[str, Any], run: Path) -> None:
    """Raise an `InputError` if the edges of a training do not change: then it knows them."""
    if data.get("graphs") is None:
        raise InputError(f"Expected no --edges for {run}, whose edges do not change, got some. Leave them out.")


def tables_of_training(data: dict[str, Any], options: TableOptions, run: Path) -> TableOptions:
    """Return the options of the training, replaced by those given now."""
    from tdegnn.cli.stored_sources import SeriesSource
    from tdegnn.runs.run_folder import CONFIG
    from tdegnn.runs.schema import checked

    kept = checked(SeriesSource, {"data": data}, run / CONFIG).data.tables
    given = {} if kept is None else kept.model_dump(exclude={"series"}, exclude_unset=True)
    if given.get("direction") is not None:
        given["direction"] = DirectionOption(given["direction"])
    return TableOptions(**given | options.given)


def _facts(forecast: Forecast, out: Path) -> dict[str, Any]:
    import numpy as np

    from tdegnn.data.times.times import show_time

    return {
        "forecast": str(out),
        "nodes": len(forecast.nodes),
        "steps": len(forecast.times),
        "from": show_time(forecast.times[0]),
        "to": show_time(forecast.times[-1]),
        "coverage": None if bool(np.isnan(forecast.low).all()) else forecast.coverage,
        "quantiles": list(forecast.quantiles),
    }


def _rows(forecast: Forecast) -> list[dict[str, Any]]:
    """Return the rows of the table, with times as text."""
    from tdegnn.data.times.times import show_time

    frame = forecast.to_frame()
    rows: list[dict[str, Any]] = frame.assign(time=frame["time"].map(show_time)).to_dict("records")
    return rows


def _verdict(forecast: Forecast, out: Path) -> str:
    facts = _facts(forecast, out)
    counts = [f"{facts[name]} {name.removesuffix('s') if facts[name] == 1 else name}" for name in ("nodes", "steps")]
    has_intervals = facts["coverage"] is not None
    intervals = f"intervals aim at {100 * forecast.coverage:g}%" if has_intervals else "there are no intervals"
    return f"{', '.join(counts)} from {facts['from']} to {facts['to']}, in {out}; {intervals}"
