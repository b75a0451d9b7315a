"""Adjacency matrices of users: CSV with or without names, NumPy and SciPy files, arrays.

Entry (i, j) weighs the edge i -> j. Rows and columns without names are in the order of the series.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from tdegnn.data.array_files import FORMAT, Array, list_arrays, read_arrays, read_sparse
from tdegnn.data.tables.csv_files import CsvFormat, Kind, TableStart, peek_csv
from tdegnn.data.tables.table import Table, read_table
from tdegnn.errors import InputError, list_some


def looks_like_matrix(first: TableStart, nodes: tuple[str, ...]) -> bool:
    """Return whether a table holds only numbers, with one row per node. Refuse a table that could also hold edges."""
    header = tuple(cell.strip() for cell in first.rows[0])
    has_header = set(header) == set(nodes) and not are_whole_numbers(header)
    num_rows = len(first.rows) - has_header
    below = TableStart(first.names, first.rows[1:])
    is_numeric = all(below.holds_numbers(position) for position in range(len(nodes)))
    could_be_edges = len(nodes) <= 3 and not has_header and are_whole_numbers(nodes)
    if is_numeric and could_be_edges and num_rows == len(nodes):
        raise InputError(
            "Expected edges or a matrix, got numbers that could be either. Write source,target,weight above edges, or "
            "the names of the nodes above a matrix."
        )
    return is_numeric and (len(nodes) > 3 or num_rows == len(nodes))


def read_plain_matrix(path: Path, nodes: tuple[str, ...], csv_format: CsvFormat) -> Float[np.ndarray, "nodes nodes"]:
    """Read a matrix whose rows have no names. They are in the order of the series."""
    _, start = peek_csv(path, csv_format)
    # If the names are numbers, the first line may be a row of the matrix.
    has_header = set(start.names) == set(nodes) and not are_whole_numbers(start.names)
    table = read_table(path, lambda start: ["number"] * len(start.names), csv_format, has_header=has_header)
    columns = {name: position for position, name in enumerate(table.names)}
    order = [columns[node] for node in nodes] if has_header else list(range(len(nodes)))
    return _from_columns(table, order, np.arange(len(nodes)))


def read_named_matrix(table: Table, nodes: tuple[str, ...]) -> Float[np.ndarray, "nodes nodes"]:
    """Read a matrix with the names of the nodes in the first line and the first column, in any order."""
    rows = {str(name): row for row, name in enumerate(table.texts(0).to_pylist())}
    missing = [node for node in nodes if node not in rows]
    if missing or table.columns.num_rows != len(nodes):
        what = f"none for {missing[0]!r}" if missing else f"{table.columns.num_rows} rows for {len(nodes)} nodes"
        raise InputError(f"Expected one row per node in {table.source}, got {what}.")
    columns = {name: position for position, name in enumerate(table.names) if position > 0}
    order = np.array([rows[node] for node in nodes])
    return _from_columns(table, [columns[node] for node in nodes], order)


def _from_columns(
    table: Table, columns: list[int], rows: Int[np.ndarray, " nodes"]
) -> Float[np.ndarray, "nodes nodes"]:
    if table.columns.num_rows != len(columns):
        raise InputError(
            f"Expected a square adjacency matrix in {table.source}, got {table.columns.num_rows} rows and "
            f"{len(columns)} columns."
        )
    matrix = np.stack([table.numbers(column)[rows] for column in columns], axis=1)
    is_wrong = ~(matrix >= 0)
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0]
        raise InputError(
            f"Expected weights that are not negative in {table.source}, got {matrix[row, column]} in column "
            f"{table.names[columns[column]]!r}, {table.place(int(rows[row]))}. Write 0 for no edge."
        )
    return matrix


def matrix_kinds(start: TableStart) -> list[Kind]:
    """Return what the columns of a matrix with names hold."""
    return ["text" if position == 0 else "number" for position in range(len(start.names))]


def load_matrix(path: Path) -> scipy.sparse.sparray | Array:
    """Load a matrix saved by SciPy or NumPy. Pickled objects are refused."""
    what = "an adjacency matrix"
    names = list_arrays(path, what)
    if FORMAT in names:
        return read_sparse(path, what)
    if len(names) != 1:
        raise InputError(
            f"Expected one array, the adjacency matrix, in {path.name}, got {list_some(names) or 'an empty archive'}."
        )
    return read_arrays(path, what, names)[0]


def are_whole_numbers(names: Iterable[str]) -> bool:
    """Return whether all names are whole numbers, as positions are."""
    return all(name.isdigit() for name in names)
