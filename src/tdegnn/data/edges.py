"""The graph of a panel, from whatever the user has: a list of edges by name, a matrix, networkx, PyG, a `Graph`.

Names are those of the series: a node in the edges that the series do not know is an error, one without edges is
mentioned. Where there is no graph, `graph_building.py` makes one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import networkx
import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from torch_geometric.data import Data

from tdegnn.data.csv_files import CsvFormat, Kind, read_header
from tdegnn.data.notices import notice_graph
from tdegnn.data.tables import PLAIN_CSV, Table, check_file, find_named, is_parquet, read_table
from tdegnn.errors import InputError
from tdegnn.graph import Direction, Graph

SOURCE_NAMES = ("source", "src", "from", "node1", "u", "i")
TARGET_NAMES = ("target", "dst", "to", "node2", "v", "j")
WEIGHT_NAMES = ("weight", "w", "edge_weight", "value")
# A larger one means farther away: the opposite of a weight.
DISTANCE_NAMES = ("distance", "dist", "cost", "length", "km", "miles")


def read_graph(
    edges: Any,
    nodes: Sequence[str],
    *,
    direction: Direction | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
) -> tuple[Graph, tuple[str, ...]]:
    """Make the graph of some nodes; return it with notes for the user.

    Args:
        edges: A CSV or Parquet file or a frame of edges, by name: `source, target` and perhaps `weight`; an adjacency
            matrix as a CSV file (with or without names), an npz or npy file, an array or a SciPy matrix; a networkx
            graph whose nodes have the names; PyG data, or a `Graph`, in the order of `nodes`.
        nodes: Names of the nodes.
        direction: Whose states a node receives, see `Graph`. Without it that of a `Graph`, else `both`.
        csv_format: Separator, decimal sign and encoding of a CSV file.
    """
    made = _make(edges, tuple(nodes), direction or "both", csv_format)
    graph = made.graph if direction is None else made.graph.with_direction(direction)
    if graph.num_nodes != len(nodes):
        raise InputError(f"Expected a graph of the {len(nodes)} nodes of the series, got one of {graph.num_nodes}.")
    return graph, (*made.notes, *notice_graph(graph, nodes))


def write_edges(graph: Graph, nodes: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Write the edges of a graph as a CSV file `source,target[,weight]` that `read_graph` reads back."""
    import pandas as pd

    sources, targets = graph.edge_index.numpy()
    columns: dict[str, Any] = {"source": np.take(nodes, sources), "target": np.take(nodes, targets)}
    if graph.is_weighted:
        columns["weight"] = graph.edge_weight.numpy()
    pd.DataFrame(columns).to_csv(path, index=False)


@dataclass(frozen=True)
class _Made:
    graph: Graph
    notes: tuple[str, ...] = ()


def _make(edges: Any, nodes: tuple[str, ...], direction: Direction, csv_format: CsvFormat) -> _Made:
    if isinstance(edges, Graph):
        return _Made(edges)
    if isinstance(edges, Data):
        return _Made(Graph.from_pyg(edges, direction))
    if isinstance(edges, networkx.Graph):
        return _from_networkx(edges, nodes, direction)
    if scipy.sparse.issparse(edges) or isinstance(edges, np.ndarray):
        return _Made(Graph.from_scipy(edges, direction))
    if isinstance(edges, str | os.PathLike):
        return _read_file(check_file(edges), nodes, direction, csv_format)
    return _read_edge_list(read_table(edges, _edge_kinds), nodes, direction)


def _read_file(path: Path, nodes: tuple[str, ...], direction: Direction, csv_format: CsvFormat) -> _Made:
    if path.suffix in (".npz", ".npy"):
        return _Made(Graph.from_scipy(_load_matrix(path), direction))
    if is_parquet(path):
        return _read_edge_list(read_table(path, _edge_kinds), nodes, direction)
    return _read_csv(path, nodes, direction, csv_format)


def _read_csv(path: Path, nodes: tuple[str, ...], direction: Direction, csv_format: CsvFormat) -> _Made:
    """A matrix or a list of edges, by what the first line holds."""
    header = read_header(path, csv_format)
    if len(header) == len(nodes) + 1 and set(header[1:]) == set(nodes):
        table = read_table(path, lambda names: ["text" if name == names[0] else "number" for name in names], csv_format)
        return _read_named_matrix(table, nodes, direction)
    if len(header) == len(nodes) > 3:
        # Without names, rows and columns stand in the order of the series.
        has_header = set(header) == set(nodes) and not _are_numbers(header)
        table = read_table(path, lambda names: ["number"] * len(names), csv_format, has_header=has_header)
        order = [table.names.index(node) for node in nodes] if has_header else range(len(nodes))
        return _from_matrix(table, list(order), np.arange(len(nodes)), direction)
    # Many lists of edges have no line of names above them.
    has_header = not set(header[:2]) <= set(nodes)
    return _read_edge_list(read_table(path, _edge_kinds, csv_format, has_header=has_header), nodes, direction)


def _read_named_matrix(table: Table, nodes: tuple[str, ...], direction: Direction) -> _Made:
    rows = [str(name) for name in table.texts(0).to_pylist()]
    if sorted(rows) != sorted(nodes):
        missing = next(iter(set(nodes) - set(rows)), "one twice")
        raise InputError(f"Expected a row for each node in {table.source}, got none for {missing!r}.")
    order = np.array([rows.index(node) for node in nodes])
    return _from_matrix(table, [table.names.index(node, 1) for node in nodes], order, direction)


def _from_matrix(table: Table, columns: list[int], rows: Int[np.ndarray, " nodes"], direction: Direction) -> _Made:
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
            f"{table.names[columns[column]]!r}, {table.place(int(rows[row]))}. Write 0 where there is no edge."
        )
    return _Made(Graph.from_scipy(matrix, direction))


