"""Series in tables, to and from a `Panel`.

Two layouts: wide, a column of times and one column for each node; long, one row for each node and time, with columns
for node, time and one or more values. Which it is, is read off the names of the columns, or said by the user. All
validation of what a user's table holds is done here and in what this file calls.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Int

from tdegnn.data.csv_files import MISSING, CsvFormat, Kind
from tdegnn.data.edges import read_graph
from tdegnn.data.panel import Panel
from tdegnn.data.tables import PLAIN_CSV, Table, find_named, read_table
from tdegnn.data.time_texts import in_zone, read_times
from tdegnn.data.times import Place, may_be_clock_change, regularize, show_time
from tdegnn.errors import InputError
from tdegnn.graph import Direction

TIME_NAMES = ("time", "timestamp", "datetime", "date", "ds", "day", "week", "month", "year", "step")
NODE_NAMES = ("node", "node_id", "id", "unique_id", "item_id", "series", "series_id")
# Where a table has so many fewer rows than nodes times steps, a column was taken for what it is not.
LARGEST_DILUTION = 100
NUMBER_HINT = "Leave cells without a value empty; of a long table, say which column holds the nodes."
Layout = Literal["wide", "long"]


@dataclass(frozen=True)
class _Said:
    """What the user said about the columns; nothing where it is to be found out."""

    time: str | None
    node: str | None
    value: tuple[str, ...]
    exogenous: tuple[str, ...]


@dataclass(frozen=True)
class _Roles:
    """Positions of the columns that are read. A wide table has no column of nodes, its values are nodes."""

    time: int
    node: int | None
    values: tuple[int, ...]
    num_targets: int


def read_panel(
    series: str | os.PathLike[str] | Any,
    edges: Any = None,
    *,
    time: str | None = None,
    node: str | None = None,
    value: str | Sequence[str] = (),
    exogenous: str | Sequence[str] = (),
    time_zone: str | None = None,
    time_format: str | None = None,
    direction: Direction | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
) -> Panel:
    """Read series on a graph from files or frames.

    Args:
        series: A CSV or Parquet file, or a pandas or polars frame. Wide (a column of times, then one column for each
            node) or long (columns for node, time and value).
        edges: The graph: a CSV file or frame of edges (`source, target[, weight]`), an adjacency matrix (CSV, npz,
            array, SciPy), a networkx graph, PyG data or a `Graph`. See `read_graph`.
        time: Column of times; without it one with a usual name (`time`, `date`, ...), else the first.
        node: Column of node names, for a long table; without it one with a usual name (`node`, `id`, ...).
        value: Column(s) of a long table to be forecast; without it the first of those left.
        exogenous: Column(s) of a long table that only help; without it (and without `value`) the others left.
        time_zone: Name of a zone, as in Europe/Berlin. Times without one are local to it, others are converted.
        time_format: How times are written, as in %d/%m/%Y, where the table does not show it.
        direction: Whose states a node receives, see `Graph`; `both` where nothing else is known.
        csv_format: Separator, decimal sign and encoding of CSV files.
    """
    said = _Said(time, node, _as_tuple(value), _as_tuple(exogenous))

    def choose_kinds(names: tuple[str, ...]) -> list[Kind]:
        # What is not read may hold anything.
        numbers = set(_find_roles(names, (), said).values)
        return ["number" if position in numbers else "text" for position in range(len(names))]

    table = read_table(series, choose_kinds, csv_format, number_hint=NUMBER_HINT)
    if table.columns.num_rows == 0:
        raise InputError(f"Expected rows in {table.source}, got a header only.")
    roles = _find_roles(table.names, table.date_columns, said)
    times = _TimeColumn(table, roles.time, time_format, time_zone)
    panel = _read_wide(table, roles, times) if roles.node is None else _read_long(table, roles, times, roles.node)
    if edges is None:
        return panel
    graph, notes = read_graph(edges, panel.nodes, direction=direction, csv_format=csv_format)
    return panel.with_graph(graph, notes)


def write_series(panel: Panel, path: str | os.PathLike[str], layout: Layout = "long") -> None:
    """Write a panel as a CSV or Parquet table (by the ending of `path`) that `read_panel` reads back.

    Args:
        panel: The series. Its graph is written by `write_edges`.
        path: A file that ends in .csv or .parquet.
        layout: `long`, a row for each node and time, or `wide`, a column for each node (one channel only).
    """
    frame = panel_to_frame(panel, layout)
    path = Path(path)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        raise InputError(f"Expected a file that ends in .csv or .parquet, got {path.name}.")


def panel_to_frame(panel: Panel, layout: Layout = "long") -> pd.DataFrame:
    """A pandas frame of a panel, in one of the two layouts."""
    if layout == "wide":
        if panel.num_channels != 1:
            raise InputError(f"Expected one channel for a wide table, got {panel.num_channels}. Use layout='long'.")
        if "time" in panel.nodes:
            raise InputError("Expected no node called 'time' in a wide table. Use layout='long'.")
        columns = dict(zip(panel.nodes, panel.values[..., 0].T, strict=True))
        return pd.DataFrame({"time": panel.times} | columns)
    if layout != "long":
        raise InputError(f"Expected the layout 'long' or 'wide', got {layout!r}.")
    taken = {"node", "time"} & set(panel.channels)
    if taken:
        raise InputError(f"Expected no channel called {taken.pop()!r} in a table. Rename it.")
    keys = {"node": np.tile(panel.nodes, panel.num_steps), "time": panel.times.repeat(panel.num_nodes)}
    values = panel.values.reshape(-1, panel.num_channels).T
    return pd.DataFrame(keys | dict(zip(panel.channels, values, strict=True)))


def _find_roles(names: tuple[str, ...], date_columns: Sequence[int], said: _Said) -> _Roles:
    """Which column is what: as the user says, else by type, else by name."""
    time = _position(said.time, names) if said.time else _find_time(names, date_columns, said)
    node = _position(said.node, names) if said.node else find_named(names, NODE_NAMES)
    if node is None:
        if said.value or said.exogenous:
            named = (said.value + said.exogenous)[0]
            raise InputError(
                f"Expected a column of nodes to go with the values {named!r}, got the columns "
                f"{_listed(names)}. Say which holds the nodes with node."
            )
        nodes = tuple(position for position in range(len(names)) if position != time)
        return _Roles(time, None, nodes, 1)
    if said.value or said.exogenous:
        values = [_position(name, names) for name in said.value + said.exogenous]
    else:
        values = [position for position in range(len(names)) if position not in (time, node)]
    if not values or (said.exogenous and not said.value):
        raise InputError(f"Expected a column of values beside node and time, got the columns {_listed(names)}.")
    if len({time, node, *values}) != 2 + len(values):
        raise InputError(f"Expected different columns for node, time and values, got one twice: {_listed(names)}.")
    return _Roles(time, node, tuple(values), max(len(said.value), 1))


def _find_time(names: tuple[str, ...], date_columns: Sequence[int], said: _Said) -> int:
    if len(date_columns) == 1:
        return date_columns[0]
    named = find_named(names, TIME_NAMES)
    if named is not None:
        return named
    if said.node is not None or find_named(names, NODE_NAMES) is not None:
        raise InputError(f"Expected a column of times, got the columns {_listed(names)}. Say which it is with time.")
    return 0


def _position(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise InputError(f"Expected a column called {name!r}, got the columns {_listed(names)}.")
    return names.index(name)


@dataclass(frozen=True)
class _TimeColumn:
    """The column of times of a table, and how to read it."""

    table: Table
    column: int
    time_format: str | None
    time_zone: str | None

    def read(self, rows: Int[np.ndarray, " rows"]) -> pd.Index:
        """Times of some rows."""
        array = self.table.columns.column(self.column)
        if pa.types.is_dictionary(array.type) or pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            texts = self.table.texts(self.column).take(pa.array(rows)).to_pylist()
            self._check_present(np.array([text is None or text in MISSING for text in texts]), rows)
            return self._read_texts(texts, self.place(rows))
        typed = pd.Index(array.take(pa.array(rows)).to_pandas())
        self._check_present(np.asarray(typed.isna()), rows)
        if pa.types.is_date(array.type):
            typed = pd.DatetimeIndex(typed)
        if isinstance(typed, pd.DatetimeIndex):
            return in_zone(typed, self.time_zone)
        if pa.types.is_integer(array.type):
            return self._read_texts([str(number) for number in typed], self.place(rows))
        if not pa.types.is_floating(array.type):
            raise InputError(f"Expected times in column {self.name!r} of {self.table.source}, got {array.type}.")
        return typed

    def place(self, rows: Int[np.ndarray, " rows"]) -> Place:
        """Where the time of the i-th of some rows stands."""
        return lambda position: self.table.place(int(rows[position]))

    @property
    def name(self) -> str:
        return self.table.names[self.column]

    def _read_texts(self, texts: list[str], place: Place) -> pd.Index:
        try:
            return read_times(texts, place, self.time_format, self.time_zone)
        except InputError as error:
            raise InputError(f"In column {self.name!r}: {error}") from error

    def _check_present(self, is_missing: Bool[np.ndarray, " rows"], rows: Int[np.ndarray, " rows"]) -> None:
        if is_missing.any():
            place = self.place(rows)(int(np.argmax(is_missing)))
            raise InputError(f"Expected a time in every row, got none in {place}. Remove the row, or write the time.")


def _read_wide(table: Table, roles: _Roles, times: _TimeColumn) -> Panel:
    rows = np.arange(table.columns.num_rows)
    regular = regularize(times.read(rows), times.place(rows))
    values = np.full((len(regular.times), len(roles.values), 1), np.nan)
    for position, column in enumerate(roles.values):
        values[regular.positions, position, 0] = table.numbers(column)
    nodes = tuple(table.names[column].strip() for column in roles.values)
    return Panel(values, regular.times, nodes, name=table.stem).looked_at(regular.notes)


def _read_long(table: Table, roles: _Roles, times: _TimeColumn, node_column: int) -> Panel:
    nodes = table.texts(node_column)
    names = nodes.dictionary.to_pylist()
    if nodes.null_count or "" in names:
        is_missing = np.asarray([name in (None, "") for name in nodes.to_pylist()])
        place = table.place(int(np.argmax(is_missing)))
        raise InputError(f"Expected a node in every row, got none in {place}. Name it, or remove the row.")
    time_codes, first_rows = table.codes(times.column)
    regular = regularize(times.read(first_rows), times.place(first_rows))
    _check_density(table, len(names), len(regular.times))
    cells = regular.positions[time_codes] * len(names) + nodes.indices.to_numpy()
    _check_cells_differ(table, cells, names, regular.times)
    values = np.full((len(regular.times) * len(names), len(roles.values)), np.nan)
    for position, column in enumerate(roles.values):
        values[cells, position] = table.numbers(column)
    channels = tuple(table.names[column].strip() for column in roles.values)
    shape = (len(regular.times), len(names), len(channels))
    panel = Panel(
        values.reshape(shape), regular.times, tuple(names), channels, num_targets=roles.num_targets, name=table.stem
    )
    return panel.looked_at(regular.notes)


def _check_cells_differ(table: Table, cells: Int[np.ndarray, " rows"], nodes: Sequence[str], times: pd.Index) -> None:
    """Raise an `InputError` where two rows speak of the same node and time."""
    last_row = np.full(len(times) * len(nodes), -1, dtype=np.int64)
    last_row[cells] = np.arange(len(cells))
    is_repeated = last_row[cells] != np.arange(len(cells))
    if is_repeated.any():
        first = int(np.argmax(is_repeated))
        step, node = divmod(int(cells[first]), len(nodes))
        hint = "Keep one of them, or join them (mean, sum) before."
        if may_be_clock_change(times[step]):
            hint = "If the clocks went back then, write times with their UTC offset."
        raise InputError(
            f"Expected one row for each node and time, got two for {nodes[node]!r} at {show_time(times[step])}: "
            f"{table.place(first)} and {table.place(int(last_row[cells[first]]))}. {hint}"
        )


def _check_density(table: Table, num_nodes: int, num_steps: int) -> None:
    """Raise an `InputError` where almost no node is observed at the same times as another."""
    num_rows = table.columns.num_rows
    if num_nodes * num_steps > LARGEST_DILUTION * num_rows:
        raise InputError(
            f"Expected nodes observed at common times in {table.source}, got {num_nodes:,} nodes and {num_steps:,} "
            f"steps for {num_rows:,} rows. Check which columns hold node and time."
        )


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _listed(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
