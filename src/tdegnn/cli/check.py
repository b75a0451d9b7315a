"""`tdegnn data check`: read the user's own files, and say what is in them or what is wrong."""

from __future__ import annotations

import re
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
    make_csv_format,
)
from tdegnn.cli.output import print_json
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.csv_files import CsvFormat
    from tdegnn.data.panel import Panel
    from tdegnn.graph import Graph

USUAL_NEIGHBORS = 5
# Arguments that messages speak of, and that are options here.
ARGUMENT = re.compile(r"\b(decimal|encoding|time_format|time_zone|node|value)=('[^']*')|\b(time_format|time_zone)\b")


def check(
    series: SeriesFile,
    edges: EdgesFile = None,
    coordinates: CoordinatesFile = None,
    neighbors: Neighbors = None,
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
    from tdegnn.data.series_tables import read_panel

    if edges is not None and coordinates is not None:
        raise InputError("Expected edges or coordinates, got both. Leave one of them out.")
    try:
        csv_format = make_csv_format(separator, decimal, encoding)
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
            panel = panel.with_graph(_link_neighbors(panel, coordinates, neighbors, csv_format))
    except InputError as error:
        raise InputError(_as_options(str(error))) from error
    facts = _facts(panel, series, window, horizon)
    if as_json:
        print_json(facts)
        return
    notes = facts.pop("notes")
    facts["windows"] = " / ".join(map(str, facts["windows"])) + " (training / validation / test)"
    facts["observed"] = f"{facts['observed']:.1%}"
    for name, fact in facts.items():
        words = ", ".join(fact) if isinstance(fact, list) else fact
        typer.echo(f"{name.replace('_', ' '):<16} {words or 'none'}")
    for note in notes:
        typer.echo(f"Note: {_as_options(note)}")


def _link_neighbors(panel: Panel, coordinates: Path, neighbors: int | None, csv_format: CsvFormat) -> Graph:
    from tdegnn.data.graph_building import neighbor_graph, read_coordinates

    places, metric = read_coordinates(coordinates, panel.nodes, csv_format)
    return neighbor_graph(places, neighbors or max(1, min(USUAL_NEIGHBORS, panel.num_nodes - 1)), metric)


def _facts(panel: Panel, series: Path, window: int, horizon: int) -> dict[str, Any]:
    from tdegnn.data.splits import split_chronologically
    from tdegnn.data.times import describe_step, show_time
    from tdegnn.data.windows import sliding_windows

    windows = sliding_windows(panel.values, window, horizon)
    split = split_chronologically(panel.num_steps, window)
    counts = [len(windows.predicting(part)) for part in (split.training, split.validation, split.test)]
    notes = list(panel.notes)
    if 0 in counts:
        notes.append("Some part has no window: take a shorter horizon, a shorter window or a longer series.")
    return {
        "series": str(series),
        "nodes": panel.num_nodes,
        "steps": panel.num_steps,
        "step": describe_step(panel.times),
        "from": show_time(panel.times[0]),
        "to": show_time(panel.times[-1]),
        "time_zone": panel.time_zone,
        "forecast": list(panel.channels[: panel.num_targets]),
        "exogenous": list(panel.channels[panel.num_targets :]),
        "observed": float(panel.observed.mean()),
        "graph": None if panel.graph is None else str(panel.graph),
        "windows": counts,
        "notes": notes,
    }


def _as_options(message: str) -> str:
    """A message whose arguments are written as the options of the command line."""

    def option(found: re.Match[str]) -> str:
        name, value = (found[1], f" {found[2]}") if found[1] else (found[3], "")
        return f"--{name.replace('_', '-')}{value}"

    return ARGUMENT.sub(option, message)