def _load_matrix(path: Path) -> scipy.sparse.sparray | Float[np.ndarray, "rows columns"]:
    """A matrix saved by SciPy or NumPy. Nothing pickled is opened."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded as archive:
            if "format" in archive:
                return scipy.sparse.load_npz(path)
            if len(archive.files) == 1:
                return np.asarray(archive[archive.files[0]])
            names = ", ".join(archive.files)
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise InputError(f"Expected an adjacency matrix saved by NumPy or SciPy in {path.name}: {error}.") from error
    raise InputError(f"Expected one array, the adjacency matrix, in {path.name}, got {names}.")


def _edge_kinds(names: tuple[str, ...]) -> list[Kind]:
    weight = _find_columns(names)[2]
    return ["number" if position == weight else "text" for position in range(len(names))]


def _find_columns(names: Sequence[str]) -> tuple[int, int, int | None]:
    """Columns of source, target and weight: by name, else the first, the second, and the third of three."""
    source, target, weight = (find_named(names, usual) for usual in (SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES))
    if source is None or target is None:
        if len(names) > 3:
            raise InputError(
                "Expected edges (columns source, target and perhaps weight) or a matrix with a column for each node, "
                f"got {len(names)} columns: {names[0]}, {names[1]}, ..."
            )
        source, target = 0, 1
    if weight is None and len(names) == 3 and {source, target} == {0, 1}:
        weight = 2
    if weight is not None and names[weight].lower() in DISTANCE_NAMES:
        raise InputError(
            f"Expected weights, larger for nodes that are closer, got a column {names[weight]!r}. Turn distances into "
            "weights before, as in exp(-(d / d_typical)^2), or leave the column out."
        )
    return source, target, weight


def _read_edge_list(table: Table, nodes: tuple[str, ...], direction: Direction) -> _Made:
    if len(table.names) < 2:
        raise InputError(f"Expected columns source and target in {table.source}, got {', '.join(table.names)}.")
    source, target, weight = _find_columns(table.names)
    edges = np.stack([_find_nodes(table, column, nodes) for column in (source, target)])
    weights = None
    if weight is not None:
        weights = table.numbers(weight)
        _check_weights(weights, table, table.names[weight])
    return _Made(Graph(edges, len(nodes), weights, direction), _notice_edges(edges, table.source, weights is not None))


def _find_nodes(table: Table, column: int, nodes: tuple[str, ...]) -> Int[np.ndarray, " edges"]:
    """Position in `nodes` of each name in a column."""
    texts = table.texts(column)
    positions = {node: position for position, node in enumerate(nodes)}
    names = [*texts.dictionary.to_pylist(), ""]  # the last one for empty cells
    codes = texts.indices.fill_null(-1).to_numpy()
    found = np.asarray(np.array([positions.get(name, -1) for name in names])[codes])
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        unknown = {name for name in names[: len(texts.dictionary)] if name not in positions}
        raise _unknown_node(texts[row].as_py() or "", unknown, nodes, table.place(row))
    return found


def _notice_edges(edges: Int[np.ndarray, "2 edges"], origin: str, is_weighted: bool) -> tuple[str, ...]:
    notes = []
    num_loops = int((edges[0] == edges[1]).sum())
    if num_loops:
        notes.append(f"Edges from a node to itself are left out: {num_loops} of {edges.shape[1]} in {origin}.")
    num_repeated = edges.shape[1] - np.unique(edges, axis=1).shape[1]
    if num_repeated:
        what = "have their weights added" if is_weighted else "count once"
        notes.append(f"Edges listed more than once {what}: {num_repeated} of {edges.shape[1]} in {origin}.")
    return tuple(notes)


def _from_networkx(graph: networkx.Graph, nodes: tuple[str, ...], direction: Direction) -> _Made:
    """By name: the graph may have its nodes in another order, and lack some."""
    complete = networkx.relabel_nodes(graph, str)
    unknown = [name for name in complete.nodes if name not in set(nodes)]
    if unknown:
        raise _unknown_node(unknown[0], set(unknown), nodes, "the networkx graph")
    ordered = type(complete)()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(complete.edges(data=True))
    return _Made(Graph.from_networkx(ordered, direction))


def _check_weights(weights: Float[np.ndarray, " edges"], table: Table, name: str) -> None:
    is_wrong = ~(weights >= 0)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        came = "nothing" if np.isnan(weights[row]) else str(weights[row])
        raise InputError(
            f"Expected a weight that is not negative in column {name!r}, got {came} in {table.place(row)}. "
            "Weights say how much a node receives."
        )


def _unknown_node(name: str, unknown: set[str], nodes: tuple[str, ...], where: str) -> InputError:
    hint = _hint(name, unknown, nodes)
    return InputError(f"Expected nodes of the series (such as {nodes[0]!r}), got {name!r} in {where}. {hint}")


def _hint(name: str, unknown: set[str], nodes: tuple[str, ...]) -> str:
    """What may have gone wrong with a name that no node has."""
    if _are_numbers(nodes) and unknown == {str(len(nodes))}:
        return f"The edges seem to count nodes from 1: count from 0, to {len(nodes) - 1}."
    if not name:
        return "Write a name in every row."
    if _are_numbers(unknown) and not _are_numbers(nodes):
        return "The edges hold numbers where the series have names: write the names."
    close = difflib.get_close_matches(name.casefold(), [node.casefold() for node in nodes], n=1, cutoff=0.6)
    if close:
        likely = next(node for node in nodes if node.casefold() == close[0])
        return f"Did you mean {likely!r}?"
    return "Add its series, or remove its edges."


def _are_numbers(names: Sequence[str] | set[str]) -> bool:
    return all(name.isdigit() for name in names)
