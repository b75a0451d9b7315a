"""`tdegnn data check`: read the user's own files, and say what is in them or what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import (
    AsJson,
    CoordinatesFile,
    Decimal,
    DirectionChoice,
    EdgesFile,
    Encoding,
    ExogenousColumns,
    Neighbors,
    NodeColumn,
    Separator,
    SeriesFile,
    TimeColumn,
    TimeFormat,
    TimeZone,
    ValueColumns,
)
from tdegnn.cli.output import print_json
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel


def check(
    series: SeriesFile,
    edges: EdgesFile = None,
    coordinates: CoordinatesFile = None,
    neighbors: Neighbors = 5,
    node: NodeColumn = None,
    time: TimeColumn = None,
    value: ValueColumns = None,
    exogenous: ExogenousColumns = None,
    time_zone: TimeZone = None,
    time_format: TimeFormat = None,
    direction: DirectionChoice = None,
    separator: Separator = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    window: Annotated[int, typer.Option(help="Steps a forecast would see.", min=1)] = 4,
    horizon: Annotated[int, typer.Option(help="Steps it would look ahead.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Read your own series and graph: say what is in them, what should be known, or what is wrong."""
    from tdegnn.data.csv_files import CsvFormat
    from tdegnn.data.graph_building import neighbor_graph, read_coordinates
    from tdegnn.data.series_tables import read_panel

    if edges is not None and coordinates is not None:
        raise InputError("Expected edges or coordinates, got both. Leave one of them out.")
    csv_format = CsvFormat(separator, decimal, encoding)
    panel = read_panel(
        series,
        edges,
        time=time,
        node=node,
        value=value or (),
        exogenous=exogenous or (),
        time_zone=time_zone,
        time_format=time_format,
        direction=None if direction is None else direction.value,
        csv_format=csv_format,
    )
    if coordinates is not None:
        places, metric = read_coordinates(coordinates, panel.nodes, csv_format)
        panel = panel.with_graph(neighbor_graph(places, neighbors, metric))
    facts = _facts(panel, series, window, horizon)
    if as_json:
        print_json(facts)
        return
    notes = facts.pop("notes")
    for name, fact in facts.items():
        typer.echo(f"{name:<16} {fact}")
    for note in notes:
        typer.echo(f"Note: {note}")


def _facts(panel: Panel, series: Path, window: int, horizon: int) -> dict[str, Any]:
    from tdegnn.data.splits import split_chronologically
    from tdegnn.data.times import describe_step, show_time
    from tdegnn.data.windows import sliding_windows

    windows = sliding_windows(panel.values, window, horizon)
    split = split_chronologically(panel.num_steps, window)
    parts = (split.training, split.validation, split.test)
    return {
        "series": str(series),
        "nodes": panel.num_nodes,
        "steps": panel.num_steps,
        "step": describe_step(panel.times),
        "from": show_time(panel.times[0]),
        "to": show_time(panel.times[-1]),
        "time zone": panel.time_zone or "none",
        "forecast": ", ".join(panel.channels[: panel.num_targets]),
        "exogenous": ", ".join(panel.channels[panel.num_targets :]) or "none",
        "observed": f"{panel.observed.mean():.1%}",
        "graph": "none" if panel.graph is None else str(panel.graph),
        "windows": " / ".join(str(len(windows.predicting(part))) for part in parts) + " (training / validation / test)",
        "notes": list(panel.notes),
    }
