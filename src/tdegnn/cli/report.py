"""`tdegnn report`: one page about one or several runs, of `tdegnn fit` or `tdegnn classify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import AsJson, Quiet, make_csv_format, reads_files
from tdegnn.cli.output import print_json, print_notes
from tdegnn.cli.predict_series import tables_of_training
from tdegnn.cli.series import TableOptions, read_series
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel
    from tdegnn.forecasting.fitted import FittedForecaster
    from tdegnn.nodes.fitted import FittedNodes
    from tdegnn.reports.sections import Run


@reads_files
def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders of `tdegnn fit` or `tdegnn classify`.", readable=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.", dir_okay=False)] = Path("report.html"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a page about runs: their errors beside simple methods, forecasts or classes, and what they learned of time.

    The page needs no network. It compares with a ridge regression if the series of the training are still there.
    """
    from tdegnn.reports.page import render

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"Expected a page that ends in .html, got {out.name}. Rename it.")
    is_distinct = len({run.resolve().name for run in runs}) == len(runs)
    described, notes = [], []
    for run in runs:
        found, more = _describe(run, run.resolve().name if is_distinct else str(run), len(runs))
        described.append(found)
        notes += more
    page = render(described)
    page.save(out)
    if as_json:
        headlines = {each.name: each.headline for each in described}
        verdicts = {each.name: each.verdict for each in described}
        print_json({"report": str(out), "headlines": headlines, "verdicts": verdicts, "notes": notes})
        return
    if not quiet:
        print_notes(notes)
        for each in described:
            typer.echo(f"{each.name}: {each.headline}")
    typer.echo(f"Report: {out}")


def _describe(run: Path, name: str, num_runs: int) -> tuple[Run, list[str]]:
    """Return what the page shows of a run, and notes on data that could not be read."""
    from tdegnn.runs.run_folder import RunFolder

    kind = RunFolder.open(run).config.get("kind")
    if kind != "Forecaster":
        from tdegnn.reports.of_nodes import describe_nodes

        return describe_nodes(name, _recall_nodes(run)), []
    from tdegnn.forecasting.forecaster import Forecaster
    from tdegnn.reports.of_forecaster import describe_forecaster

    model = Forecaster.load(run)
    notes = []
    panel = coordinates = None
    try:
        panel = _read_panel(run, model.fitted_)
        coordinates = _coordinates_of(run, model.fitted_)
    except InputError as error:
        notes.append(f"The series of {run} are left out: {error}")
    return describe_forecaster(name, model.fitted_, model.lowest, panel, coordinates, num_runs), notes


def _read_panel(run: Path, fitted: FittedForecaster) -> Panel | None:
    """Return the series of a training. None if its folder does not say where they are."""
    from tdegnn.cli.stored_sources import SeriesSource
    from tdegnn.forecasting.inputs import arrange_nodes
    from tdegnn.runs.run_folder import CONFIG
    from tdegnn.runs.schema import checked

    data = fitted.config["data"]
    source = checked(SeriesSource, {"data": data}, run / CONFIG).data
    if source.benchmark is not None:
        return read_series(Path(source.benchmark), TableOptions())
    if source.tables is None:
        return None
    return arrange_nodes(
        read_series(Path(source.tables.series), tables_of_training(data, TableOptions(), run)), data["nodes"]
    )


def _coordinates_of(run: Path, fitted: FittedForecaster) -> Path | None:
    """Return the file of the coordinates of the nodes, if the training had one and it is still there."""
    from tdegnn.cli.stored_sources import SeriesSource
    from tdegnn.runs.run_folder import CONFIG
    from tdegnn.runs.schema import checked

    tables = checked(SeriesSource, {"data": fitted.config["data"]}, run / CONFIG).data.tables
    if tables is None or tables.coordinates is None or not Path(tables.coordinates).is_file():
        return None
    return Path(tables.coordinates)


def _recall_nodes(run: Path) -> FittedNodes:
    """Return what a classifier learned, with the data of its training."""
    from tdegnn.cli.stored_sources import NodesSource
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.data.tables.nodes import read_labels, read_node_tables
    from tdegnn.nodes.classifier import NodeClassifier
    from tdegnn.runs.run_folder import CONFIG
    from tdegnn.runs.schema import checked

    model = NodeClassifier.load(run)
    source = checked(NodesSource, {"data": model.fitted_.config["data"]}, run / CONFIG).data
    if source.benchmark is not None:
        return model.recall(load_nodes(source.benchmark), split=source.split)
    if source.features_file is None or source.edges_file is None or source.labels_file is None:
        raise InputError(
            f"Expected a run that holds the paths of its data, got {run}. In Python, pass the data to "
            "NodeClassifier.report."
        )
    csv_format = make_csv_format(source.separator, source.decimal, source.encoding)
    tables = read_node_tables(Path(source.features_file), Path(source.edges_file), source.direction, csv_format)
    known = read_labels(Path(source.labels_file), tables.names, csv_format)
    subsets: dict[str, Any] = {**known.subsets}
    return model.recall(tables.to_input(), known.labels, graph=tables.graph, **subsets)
