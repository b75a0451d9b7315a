"""Read a `Panel` from tables of series, and write it to them.

There are two layouts. Wide: a column of times and one column per node. Long: one row per node and time, with columns
for node, time and one or more values. The names of the columns, or the user, decide which layout a table has. All
checks of a user's table are made here and in the functions that this file calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Int

from tdegnn.data.panel import Panel, as_panel
from tdegnn.data.tables.csv_files import MISSING, CsvFormat, Kind, TableStart
from tdegnn.data.tables.table import NODE_NAMES, PLAIN_CSV, Table, find_named, read_table
from tdegnn.data.tables.written_tables import to_csv, to_parquet
from tdegnn.data.times.time_texts import in_zone, read_times
from tdegnn.data.times.times import SORTED, Place, regularize, repeated_time_hint, show_time
from tdegnn.errors import Argument, InputError, Message, list_some, suggest
from tdegnn.files import check_memory, write_whole

if TYPE_CHECKING:
    from tdegnn.data.tables.panel_like import PanelLike
    from tdegnn.graph import Direction

TIME_NAMES = ("time", "timestamp", "datetime", "date", "ds", "day", "week", "month", "year", "step")
VALUE_NAMES = ("value", "y", "target")
AMBIGUOUS_NAMES = ("id", "series")
# If nodes times steps are more than this many times the rows, a column was mistaken for another.
LARGEST_DILUTION = 100
# Bytes of memory that a time or a name of a node takes, as text and as a value, and a cell of the panel.
ENTRY_COST, CELL_COST = 200, 24
NUMBER_HINT = Message(
    "Leave cells without a value empty; for a long table, pass the column of nodes with ", Argument("node"), "."
)
# A number with a decimal comma, in a column of times.
DECIMAL_COMMA = re.compile(r"^([+-]?\d+),(\d+)$")
Layout = Literal["wide", "long"]


@dataclass(frozen=True)
class _Said:
    """The columns that the user named. Columns that are None or empty are found."""

    time: str | None
    node: str | None
    value: tuple[str, ...]
    exogenous: tuple[str, ...]


@dataclass(frozen=True)
class _Roles:
    """Positions of the columns that are read. A wide table has no column of nodes: its values are nodes."""

    time: int
    node: int | None
    values: tuple[int, ...]
    num_targets: int
    notes: tuple[str, ...] = ()


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
    edge_time: str | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
) -> Panel:
    """Read series on a graph from files or frames.

    Args:
        series: A CSV or Parquet file, or a pandas or polars frame. Wide (a column of times, then one column per node)
            or long (columns for node, time and value).
        edges: The graph: a CSV file or frame of edges (`source, target[, weight]`), an adjacency matrix (CSV, npz,
            array, SciPy), a networkx graph, PyG data or a `Graph`. See `read_graph`. If edges change, a list of graphs,
            one per step, or edges with a column of times (`time`, `timestamp`, `datetime` or `date`): those listed at a
            time hold from that step on, until the next time at which edges are listed.
        time: Column of times. Default: a column with a usual name (`time`, `date`, ...), else the first one.
        node: Column of node names, for a long table. Default: a column with a usual name (`node`, `id`, ...).
        value: Column(s) of a long table to forecast. Default: a column with a usual name (`value`, `y`, `target`), else
            the first one that is left.
        exogenous: Column(s) of a long table that help but are not forecast. Default: if `value` is not given, all
            columns that are left.
        time_zone: Name of a time zone, for example Europe/Berlin. Times without a UTC offset are local times of this
            zone, other times are converted to it.
        time_format: How times are written, for example %d/%m/%Y, if the table does not show it.
        direction: Whose states a node receives, see `Graph`. Default: that of a `Graph`, else `both`.
        edge_time: Column of times of the edges, if it has another name.
        csv_format: Separator, decimal sign and encoding of CSV files.
    """
    said = _Said(time, node, _as_tuple(value), _as_tuple(exogenous))

    def choose_kinds(start: TableStart) -> list[Kind]:
        # Columns that are not read may hold anything.
        numbers = set(_find_roles(start, (), said).values)
        return ["number" if position in numbers else "text" for position in range(len(start.names))]

    table = read_table(series, choose_kinds, csv_format, number_hint=NUMBER_HINT)
    if table.columns.num_rows == 0:
        raise InputError(f"Expected rows in {table.source}, got only a header.")
    roles = _find_roles(table.start, table.date_columns, said)
    times = TimeColumn(table, roles.time, time_format, time_zone, csv_format.decimal)
    panel = _read_wide(table, roles, times) if roles.node is None else _read_long(table, roles, times, roles.node)
    if edges is None:
        return panel
    return add_edges(
        panel,
        edges,
        direction=direction,
        edge_time=edge_time,
        time_format=time_format,
        time_zone=time_zone,
        csv_format=csv_format,
    )


def add_edges(
    panel: Panel,
    edges: Any,
    *,
    direction: Direction | None = None,
    edge_time: str | None = None,
    time_format: str | None = None,
    time_zone: str | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
) -> Panel:
    """Return series on the graph of these edges, or on their graphs if edges change. See `read_panel`."""
    # Only now: it imports torch.
    from tdegnn.data.graphs.edges import find_edge_time, make_graph, open_edges

    if isinstance(edges, list | tuple):
        if edge_time is not None or direction is not None:
            what = "a column of times" if edge_time is not None else "a direction"
            raise InputError(f"Expected a table of edges for {what}, got a list of graphs. Leave it out.")
        return panel.with_graph(edges)
    find_time = partial(find_edge_time, column=edge_time)
    opened = open_edges(edges, panel.nodes, direction or "both", csv_format, find_time)
    column = find_time(opened.names) if isinstance(opened, Table) else None
    if column is None or not isinstance(opened, Table):
        if edge_time is not None:
            came = f"the columns {list_some(opened.names)}" if isinstance(opened, Table) else "a graph"
            raise InputError(f"Expected edges with a column {edge_time!r}, got {came}. Correct its name.")
        return panel.with_graph(*make_graph(opened, panel.nodes, direction))
    from tdegnn.data.graphs.edge_times import read_edge_times

    times = TimeColumn(opened, column, time_format, time_zone, csv_format.decimal)
    return panel.with_graph_steps(*read_edge_times(times, panel, direction or "both"))


def write_series(panel: PanelLike, path: str | os.PathLike[str], layout: Layout = "long") -> None:
    """Write a panel as a CSV or Parquet table (by the ending of `path`) that `read_panel` reads back.

    When you read it back, pass what a table does not hold: which columns are values and which are exogenous, and for
    CSV the time zone. In a CSV file, names that a spreadsheet would run as a formula, such as `=A1`, begin with an
    apostrophe, which `read_panel` takes away again. The file is written completely or not at all.

    Args:
        panel: The series, as a panel or a frame. `write_edges` writes its graph.
        path: A file that ends in .csv or .parquet.
        layout: `long`, one row per node and time, or `wide`, one column per node (one channel only).
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"Expected a file that ends in .csv or .parquet, got {path.name}.")
    frame = panel_to_frame(panel, layout)
    write_whole(path, to_parquet(frame) if path.suffix == ".parquet" else to_csv(frame).encode())


