"""`tdegnn predict`: forecasts of a run of `tdegnn fit`, or classes of nodes of a run of `tdegnn classify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tdegnn.cli.options import (
    AsJson,
    Decimal,
    Encoding,
    Quiet,
    Separator,
    check_given,
    make_csv_format,
    reads_files,
    with_groups,
)
from tdegnn.cli.predict_nodes import NewNodes, predict_nodes
from tdegnn.cli.predict_series import NewSeries, predict_series
from tdegnn.cli.series import TableOptions
from tdegnn.errors import InputError


@reads_files
@with_groups
def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of `tdegnn fit` or `tdegnn classify`.", readable=False)],
    new_series: NewSeries,
    new_nodes: NewNodes,
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Nodes: the edges of --features. Series whose edges change: those up to now, with --series.",
            show_default="those of the training; the last ones still hold",
            readable=False,
            callback=check_given,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="CSV or Parquet. Series: time, node, forecast, low, high, quantiles. Nodes: node, label, and the "
            "probability of each class.",
            show_default="forecast.csv, for nodes predictions.csv",
            dir_okay=False,
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Forecast series, or predict the classes of nodes, of the training or of other files."""
    from tdegnn.runs.run_folder import RunFolder

    kind = RunFolder.open(run).config.get("kind")
    if kind == "Forecaster":
        _refuse(run, kind, new_nodes)
        tables = TableOptions(edges=edges, separator=separator, decimal=decimal, encoding=encoding)
        predict_series(run, new_series, tables, out or Path("forecast.csv"), is_quiet=quiet, as_json=as_json)
    else:
        _refuse(run, kind, new_series)
        csv_format = make_csv_format(separator, decimal, encoding)
        path = out or Path("predictions.csv")
        predict_nodes(run, new_nodes, edges, csv_format, path, is_quiet=quiet, as_json=as_json)


def _refuse(run: Path, kind: str | None, options: Any) -> None:
    """Raise an `InputError` for the first option that does not apply to a run of this kind."""
    for name, value in vars(options).items():
        if value is not None:
            raise InputError(f"Expected no --{name} for {run}, the run of a {kind}, got one. Leave it out.")
