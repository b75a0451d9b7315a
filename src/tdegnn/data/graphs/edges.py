"""Read the graph of some nodes from a list of edges by name, a matrix, networkx, PyG data or a `Graph`.

Edges use the names of the nodes. A name that no node has is an error; a node without edges gives a note. `neighbors.py`
makes a graph for users who have none.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pandas as pd
import scipy.sparse
from jaxtyping import Float, Int

from tdegnn.data.graphs.adjacency_files import (
    are_whole_numbers,
    load_matrix,
    looks_like_matrix,
    matrix_kinds,
    read_named_matrix,
    read_plain_matrix,
)
from tdegnn.data.tables.csv_files import CsvFormat, Kind, TableStart, check_file, is_parquet, peek_csv
from tdegnn.data.tables.table import PLAIN_CSV, Table, find_named, read_table
from tdegnn.data.tables.written_tables import to_csv
from tdegnn.errors import InputError, list_nodes, name_kind
from tdegnn.files import write_whole
from tdegnn.graph import Direction, Graph, is_pyg_data

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

WEIGHT_HINT = "Write a number, or leave the column out."
SOURCE_NAMES = ("source", "src", "from", "node1", "u", "i")
TARGET_NAMES = ("target", "dst", "to", "node2", "v", "j")
WEIGHT_NAMES = ("weight", "w", "edge_weight", "value")
# Names that say that edges change. A `year` may be that in which a road was built: such a column must be named.
EDGE_TIME_NAMES = ("time", "timestamp", "datetime", "date")
# The most characters of a name that a message shows.
LONGEST_SHOWN = 100
# Names of columns in which a larger number means farther away: the opposite of a weight.
DISTANCE_WORDS = {"distance", "distances", "dist", "cost", "length", "km", "miles", "meters", "metres", "minutes"}


def read_graph(
    edges: Any,
    nodes: Sequence[str],
    *,
    direction: Direction | None = None,
    csv_format: CsvFormat = PLAIN_CSV,
) -> tuple[Graph, tuple[str, ...]]:
    """Make the graph of some nodes. Return it with notes for the user.

    Args:
        edges: A CSV or Parquet file or a frame of edges by name: `source, target` and perhaps `weight`; an adjacency
            matrix as a CSV file (with or without names), an npz or npy file, an array or a SciPy matrix; a networkx
            graph whose nodes have these names; PyG data, or a `Graph`, in the order of `nodes`.
        nodes: Names of the nodes.
        direction: Whose states a node receives, see `Graph`. Default: that of a `Graph`, else `both`.
        csv_format: Separator, decimal sign and encoding of a CSV file.
    """
    return make_graph(open_edges(edges, tuple(nodes), direction or "both", csv_format), nodes, direction)


def make_graph(
    opened: MadeGraph | Table, nodes: Sequence[str], direction: Direction | None
) -> tuple[Graph, tuple[str, ...]]:
    """Return the graph of opened edges, with notes. See `read_graph`."""
    made = _read_edge_list(opened, tuple(nodes), direction or "both") if isinstance(opened, Table) else opened
    graph = made.graph if direction is None else made.graph.with_direction(direction)
    if graph.num_nodes != len(nodes):
        raise InputError(f"Expected a graph of the {len(nodes)} nodes, got one of {graph.num_nodes}.")
    return graph, (*made.notes, *notes_on_graph(graph, nodes))


def write_edges(graph: Graph, nodes: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Write the edges of a graph as a CSV file `source,target[,weight]` that `read_graph` reads back.

    Names that a spreadsheet would run as a formula begin with an apostrophe, as in `write_series`.
    """
    if Path(path).suffix != ".csv":
        raise InputError(f"Expected a file that ends in .csv, got {Path(path).name}.")
    sources, targets = graph.edge_index.numpy()
    columns: dict[str, Any] = {"source": np.take(nodes, sources), "target": np.take(nodes, targets)}
    if graph.is_weighted:
        columns["weight"] = graph.edge_weight.numpy()
    write_whole(Path(path), to_csv(pd.DataFrame(columns)).encode())


# Returns the place of the column of times among the names of columns, if there is one.
FindTime: TypeAlias = Callable[[tuple[str, ...]], int | None]


def _no_times(names: tuple[str, ...]) -> None:
    """Return that no column holds times."""


