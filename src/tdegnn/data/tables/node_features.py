"""Features of nodes that do not change in time, such as a population or a height, read by the names of the nodes.

They are not channels of a panel: a channel that is constant at each node has no spread there and, scaled per node,
would be zero. They are stored separately, and joined to the frames of a panel when windows are made
(`forecasting/frames.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.tables.csv_files import CsvFormat, Kind, TableStart
from tdegnn.data.tables.table import NODE_NAMES, PLAIN_CSV, Table, find_named, read_table
from tdegnn.errors import LARGEST_VALUE, InputError, find_too_large

NUMBER_HINT = "Node features are numbers: write one, or leave the column out."


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """Features of nodes that do not change in time. Made by `read_node_features`.

    Attributes:
        values: One row per node, in the order of the panel and in the units of the user.
        names: Names of the features.
        notes: Remarks on the table for the user.
    """

    values: Float[np.ndarray, "nodes features"]
    names: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


# What users may pass: a file, a frame with nodes in its index or in a column, or {"Paris": {"population": 2.1}, ...}.
NodeFeaturesSource: TypeAlias = Any


def read_node_features(source: NodeFeaturesSource, panel: Panel, csv_format: CsvFormat = PLAIN_CSV) -> NodeFeatures:
    """Read the features of the nodes of a panel, by name. Other nodes are left out, with a note.

    Args:
        source: A CSV or Parquet file with one row per node, a frame with the nodes in its index or in a column, or a
            mapping from nodes to named numbers. Nodes are in the column with a usual name (`node`, `id`, ...), or in
            the first column if there is none.
        panel: The series.
        csv_format: Separator, decimal sign and encoding of a CSV file.
    """
    if isinstance(source, NodeFeatures):
        return source
    if isinstance(source, Mapping):
        source = _as_frame(source)
    if isinstance(source, pd.DataFrame):
        source = _with_nodes_as_column(source, panel.nodes)
    table = read_table(source, _kinds, csv_format, number_hint=NUMBER_HINT)
    node_column = _node_column(table.names)
    columns = [position for position in range(len(table.names)) if position != node_column]
    names = tuple(table.names[position].strip() for position in columns)
    if not columns:
        raise InputError(f"Expected a column of numbers next to the nodes in {table.source}, got none. Add one.")
    taken = [name for name in names if name in panel.channels]
    if taken:
        raise InputError(f"Expected node features with other names than the channels, got {taken[0]!r}. Rename one.")
    rows, notes = _rows_of(table, node_column, panel.nodes)
    values = np.stack([table.numbers(position)[rows] for position in columns], axis=1)
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0]
        place = table.place(rows[row])
        raise InputError(f"Expected a number in column {names[column]!r}, got nothing in {place}. Fill it in.")
    found = find_too_large(values)
    if found is not None:
        raise InputError(
            f"Expected numbers of at most {LARGEST_VALUE:g} in size in column {names[found[1]]!r}, got "
            f"{values[found]:g} in {table.place(rows[found[0]])}. Use a larger unit."
        )
    return NodeFeatures(values, names, notes)


def _rows_of(table: Table, node_column: int, nodes: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return the row of each node, and notes about rows of other nodes."""
    listed = [name or "" for name in table.texts(node_column).to_pylist()]
    rows: dict[str, int] = {}
    for row, name in enumerate(listed):
        if name in rows:
            raise InputError(f"Expected each node once, got {name!r} again in {table.place(row)}. Remove all but one.")
        rows[name] = row
    missing = [node for node in nodes if node not in rows]
    if missing:
        raise InputError(
            f"Expected each node of the series in column {table.names[node_column]!r} of {table.source}, got none "
            f"called {missing[0]!r}. Add its row."
        )
    others = sorted(rows.keys() - set(nodes), key=rows.__getitem__)
    notes: tuple[str, ...] = ()
    if others:
        notes = (f"{table.source} has nodes that are not in the series, {others[0]!r} first; they are left out.",)
    return [rows[node] for node in nodes], notes


def _as_frame(source: Mapping[Any, Any]) -> pd.DataFrame:
    if not all(isinstance(numbers, Mapping) for numbers in source.values()):
        raise InputError(
            "Expected named numbers of each node, as in {'Paris': {'population': 2.1}}, got others. Name them."
        )
    # Not `from_dict`, which in pandas 2 leaves out nodes without numbers.
    return pd.DataFrame([dict(numbers) for numbers in source.values()], [str(node) for node in source])


def _with_nodes_as_column(frame: pd.DataFrame, nodes: Sequence[str]) -> pd.DataFrame:
    """Return the frame with a column of nodes if its index holds them. An index of numbers may only count rows."""

    def holds_nodes(labels: Any) -> bool:
        return set(nodes) <= {str(label) for label in labels}

    has_column = find_named([str(name) for name in frame.columns], NODE_NAMES) is not None
    if has_column or not holds_nodes(frame.index) or (len(frame.columns) and holds_nodes(frame.iloc[:, 0])):
        return frame
    return frame.rename_axis("node")


def _node_column(names: Sequence[str]) -> int:
    usual = find_named(names, NODE_NAMES)
    return 0 if usual is None else usual


def _kinds(start: TableStart) -> list[Kind]:
    node_column = _node_column(start.names)
    return ["text" if position == node_column else "number" for position in range(len(start.names))]