def panel_to_frame(panel: PanelLike, layout: Layout = "long") -> pd.DataFrame:
    """Return a panel, or a frame in any layout that `read_panel` reads, as a pandas frame in one of the two layouts."""
    panel = as_panel(panel)
    if layout == "wide":
        if panel.num_channels != 1:
            raise InputError(f"Expected one channel for a wide table, got {panel.num_channels}. Use layout='long'.")
        reserved = [node for node in panel.nodes if node.lower() in (*TIME_NAMES, *NODE_NAMES) or _is_count(node)]
        if reserved:
            raise InputError(f"Expected no node called {reserved[0]!r} in a wide table. Use layout='long'.")
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


def _find_roles(start: TableStart, date_columns: Sequence[int], said: _Said) -> _Roles:
    """Decide what each column is: as the user says, else by name, else by type, else by position."""
    names = start.names
    time = _position(said.time, names) if said.time else _find_time(names, date_columns)
    node = _position(said.node, names) if said.node else _find_node(start, time)
    # Row numbers that pandas wrote are not data.
    left = [position for position, name in enumerate(names) if position not in (time, node) and not _is_count(name)]
    if node is None:
        if said.value or said.exogenous:
            named = (said.value + said.exogenous)[0]
            raise InputError(
                f"Expected a column of nodes to go with the values {named!r}, got the columns {list_some(names)}. "
                "Pass the column of nodes with ",
                Argument("node"),
                ".",
            )
        return _Roles(time or 0, None, tuple(position for position in left if position != (time or 0)), 1)
    if time is None:
        raise InputError(
            f"Expected a column of times, got the columns {list_some(names)}. Name it with ",
            Argument("time"),
            ".",
        )
    values, notes = _find_values(names, left, said)
    if len({time, node, *values}) != 2 + len(values):
        raise InputError(f"Expected different columns for node, time and values, got one twice: {list_some(names)}.")
    return _Roles(time, node, values, max(len(said.value), 1), notes)