def find_edge_time(names: tuple[str, ...], column: str | None = None) -> int | None:
    """Return the place of the column of times of edges: the one that is named, or one with a usual name."""
    return find_named(names, EDGE_TIME_NAMES if column is None else (column,))


@dataclass(frozen=True)
class MadeGraph:
    """A graph, and notes for the user."""

    graph: Graph
    notes: tuple[str, ...] = ()


def open_edges(  # noqa: PLR0911
    edges: Any,
    nodes: tuple[str, ...],
    direction: Direction,
    csv_format: CsvFormat,
    find_time: FindTime = _no_times,
) -> MadeGraph | Table:
    """Return the table of a list of edges, and the graph of anything else that `read_graph` takes.

    Args:
        edges: As in `read_graph`.
        nodes: Names of the nodes.
        direction: Whose states a node receives.
        csv_format: Separator, decimal sign and encoding of a CSV file.
        find_time: Finds the column of times of a list of edges.
    """
    if isinstance(edges, Graph):
        return MadeGraph(edges)
    if is_pyg_data(edges):
        return _from_pyg(edges, nodes, direction)
    if is_networkx_graph(edges):
        return _from_networkx(edges, nodes, direction)
    if scipy.sparse.issparse(edges) or isinstance(edges, np.ndarray):
        return _from_array(edges, direction)
    if isinstance(edges, str | os.PathLike):
        return _open_file(check_file(edges), nodes, direction, csv_format, find_time)
    if isinstance(edges, pd.DataFrame) and {str(name) for name in edges.columns} == set(nodes):
        named = edges.set_axis([str(name) for name in edges.columns], axis=1).set_axis(map(str, edges.index), axis=0)
        return _from_array(read_named_matrix(read_table(named.rename_axis("node"), matrix_kinds), nodes), direction)
    if not hasattr(edges, "columns"):
        raise InputError(
            "Expected edges as a file, a frame, a matrix, a networkx graph, PyG data or a Graph, got "
            f"{name_kind(edges)}. Make a Graph of it."
        )
    return read_table(edges, partial(_edge_kinds, find_time=find_time))


def _open_file(
    path: Path, nodes: tuple[str, ...], direction: Direction, csv_format: CsvFormat, find_time: FindTime
) -> MadeGraph | Table:
    if path.suffix in (".npz", ".npy"):
        return _from_array(load_matrix(path), direction)
    if is_parquet(path):
        return read_table(path, partial(_edge_kinds, find_time=find_time))
    return _open_csv(path, nodes, direction, csv_format, find_time)


def _open_csv(
    path: Path, nodes: tuple[str, ...], direction: Direction, csv_format: CsvFormat, find_time: FindTime
) -> MadeGraph | Table:
    """Open a matrix or a list of edges; the first lines tell which it is."""
    _, first = peek_csv(path, csv_format, has_header=False)
    header = tuple(cell.strip() for cell in first.rows[0])
    if find_named(header, SOURCE_NAMES) is None or find_named(header, TARGET_NAMES) is None:
        if len(header) == len(nodes) + 1 and set(header[1:]) == set(nodes):
            return _from_array(read_named_matrix(read_table(path, matrix_kinds, csv_format), nodes), direction)
        if len(header) == len(nodes) and looks_like_matrix(first, nodes):
            return _from_array(read_plain_matrix(path, nodes, csv_format), direction)
    has_header = _has_names(header, nodes, path)
    kinds = partial(_edge_kinds, find_time=find_time)
    return read_table(path, kinds, csv_format, has_header=has_header, number_hint=WEIGHT_HINT)


def _has_names(header: tuple[str, ...], nodes: tuple[str, ...], path: Path) -> bool:
    """Return whether the first line of a list of edges holds the names of its columns. In many lists it does not."""
    ends = header[:2]
    num_known = len(set(ends) & set(nodes))
    is_usual = find_named(header, SOURCE_NAMES) is not None and find_named(header, TARGET_NAMES) is not None
    if is_usual or num_known == 0:
        return True
    if num_known < len(set(ends)):
        unknown = next(end for end in ends if end not in nodes)
        raise _unknown_node(unknown, {unknown}, nodes, f"line 1 of {path.name}")
    return False


