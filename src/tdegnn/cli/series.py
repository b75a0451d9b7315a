"""Options of the command line about the user's series and graph, and how to read them.

A name is that of a file or, if there is no such file, of a benchmark.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.options import (
    CoordinatesFile,
    Decimal,
    DirectionChoice,
    EdgesFile,
    EdgeTimeColumn,
    Encoding,
    ExogenousColumns,
    Neighbors,
    NodeColumn,
    Separator,
    TimeColumn,
    TimeFormat,
    TimeZone,
    ValueColumns,
    check_given,
    make_csv_format,
)
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel
    from tdegnn.data.tables.csv_files import CsvFormat
    from tdegnn.data.tables.node_features import NodeFeatures
    from tdegnn.graph import Graph

USUAL_NEIGHBORS = 5


def check_series(series: Path | None) -> Path | None:
    """Raise an `InputError` if there is neither a file nor a benchmark with series of that name."""
    from tdegnn.data.benchmarks.catalogue import CATALOGUE

    if series is not None and str(series) in CATALOGUE and not series.exists() and not is_benchmark(series):
        raise InputError(f"Expected series, got the benchmark {series}, which has none. Try: tdegnn classify {series}")
    return check_source(series, _benchmarks())


def check_source(source: Path | None, names: Sequence[str]) -> Path | None:
    """Raise an `InputError` if a word is neither one of the benchmarks nor a file that can be read."""
    from tdegnn.data.tables.csv_files import find_similar

    word = str(source)
    if source is None or (word in names and not source.exists()):
        return source
    if source.exists() or source.suffix or source.name != word:
        return check_given(source)
    near = find_similar(source) or next(iter(difflib.get_close_matches(word.lower(), names, n=1)), None)
    raise InputError(
        f"Expected a file, or a benchmark ({', '.join(names)}), got {word!r}, which is neither. "
        + (f"Did you mean {str(near)!r}?" if near else "Check the path.")
    )


SeriesFile = Annotated[
    Path,
    typer.Argument(
        help="CSV or Parquet: a column of times and one column per node (wide), or one row per node and time (long). "
        "Or the name of a benchmark, as in `tdegnn data list`.",
        show_default=False,
        readable=False,
        callback=check_series,
    ),
]
NodeFeaturesFile = Annotated[
    Path | None,
    typer.Option(
        "--node-features",
        help="CSV or Parquet, one row per node: its name, then numbers that do not change, such as its population.",
        readable=False,
        callback=check_given,
        rich_help_panel="Your tables",
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """Options about tables of series and edges."""

    PANEL: ClassVar[str] = "Your tables"

    edges: EdgesFile = None
    edge_time: EdgeTimeColumn = None
    coordinates: CoordinatesFile = None
    neighbors: Neighbors = None
    node: NodeColumn = None
    time: TimeColumn = None
    value: ValueColumns = None
    exogenous: ExogenousColumns = None
    time_zone: TimeZone = None
    time_format: TimeFormat = None
    direction: DirectionChoice = None
    separator: Separator = None
    decimal: Decimal = None
    encoding: Encoding = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that the user gave, by name."""
        return {name: value for name, value in vars(self).items() if value}

    @property
    def csv_format(self) -> CsvFormat:
        """How the CSV files are written."""
        return make_csv_format(self.separator, self.decimal, self.encoding)

    def without_graph(self) -> TableOptions:
        """Return the options about the series alone."""
        return replace(self, edges=None, edge_time=None, coordinates=None, neighbors=None, direction=None)

    def to_source(self, series: Path, node_features: Path | None = None) -> dict[str, Any]:
        """Return where data came from, for the settings of a run folder."""
        features = {} if node_features is None else {"node_features_file": str(node_features.resolve())}
        if is_benchmark(series):
            return {"benchmark": str(series), **features}
        given = {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in self.given.items()}
        return {"tables": {"series": str(series.resolve()), **given}, **features}


def read_series(series: Path, options: TableOptions) -> Panel:
    """Read the user's tables, or load the benchmark of that name if there is no such file."""
    from tdegnn.data.tables.series import read_panel

    if is_benchmark(series):
        return _load_benchmark(str(series), options)
    _check_graph_options(options)
    panel = read_panel(
        series,
        options.edges,
        time=options.time,
        node=options.node,
        value=options.value or (),
        exogenous=options.exogenous or (),
        time_zone=options.time_zone,
        time_format=options.time_format,
        direction=None if options.direction is None else options.direction.value,
        edge_time=options.edge_time,
        csv_format=options.csv_format,
    )
    if options.coordinates is not None:
        panel = panel.with_graph(_link_neighbors(panel, options.coordinates, options))
    if str(series) in _benchmarks():
        note = f"{series} is a file here and also a benchmark: the file was read. Rename it to use the benchmark."
        panel = replace(panel, notes=(*panel.notes, note))
    return panel


def read_edges(panel: Panel, options: TableOptions) -> Panel:
    """Return series on the edges of a table, whose times are written like those of the series."""
    from tdegnn.data.tables.series import add_edges

    return add_edges(
        panel,
        options.edges,
        direction=None if options.direction is None else options.direction.value,
        edge_time=options.edge_time,
        time_format=options.time_format,
        time_zone=options.time_zone,
        csv_format=options.csv_format,
    )


def read_features(path: Path | None, panel: Panel, options: TableOptions) -> NodeFeatures | None:
    """Read the features of the nodes of a panel. A CSV file is written like the other tables."""
    if path is None:
        return None
    from tdegnn.data.tables.node_features import read_node_features

    return read_node_features(path, panel, options.csv_format)


def is_benchmark(series: Path) -> bool:
    """Return whether a name means a benchmark. A file of the same name takes precedence."""
    return str(series) in _benchmarks() and not series.exists()


def _check_graph_options(options: TableOptions) -> None:
    """Raise an `InputError` for options of the graph that contradict each other or have no effect."""
    if options.edges is not None and options.coordinates is not None:
        raise InputError("Expected --edges or --coordinates, got both. Leave one of them out.")
    if options.neighbors is not None and options.coordinates is None:
        raise InputError("Expected --neighbors with --coordinates, got it alone. Add --coordinates or leave it out.")
    if options.edge_time is not None and options.edges is None:
        raise InputError("Expected --edge-time with --edges, got it alone. Add --edges or leave it out.")
    if options.direction is not None and options.edges is None:
        raise InputError("Expected --direction with --edges, got it alone. Add --edges or leave it out.")


def _benchmarks() -> list[str]:
    """Return the names of the benchmarks with series."""
    from tdegnn.data.benchmarks.catalogue import CATALOGUE

    return [benchmark.name for benchmark in CATALOGUE.values() if benchmark.kind == "series"]


def _load_benchmark(name: str, options: TableOptions) -> Panel:
    from tdegnn.data.benchmarks.load import load_panel

    if options.given:
        option = next(iter(options.given)).replace("_", "-")
        raise InputError(f"Expected no --{option} for the benchmark {name}, which needs none. Leave it out.")
    return load_panel(name)


def _link_neighbors(panel: Panel, coordinates: Path, options: TableOptions) -> Graph:
    from tdegnn.data.graphs.neighbors import neighbor_graph, read_coordinates

    places, metric = read_coordinates(coordinates, panel.nodes, options.csv_format)
    return neighbor_graph(places, options.neighbors or max(1, min(USUAL_NEIGHBORS, panel.num_nodes - 1)), metric)
