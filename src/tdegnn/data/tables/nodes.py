"""Read nodes from users' files: a table of features, a table of labels, and edges (`edges.py`).

The first column of the features names the node. Labels and edges use these names. Errors name file, line and column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from tdegnn.data.array_files import FORMAT, list_arrays, read_arrays, read_sparse
from tdegnn.data.graphs.edges import read_graph
from tdegnn.data.graphs.stored_graph import FACTS, StoredGraph
from tdegnn.data.mapped_features import map_matrix
from tdegnn.data.nodes import Features, as_real
from tdegnn.data.tables.csv_files import CsvFormat, Kind, TableStart, check_file
from tdegnn.data.tables.table import NODE_NAMES, PLAIN_CSV, Table, find_named, read_table
from tdegnn.errors import InputError, list_some
from tdegnn.files import check_memory
from tdegnn.graph import Direction, Graph

LABEL_NAMES = ("label", "labels", "class", "y", "target")
NODES = "nodes"
SUBSET_NAMES = ("part", "split", "set", "subset")
# Bytes that Python takes for the name of a node: the text, twice while it is converted, and its place in lists.
NAME_COST = 200
# Usual words for each subset.
SUBSET_WORDS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
}


@dataclass(frozen=True, eq=False)
class NodeTables:
    """The content of the files.

    Attributes:
        names: The names of the nodes, in the order of the features.
        features: One row per node.
        graph: Their graph.
        notes: Remarks for the user.
        feature_names: The names of the features. None if the file has none.
    """

    names: tuple[str, ...]
    features: Features
    graph: Graph
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None

    def to_input(self) -> Any:
        """Return the features as estimators take them: a frame if the features have names, else a matrix."""
        if self.feature_names is None:
            return self.features
        return pd.DataFrame(self.features, index=list(self.names), columns=list(self.feature_names))


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """The content of the table of labels, in the order of the nodes.

    Attributes:
        labels: The label of each node; None if it is empty or not listed.
        subsets: Indices of the nodes of `train`, `validation` and `test`. Only subsets that the table names.
    """

    labels: list[str | None]
    subsets: dict[str, list[int]]


def read_node_tables(
    features: Path, edges: Path, direction: Direction | None = None, csv_format: CsvFormat = PLAIN_CSV
) -> NodeTables:
    """Read features and edges.

    Args:
        features: CSV or Parquet: the node's name, then numbers. Or npz: an array `features` and perhaps `nodes`, or
            a matrix saved by SciPy. Or npy: a matrix, or safetensors: a tensor `features`, which are mapped into
            memory. Nodes without names are called 0, 1, ...
        edges: Anything that `read_graph` takes, or `graph.json` in a folder that `StoredGraph.write` wrote.
        direction: Whose states a node receives, see `Graph`.
        csv_format: Separator, decimal sign and encoding of CSV files.
    """
    path = check_file(features)
    names, matrix, feature_names = _read_any_features(path, csv_format)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"Expected each node once in {path.name}, got {repeated[0]!r} several times. Remove all but one."
        )
    if Path(edges).name == FACTS:
        return NodeTables(names, matrix, _open_graph(Path(edges).parent, len(names), direction), (), feature_names)
    graph, notes = read_graph(edges, names, direction=direction, csv_format=csv_format)
    return NodeTables(names, matrix, graph, notes, feature_names)


def _read_any_features(path: Path, csv_format: CsvFormat) -> tuple[tuple[str, ...], Any, tuple[str, ...] | None]:
    """Return the names of the nodes, their features, and the names of these if they have any."""
    if path.suffix in (".npy", ".safetensors"):
        matrix = map_matrix(path)
        check_memory(len(matrix) * NAME_COST, path.name)
        return tuple(map(str, range(len(matrix)))), matrix, None
    return (*_read_npz(path), None) if path.suffix == ".npz" else _read_features(path, csv_format)


def _open_graph(folder: Path, num_nodes: int, direction: Direction | None) -> Graph:
    graph = StoredGraph(folder)
    if graph.num_nodes != num_nodes:
        raise InputError(f"Expected a graph of {num_nodes} nodes in {folder}, one per row, got {graph.num_nodes}.")
    return graph if direction is None else graph.with_direction(direction)


def read_labels(source: Path, names: Sequence[str], csv_format: CsvFormat = PLAIN_CSV) -> NodeLabels:
    """Read labels in the order of `names`, from a table of nodes, labels and, optionally, subsets."""
    table = read_table(source, lambda start: ["text"] * len(start.names), csv_format)
    node, label, subset = _label_columns(table)
    positions = {name: position for position, name in enumerate(names)}
    labels: list[str | None] = [None] * len(names)
    subsets: dict[str, list[int]] = {}
    seen: set[str] = set()
    columns = [table.texts(column).to_pylist() for column in (node, label)]
    words = [None] * len(columns[0]) if subset is None else table.texts(subset).to_pylist()
    for row, (name, text, word) in enumerate(zip(*columns, words, strict=True)):
        if name not in positions:
            raise InputError(
                f"Expected nodes of the features (such as {names[0]!r}), got {name or ''!r} in {table.place(row)}. "
                "Add its features, or remove its label."
            )
        if name in seen:
            raise InputError(f"Expected each node once, got {name!r} again in {table.place(row)}. Remove all but one.")
        seen.add(name)
        labels[positions[name]] = text or None
        if word:
            if word.lower() not in SUBSET_WORDS:
                raise InputError(
                    f"Expected train, validation, test or an empty cell in column {table.names[subset or 0]!r}, got "
                    f"{word!r} in {table.place(row)}. Correct it."
                )
            subsets.setdefault(SUBSET_WORDS[word.lower()], []).append(positions[name])
    return NodeLabels(labels, subsets)


def _label_columns(table: Table) -> tuple[int, int, int | None]:
    """Return the columns of nodes, labels and subsets, by name. In a table of two columns, nodes come first."""
    node, label, subset = (find_named(table.names, usual) for usual in (NODE_NAMES, LABEL_NAMES, SUBSET_NAMES))
    if node is None or label is None:
        left = [column for column in range(len(table.names)) if column not in (node, label, subset)]
        if len(table.names) - (subset is not None) != 2:
            raise InputError(
                f"Expected columns node and label in {table.source}, got {', '.join(table.names[:4])}. Rename them."
            )
        node = left.pop(0) if node is None else node
        label = left.pop(0) if label is None else label
    return node, label, subset


def _feature_kinds(start: TableStart) -> list[Kind]:
    return ["text" if position == 0 else "number" for position in range(len(start.names))]


def _read_features(path: Path, csv_format: CsvFormat) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
    table = read_table(
        path, _feature_kinds, csv_format, number_hint="Features are numbers; the first column is a name."
    )
    if len(table.names) < 2 or table.columns.num_rows == 0:
        raise InputError(f"Expected one row per node in {path.name}, its name and then numbers, got none.")
    matrix = np.stack([table.numbers(column) for column in range(1, len(table.names))], axis=1)
    if np.isnan(matrix).any():
        row, column = np.argwhere(np.isnan(matrix))[0]
        raise InputError(
            f"Expected a number in column {table.names[column + 1]!r}, got nothing in {table.place(int(row))}. "
            "Fill it in."
        )
    names = table.texts(0).to_pylist()
    if any(not name for name in names):
        row = next(row for row, name in enumerate(names) if not name)
        raise InputError(f"Expected the name of a node, got nothing in {table.place(row)}. Name it.")
    return tuple(map(str, names)), matrix, tuple(table.names[1:])


def _read_npz(path: Path) -> tuple[tuple[str, ...], Any]:
    what = "features"
    given = list_arrays(path, what)
    if FORMAT in given:
        matrix: Any = read_sparse(path, what).tocsr()
    elif what in given or len(given) == 1:
        (matrix,) = read_arrays(path, what, [what if what in given else given[0]])
    else:
        raise InputError(f"Expected an array {what!r} in {path.name}, got {list_some(given) or 'an empty archive'}.")
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"Expected one row of numbers per node in {path.name}, got {matrix.dtype} of shape {matrix.shape}."
        )
    names = _read_names(path, given, matrix.shape[0])
    if len(names) != matrix.shape[0]:
        raise InputError(f"Expected one row of features per node in {path.name}, got shape {matrix.shape}.")
    # With the conversion to float64.
    check_memory(_num_bytes(matrix) + 8 * matrix.size, path.name)
    return names, as_real(matrix)


def _read_names(path: Path, given: Sequence[str], num_nodes: int) -> tuple[str, ...]:
    check_memory(num_nodes * NAME_COST, path.name)
    if NODES not in given:
        return tuple(map(str, range(num_nodes)))
    (names,) = read_arrays(path, "features", [NODES])
    if names.ndim != 1:
        raise InputError(f"Expected one name per node in {path.name}, got an array of shape {names.shape}.")
    check_memory(names.nbytes * 2 + len(names) * NAME_COST, path.name)
    if names.dtype.kind == "S":
        try:
            names = np.char.decode(names, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"Expected names in UTF-8 in {path.name}, got other bytes. Save them as text.") from error
    return tuple(map(str, names.tolist()))


def _num_bytes(matrix: Any) -> int:
    return int(matrix.data.nbytes + matrix.indices.nbytes if scipy.sparse.issparse(matrix) else matrix.nbytes)