def _from_array(matrix: Any, direction: Direction) -> MadeGraph:
    if isinstance(matrix, np.ma.MaskedArray):
        matrix = matrix.filled(0)
    graph = Graph.from_scipy(matrix, direction)
    num_loops = int(np.count_nonzero(matrix.diagonal()))
    return MadeGraph(graph, _notes_on_loops(num_loops, graph.num_edges + num_loops, "the matrix"))


def _from_pyg(data: Data, nodes: tuple[str, ...], direction: Direction) -> MadeGraph:
    graph = Graph.from_pyg(data, direction)
    names = data.get("node_names")
    if names is not None and set(names) == set(nodes):
        # The data have names, and may be in another order.
        positions = {node: position for position, node in enumerate(nodes)}
        places = np.array([positions[name] for name in names])
        weights = graph.edge_weight if graph.is_weighted else None
        graph = Graph(places[graph.edge_index.numpy()], graph.num_nodes, weights, direction)
    num_loops = int((data.edge_index[0] == data.edge_index[1]).sum())
    return MadeGraph(graph, _notes_on_loops(num_loops, data.edge_index.shape[1], "the PyG data"))


def _edge_kinds(start: TableStart, find_time: FindTime) -> list[Kind]:
    weight = find_columns(start, find_time(start.names)).weight
    return ["number" if position == weight else "text" for position in range(len(start.names))]


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of a list of edges, and notes on how they were found."""

    source: int
    target: int
    weight: int | None
    notes: tuple[str, ...] = ()


def find_columns(start: TableStart, time: int | None = None) -> EdgeColumns:
    """Return the columns of sources, targets and weights, found by name, or else the first, second and numeric third.

    Args:
        start: The first rows of the table.
        time: The column of times, if there is one, which is none of them.
    """
    names = start.names
    source, target, weight = (find_named(names, usual) for usual in (SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES))
    weight = None if weight == time else weight
    if source is None or target is None:
        if len(names) > 3:
            raise InputError(
                "Expected edges (columns source, target and perhaps weight) or a matrix with a column for each node, "
                f"got {len(names)} columns: {names[0]}, {names[1]}, ..."
            )
        source, target = 0, 1
    notes: tuple[str, ...] = ()
    if weight is None and len(names) == 3 and {source, target} == {0, 1} and time != 2:
        is_named = not names[2].isdigit()
        if start.holds_numbers(2) or not is_named:
            weight, notes = 2, (f"The column {names[2]!r} was taken for the weights.",) if is_named else ()
        else:
            notes = (f"The column {names[2]!r} does not hold numbers and was not used.",)
    if weight is not None and DISTANCE_WORDS & set(re.split(r"[\W_\d]+", names[weight].lower())):
        raise InputError(
            f"Expected weights, larger for nodes that are closer, got a column {names[weight]!r}. Turn distances into "
            "weights first, for example by exp(-(d / d_typical)^2), or leave the column out."
        )
    return EdgeColumns(source, target, weight, notes)


@dataclass(frozen=True, eq=False)
class EdgeList:
    """The edges of a table, by the places of their nodes, with their weights, if any, and notes on the columns."""

    ends: Int[np.ndarray, "2 edges"]
    weights: Float[np.ndarray, " edges"] | None
    notes: tuple[str, ...]


def read_edge_list(table: Table, nodes: tuple[str, ...], time: int | None = None) -> EdgeList:
    """Read the sources, targets and weights of a table. `time` is its column of times, if it has one."""
    if len(table.names) < 2:
        raise InputError(f"Expected columns source and target in {table.source}, got {', '.join(table.names)}.")
    found = find_columns(table.start, time)
    edges = np.stack([_find_nodes(table, column, nodes) for column in (found.source, found.target)])
    weights = None
    if found.weight is not None:
        weights = table.numbers(found.weight)
        _check_weights(weights, table, table.names[found.weight])
    return EdgeList(edges, weights, found.notes)


def _read_edge_list(table: Table, nodes: tuple[str, ...], direction: Direction) -> MadeGraph:
    listed = read_edge_list(table, nodes)
    notes = notes_on_edges(listed.ends, len(nodes), table.source, listed.weights is not None)
    return MadeGraph(Graph(listed.ends, len(nodes), listed.weights, direction), (*listed.notes, *notes))


def _find_nodes(table: Table, column: int, nodes: tuple[str, ...]) -> Int[np.ndarray, " edges"]:
    """Return the position in `nodes` of each name in a column."""
    texts = table.texts(column)
    positions = {node: position for position, node in enumerate(nodes)}
    names = [*texts.dictionary.to_pylist(), ""]  # the last entry is for empty cells
    codes = texts.indices.fill_null(-1).to_numpy()
    found = np.asarray(np.array([positions.get(name, -1) for name in names])[codes])
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        unknown = {name for name in names[: len(texts.dictionary)] if name not in positions}
        raise _unknown_node(texts[row].as_py() or "", unknown, nodes, table.place(row))
    return found


def notes_on_edges(
    edges: Int[np.ndarray, "2 edges"], num_nodes: int, origin: str, is_weighted: bool
) -> tuple[str, ...]:
    """Return notes on edges from a node to itself, and on those that are listed more than once."""
    notes = list(_notes_on_loops(int((edges[0] == edges[1]).sum()), edges.shape[1], origin))
    num_repeated = edges.shape[1] - len(np.unique(edges[0] * num_nodes + edges[1]))
    if num_repeated:
        what = "have their weights added" if is_weighted else "count once"
        notes.append(f"Edges listed more than once {what}: {num_repeated} of {edges.shape[1]} in {origin}.")
    return tuple(notes)


def _notes_on_loops(num_loops: int, num_edges: int, origin: str) -> tuple[str, ...]:
    if num_loops == 0:
        return ()
    return (f"Edges from a node to itself are left out: {num_loops} of {num_edges} in {origin}.",)


def notes_on_graph(graph: Graph, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return a note if the graph has no edges, or some nodes have none."""
    if graph.num_edges == 0:
        return ("The graph has no edges.",)
    linked = set(graph.edge_index.unique().tolist())
    alone = [name for position, name in enumerate(nodes) if position not in linked]
    return (f"No edge touches {list_nodes(alone, len(nodes))}.",) if alone else ()