def _find_values(names: tuple[str, ...], left: list[int], said: _Said) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the columns of values of a long table, targets first, and notes on the choice."""
    if said.value:
        return tuple(_position(name, names) for name in said.value + said.exogenous), ()
    if not left or said.exogenous:
        raise InputError(
            f"Expected a column of values next to node and time, got the columns {list_some(names)}. Name it with ",
            Argument("value"),
            ".",
        )
    usual = find_named([names[position] for position in left], VALUE_NAMES)
    target = left[0] if usual is None else left[usual]
    others = [position for position in left if position != target]
    note = Message(
        f"The column {names[target]!r} is forecast; the other columns only help. Pass another with ",
        Argument("value"),
        ".",
    )
    return (target, *others), (note,) if others else ()


def _find_time(names: tuple[str, ...], date_columns: Sequence[int]) -> int | None:
    named = find_named(names, TIME_NAMES)
    return date_columns[0] if named is None and len(date_columns) == 1 else named


def _find_node(start: TableStart, time: int | None) -> int | None:
    """Return the column of nodes, by its name. None for a wide table, in which a node may be called ID (Idaho).

    In a long table the names of nodes are not numbers, or times repeat, or the first rows all belong to one node.
    """
    node = find_named(start.names, NODE_NAMES)
    if node is None or time is None or node == time:
        return node if time is None else None
    times, nodes = start.column(time), start.column(node)
    is_ambiguous = start.names[node].lower() in AMBIGUOUS_NAMES and start.holds_numbers(node)
    is_long = not is_ambiguous or len(set(times)) < len(times) or len(set(nodes)) == 1
    return node if is_long else None


def _is_count(name: str) -> bool:
    """Return whether pandas writes this name above a column of row numbers."""
    return not name or name.startswith("Unnamed: ")


def _position(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise InputError(
            f"Expected a column called {name!r}, got the columns {list_some(names)}.{suggest(name, names)}"
        )
    return names.index(name)


@dataclass(frozen=True)
class TimeColumn:
    """The column of times of a table, and how to read it."""

    table: Table
    column: int
    time_format: str | None
    time_zone: str | None
    decimal: str

    def read(self, rows: Int[np.ndarray, " rows"]) -> pd.Index:
        """Return the times of some rows."""
        array = self.table.column(self.column)
        if pa.types.is_dictionary(array.type) or pa.types.is_string(array.type):
            texts = self.table.texts(self.column).take(pa.array(rows)).to_pylist()
            self._check_present(np.array([text is None or text in MISSING for text in texts]), rows)
            if self.decimal == ",":
                texts = [DECIMAL_COMMA.sub(r"\1.\2", text) for text in texts]
            return self._read_texts(texts, rows)
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
        chosen = array.take(pa.array(rows)).to_pandas()
        # pandas has no index of float16. Through text, so that 0.1 stays 0.1.
        typed = pd.Index(chosen.astype(str).astype(np.float64) if pa.types.is_float16(array.type) else chosen)
        self._check_present(np.asarray(typed.isna()), rows)
        if isinstance(typed, pd.DatetimeIndex):
            return in_zone(typed, self.time_zone, self.place(rows))
        is_whole = pa.types.is_floating(array.type) and bool((np.isfinite(typed) & (typed == np.floor(typed))).all())
        if pa.types.is_integer(array.type) or is_whole:
            return self._read_texts([str(int(number)) for number in typed], rows)
        if not pa.types.is_floating(array.type) or self.time_format or self.time_zone:
            raise InputError(
                f"Expected dates in column {self.name!r} of {self.table.source}, got {array.type}. Convert it first."
            )
        return typed

    def place(self, rows: Int[np.ndarray, " rows"]) -> Place:
        """Return a function that returns the place of the time of the i-th of these rows."""
        return lambda position: self.table.place(int(rows[position]))

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.table.names[self.column]

    def _read_texts(self, texts: list[str], rows: Int[np.ndarray, " rows"]) -> pd.Index:
        try:
            return read_times(texts, self.place(rows), self.time_format, self.time_zone)
        except InputError as error:
            raise InputError(f"In column {self.name!r}: ", error.message) from error

    def _check_present(self, is_missing: Bool[np.ndarray, " rows"], rows: Int[np.ndarray, " rows"]) -> None:
        if is_missing.any():
            place = self.place(rows)(int(np.argmax(is_missing)))
            raise InputError(f"Expected a time in every row, got none in {place}. Remove the row, or write the time.")


def _read_wide(table: Table, roles: _Roles, times: TimeColumn) -> Panel:
    rows = np.arange(table.columns.num_rows)
    check_cost = _cost_check(table)
    check_cost(len(rows), 0)
    regular = regularize(times.read(rows), times.place(rows))
    check_cost(len(rows), len(regular.times) * len(roles.values))
    values = np.full((len(regular.times), len(roles.values), 1), np.nan)
    for position, column in enumerate(roles.values):
        values[regular.positions, position, 0] = table.numbers(column)
    nodes = tuple(table.names[column].strip() for column in roles.values)
    return Panel(values, regular.times, nodes, name=_as_text(table.stem)).looked_at((*roles.notes, *regular.notes))


def _read_long(table: Table, roles: _Roles, times: TimeColumn, node_column: int) -> Panel:
    check_cost = _cost_check(table)
    nodes = table.texts(node_column)
    check_cost(len(nodes.dictionary), 0)
    names = nodes.dictionary.to_pylist()
    if nodes.null_count or "" in names:
        is_missing = np.asarray([name in (None, "") for name in nodes.to_pylist()])
        place = table.place(int(np.argmax(is_missing)))
        raise InputError(f"Expected a node in every row, got none in {place}. Name it, or remove the row.")
    spellings, first_rows = table.codes(times.column)
    check_cost(len(names) + len(first_rows), 0)
    # Two spellings of one time, 2024-01-01 and 2024-01-01 00:00, are one time.
    codes, distinct = pd.factorize(times.read(first_rows))
    regular = regularize(distinct, times.place(first_rows[np.unique(codes, return_index=True)[1]]))
    time_codes = codes[spellings]
    _check_density(table, len(names), len(regular.times))
    check_cost(len(names) + len(first_rows), len(names) * len(regular.times) * len(roles.values))
    positions, node_codes = regular.positions[time_codes], nodes.indices.to_numpy()
    cells = positions * len(names) + node_codes
    _check_cells_differ(table, cells, names, regular.times)
    values = np.full((len(regular.times) * len(names), len(roles.values)), np.nan)
    for position, column in enumerate(roles.values):
        values[cells, position] = table.numbers(column)
    channels = tuple(table.names[column].strip() for column in roles.values)
    shape = (len(regular.times), len(names), len(channels))
    panel = Panel(
        values.reshape(shape),
        regular.times,
        tuple(names),
        channels,
        num_targets=roles.num_targets,
        name=_as_text(table.stem),
    )
    # A table sorted by node is in order if each node is.
    by_node = np.argsort(node_codes, kind="stable")
    is_step_back = (np.diff(positions[by_node]) < 0) & (np.diff(node_codes[by_node]) == 0)
    notes = [note for note in regular.notes if note != SORTED or is_step_back.any()]
    return panel.looked_at((*roles.notes, *notes))


def _check_cells_differ(table: Table, cells: Int[np.ndarray, " rows"], nodes: Sequence[str], times: pd.Index) -> None:
    """Raise an `InputError` if two rows have the same node and time."""
    last_row = np.full(len(times) * len(nodes), -1, dtype=np.int64)
    last_row[cells] = np.arange(len(cells))
    is_repeated = last_row[cells] != np.arange(len(cells))
    if is_repeated.any():
        first = int(np.argmax(is_repeated))
        step, node = divmod(int(cells[first]), len(nodes))
        raise InputError(
            f"Expected one row per node and time, got two for {nodes[node]!r} at {show_time(times[step])}: "
            f"{table.place(first)} and {table.place(int(last_row[cells[first]]))}. ",
            repeated_time_hint(times[step]),
        )


def _as_text(file_name: str) -> str:
    """Return the name of a file, which may have bytes that are no text, for the name of a panel."""
    return os.fsencode(file_name).decode(errors="replace")


def _cost_check(table: Table) -> Callable[[int, int], None]:
    """Return a function that raises an `InputError` if table and panel would take more memory than the limit.

    It takes the number of times and names, and that of the cells of the panel.
    """
    taken = 2 * table.columns.nbytes

    def check(num_entries: int, num_cells: int) -> None:
        check_memory(taken + ENTRY_COST * num_entries + CELL_COST * num_cells, table.source)

    return check


def _check_density(table: Table, num_nodes: int, num_steps: int) -> None:
    """Raise an `InputError` if almost no two nodes are observed at the same time."""
    num_rows = table.columns.num_rows
    if num_nodes * num_steps > LARGEST_DILUTION * num_rows:
        raise InputError(
            f"Expected nodes observed at common times in {table.source}, got {num_nodes:,} nodes and {num_steps:,} "
            f"steps for {num_rows:,} rows. Check which columns hold nodes and times."
        )


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