def is_networkx_graph(edges: object) -> TypeGuard[networkx.Graph]:
    """Return whether an object is a networkx graph, without importing networkx: such a graph implies the import."""
    module = sys.modules.get("networkx")
    return module is not None and isinstance(edges, module.Graph)


def _from_networkx(graph: networkx.Graph, nodes: tuple[str, ...], direction: Direction) -> MadeGraph:
    """Match nodes by name: the graph may have them in another order, and lack some."""
    import networkx

    complete = networkx.relabel_nodes(graph, str)
    unknown = set(complete.nodes) - set(nodes)
    if unknown:
        first = next(name for name in complete.nodes if name in unknown)
        raise _unknown_node(first, unknown, nodes, "the networkx graph")
    ordered = type(complete)()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(complete.edges(data=True))
    notes = _notes_on_loops(networkx.number_of_selfloops(ordered), ordered.number_of_edges(), "the networkx graph")
    return MadeGraph(Graph.from_networkx(ordered, direction), notes)


def _check_weights(weights: Float[np.ndarray, " edges"], table: Table, name: str) -> None:
    is_wrong = ~(weights >= 0)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        came = "nothing" if np.isnan(weights[row]) else str(weights[row])
        raise InputError(
            f"Expected a weight that is not negative in column {name!r}, got {came} in {table.place(row)}. "
            "A weight says how much a node receives."
        )


def _unknown_node(name: str, unknown: set[str], nodes: tuple[str, ...], where: str) -> InputError:
    name = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}..."
    hint = _hint(name, unknown, nodes)
    return InputError(f"Expected known nodes (such as {nodes[0]!r}), got {name!r} in {where}. {hint}")


def _hint(name: str, unknown: set[str], nodes: tuple[str, ...]) -> str:
    """Return what may be wrong with a name that no node has."""
    if are_whole_numbers(nodes) and unknown == {str(len(nodes))}:
        return f"The edges seem to count nodes from 1: count from 0 to {len(nodes) - 1}."
    if not name:
        return "Write a name in every row."
    if are_whole_numbers(unknown) and not are_whole_numbers(nodes):
        return "The edges hold numbers, but the nodes have names: write the names."
    # Numbered names are similar without being misspelled.
    cutoff = 0.95 if any(letter.isdigit() for letter in name) else 0.6
    close = difflib.get_close_matches(name.casefold(), [node.casefold() for node in nodes], n=1, cutoff=cutoff)
    if close:
        likely = next(node for node in nodes if node.casefold() == close[0])
        return f"Did you mean {likely!r}?"
    return "Add the node, or remove its edges."
