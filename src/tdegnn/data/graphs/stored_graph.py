"""A graph in a folder, for graphs that are larger than the memory: neighbors of each node in files that are mapped.

Files hold what compressed rows hold: where the list of each node starts, the neighbors in numbers of 32 bits if that is
enough, weights in float32 if there are any. Batches and blocks read the rows of their nodes only. What needs the whole
graph, such as METIS or a training without batches, reads all of it, if it is within the limit of memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int, Shaped

from tdegnn.data.graphs.edge_chunks import CHUNK, EdgeChunk, ReadChunks, open_edge_chunks
from tdegnn.data.mappings import let_go
from tdegnn.errors import InputError, check_choice, check_count
from tdegnn.graph import Axis, Direction, Graph, NeighborLists, check_size
from tdegnn.subgraph import NodeNumbers, positions_of

FACTS = "graph.json"
FORMAT = 1
# The lists of A, and of A transposed if A is not symmetric.
LISTS, TURNED, JOINED = "lists", "turned", "joined"
STARTS, NODES, WEIGHTS = "starts", "nodes", "weights"


class StoredGraph(Graph):
    """A graph in a folder that `StoredGraph.write` wrote.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        facts = _read_facts(self._folder)
        self.num_nodes, self.direction = int(facts["num_nodes"]), facts["direction"]
        self.is_weighted = bool(facts["is_weighted"])
        self._facts = facts
        self._lists, self._weights = self._map(LISTS)
        self._start_keeping()

    @classmethod
    def write(
        cls,
        folder: str | Path,
        edges: Any,
        num_nodes: int | None = None,
        edge_weight: Any = None,
        direction: Direction = "both",
        *,
        keep_self_loops: bool = False,
    ) -> StoredGraph:
        """Write edges to a new folder, and return the graph in it.

        It takes memory for some numbers per node and for some millions of edges, whatever their number.

        Args:
            folder: The folder, which must not hold a graph yet.
            edges: An array of two rows, which may be mapped to a file; or the path of a `.npy`, `.parquet` or
                `.safetensors` file, see `open_edge_chunks`.
            num_nodes: Number of nodes. If None, one more than the largest number in the edges.
            edge_weight: One weight per edge, an array or the path of a `.npy` file. If None, those of the file, if any.
            direction: Whose states a node receives, see `Graph`. With `"both"`, it is forgotten which way edges go.
            keep_self_loops: Whether edges from a node to itself count. They are dropped by default.
        """
        check_choice(get_args(Direction), direction=direction)
        folder = Path(folder)
        if (folder / FACTS).exists():
            raise InputError(f"Expected a folder without a graph, got {folder}. Choose another, or remove it.")
        folder.mkdir(parents=True, exist_ok=True)
        chunks = open_edge_chunks(edges, edge_weight)
        largest, is_weighted = _check_edges(chunks)
        count = largest + 1 if num_nodes is None else num_nodes
        check_count(num_nodes=count)
        if largest >= count:
            raise InputError(f"Expected node indices between 0 and {count - 1}, got {largest} in the edges.")
        writer = _Writer(folder, count, is_weighted=is_weighted, keep_self_loops=keep_self_loops)
        writer.write(chunks, direction)
        facts = {
            "format": FORMAT,
            "num_nodes": int(count),
            "direction": direction,
            "is_weighted": is_weighted,
            "is_symmetric": direction == "both",
            "index_type": writer.kind.str,
        }
        # Last: a folder without it holds no graph.
        (folder / FACTS).write_text(json.dumps(facts) + "\n", encoding="utf-8")
        return cls(folder)

    @property
    def num_edges(self) -> int:
        """Number of edges, each direction counted, after merging duplicates."""
        return len(self._lists.nodes)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether each edge also goes the other way, with the same weight. Known for direction `"both"` only."""
        return bool(self._facts["is_symmetric"])

    @cached_property
    def neighbor_lists(self) -> tuple[NeighborLists, ...]:
        """The neighbors of each node, along the edges and against them."""
        return (self._lists,) if self.is_symmetric else (self._lists, self._map(TURNED)[0])

    def with_direction(self, direction: Direction) -> Graph:
        """Return a graph with the same edges, received along another direction. It may have to be in memory."""
        if not self.is_symmetric and direction != self.direction:
            return super().with_direction(direction)
        graph = StoredGraph(self._folder)
        graph.direction = direction
        return graph

    def rows_of(self, nodes: NodeNumbers) -> scipy.sparse.csr_array:
        """Return some rows of A."""
        for array in (*self._lists, self._weights):
            let_go(array)
        starts = np.asarray(self._lists.starts[nodes])
        lengths = np.asarray(self._lists.starts[nodes + 1]) - starts
        places = positions_of(starts, lengths)
        values = np.ones(len(places), dtype=bool) if self._weights is None else np.asarray(self._weights[places])
        pointers = np.concatenate([[0], lengths.cumsum()])
        return scipy.sparse.csr_array(
            (values, np.asarray(self._lists.nodes[places]), pointers), shape=(len(nodes), self.num_nodes)
        )

    def received_sums(self, axis: Axis, direction: Direction) -> Float[np.ndarray, " nodes"]:
        """Return the row sums (axis 1) or column sums (axis 0) of A' along a direction. They are kept."""
        if not self.is_symmetric and direction == "both":
            return super().received_sums(axis, direction)
        of_rows = self.is_symmetric or (axis == 1) == (direction == "out")
        kept: tuple[Axis, Direction] = (1 if of_rows else 0, "out")
        if kept not in self._received_sums:
            self._received_sums[kept] = self._sum(of_rows=of_rows)
        return self._received_sums[kept]

    def arrays(self) -> Iterator[Shaped[np.ndarray, "..."]]:
        """Yield the edges and their weights as arrays, for a checksum."""
        yield np.asarray(self._lists.starts)
        for array in (self._lists.nodes, *([] if self._weights is None else [self._weights])):
            yield from (array[first : first + CHUNK] for first in range(0, len(array), CHUNK))

    @cached_property
    def _adjacency(self) -> scipy.sparse.csr_array:
        check_size(self.num_nodes, self.num_edges)
        return self.rows_of(np.arange(self.num_nodes))

    def _sum(self, *, of_rows: bool) -> Float[np.ndarray, " nodes"]:
        sums = np.zeros(self.num_nodes)
        for chunk in _Files(self._lists, self._weights).chunks():
            keys = chunk.sources if of_rows else chunk.targets
            sums += np.bincount(keys, chunk.weights, self.num_nodes)
        return sums

    def _map(self, name: str) -> tuple[NeighborLists, Float[np.ndarray, " entries"] | None]:
        kind = np.dtype(self._facts["index_type"])
        starts = _map_file(self._folder, name, STARTS, np.dtype(np.int64))
        nodes = _map_file(self._folder, name, NODES, kind)
        has_weights = self.is_weighted and name == LISTS
        weights = _map_file(self._folder, name, WEIGHTS, np.dtype(np.float32)) if has_weights else None
        if len(starts) != self.num_nodes + 1 or starts[-1] != len(nodes):
            raise InputError(f"Expected a whole graph in {self._folder}, got damaged files. Write it again.")
        return NeighborLists(starts, nodes), weights

    def __repr__(self) -> str:
        return f"Stored{super().__repr__()}"


def _read_facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected a folder that StoredGraph.write wrote, got {folder} without a readable {FACTS}."
        ) from error
    is_known = (
        isinstance(facts, dict) and facts.get("format") == FORMAT and facts.get("direction") in get_args(Direction)
    )
    if not is_known or not isinstance(facts.get("num_nodes"), int) or facts.get("index_type") not in ("<i4", "<i8"):
        raise InputError(f"Expected a graph of format {FORMAT} in {folder}, got another. Write it again.")
    return facts


def _map_file(folder: Path, name: str, part: str, kind: np.dtype[Any]) -> Shaped[np.ndarray, "..."]:
    path = folder / f"{name}.{part}"
    try:
        size = path.stat().st_size
        return np.memmap(path, kind, "r") if size else np.zeros(0, kind)
    except (OSError, ValueError) as error:
        raise InputError(f"Expected a whole graph in {folder}, got no readable {path.name}. Write it again.") from error


def _check_edges(chunks: ReadChunks) -> tuple[int, bool]:
    """Return the largest number of a node, and whether edges have weights."""
    largest, is_weighted = -1, False
    for sources, targets, weights in chunks():
        smallest = min(sources.min(initial=0), targets.min(initial=0))
        if smallest < 0:
            raise InputError(f"Expected node indices from 0 on, got {smallest} in the edges.")
        largest = int(max(largest, sources.max(initial=-1), targets.max(initial=-1)))
        if weights is not None:
            is_weighted = True
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise InputError("Expected edge weights to be finite and not negative, got others.")
    return largest, is_weighted


def _row_ranges(starts: Int[np.ndarray, " pointers"], most: int) -> Iterator[tuple[int, int]]:
    """Yield the first row, and the one after the last, of groups of rows with about `most` entries."""
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + most, side="right")) - 1)
        yield first, last
        first = last


class _Files(NamedTuple):
    """Lists of neighbors in files, and their weights, if there are any."""

    lists: NeighborLists
    weights: Float[np.ndarray, " entries"] | None

    def rows(self, first: int, last: int, num_nodes: int) -> scipy.sparse.csr_array:
        """Return some rows as a matrix. Entries may be there more than once."""
        starts = np.asarray(self.lists.starts[first : last + 1])
        part = slice(int(starts[0]), int(starts[-1]))
        nodes = np.asarray(self.lists.nodes[part])
        values = np.ones(len(nodes), dtype=bool) if self.weights is None else np.asarray(self.weights[part], np.float64)
        return scipy.sparse.csr_array((values, nodes, starts - starts[0]), shape=(last - first, num_nodes))

    def chunks(self) -> Iterator[EdgeChunk]:
        """Yield all entries, whole rows at a time."""
        for first, last in _row_ranges(self.lists.starts, CHUNK):
            starts = np.asarray(self.lists.starts[first : last + 1])
            part = slice(int(starts[0]), int(starts[-1]))
            weights = None if self.weights is None else np.asarray(self.weights[part], dtype=np.float64)
            sources = np.repeat(np.arange(first, last), np.diff(starts))
            yield EdgeChunk(sources, np.asarray(self.lists.nodes[part]), weights)


class _Writer:
    """Writes lists of neighbors to files, sorted and without duplicates, in bounded memory.

    Args:
        folder: The folder.
        num_nodes: Number of nodes.
        is_weighted: Whether edges have weights.
        keep_self_loops: Whether edges from a node to itself count.
    """

    def __init__(self, folder: Path, num_nodes: int, *, is_weighted: bool, keep_self_loops: bool) -> None:
        self._folder, self._num_nodes = folder, num_nodes
        self._is_weighted, self._keep_self_loops = is_weighted, keep_self_loops
        self.kind: np.dtype[Any] = np.dtype("<i4" if num_nodes <= np.iinfo(np.int32).max else "<i8")

    def write(self, chunks: ReadChunks, direction: Direction) -> None:
        """Write the lists of A, and of A transposed unless A is made symmetric."""
        if direction == "both" and not self._is_weighted:
            self._write_lists(LISTS, lambda: _both_ways(chunks()))
            return
        along = self._write_lists(LISTS, chunks)
        against = self._write_lists(TURNED, lambda: map(_turn, along.chunks()))
        if direction == "both":
            self._append(JOINED, self._joined(along, against))
            for part in (STARTS, NODES, WEIGHTS):
                (self._folder / f"{TURNED}.{part}").unlink()
                (self._folder / f"{JOINED}.{part}").replace(self._folder / f"{LISTS}.{part}")

    def _write_lists(self, name: str, chunks: ReadChunks) -> _Files:
        """Sort entries by their first end into a file; then write them again, row by row, without duplicates."""
        lengths = np.zeros(self._num_nodes, dtype=np.int64)
        for chunk in chunks():
            lengths += np.bincount(chunk.sources, minlength=self._num_nodes)
        starts = np.concatenate([[0], lengths.cumsum()])
        scratch = [self._folder / f"{name}.{part}.unsorted" for part in (NODES, WEIGHTS)]
        # A file of no bytes cannot be mapped.
        shape = (max(1, int(starts[-1])),)
        nodes = np.memmap(scratch[0], self.kind, "w+", shape=shape)
        weights = np.memmap(scratch[1], np.float32, "w+", shape=shape) if self._is_weighted else None
        free = starts[:-1].copy()
        for chunk in chunks():
            order = np.argsort(chunk.sources, kind="stable")
            sources = chunk.sources[order].astype(np.int64)
            is_first = np.concatenate([[True], sources[1:] != sources[:-1]])[: len(sources)]
            numbers = np.arange(len(sources))
            places = free[sources] + numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
            nodes[places] = chunk.targets[order]
            if weights is not None and chunk.weights is not None:
                weights[places] = chunk.weights[order]
            free += np.bincount(sources, minlength=self._num_nodes)
        written = self._append(name, self._merged(_Files(NeighborLists(starts, nodes), weights)))
        for path in scratch:
            path.unlink(missing_ok=True)
        return written

    def _merged(self, files: _Files) -> Iterator[scipy.sparse.csr_array]:
        """Yield rows whose entries are sorted, each once."""
        for first, last in _row_ranges(files.lists.starts, CHUNK):
            rows = files.rows(first, last, self._num_nodes)
            rows.sum_duplicates()
            if not self._keep_self_loops:
                own = np.repeat(np.arange(first, last), np.diff(rows.indptr))
                rows.data[rows.indices == own] = 0
            rows.eliminate_zeros()
            yield rows

    def _joined(self, along: _Files, against: _Files) -> Iterator[scipy.sparse.csr_array]:
        """Yield rows of the larger of A and its transpose."""
        for first, last in _row_ranges(along.lists.starts + against.lists.starts, CHUNK):
            pair = [files.rows(first, last, self._num_nodes) for files in (along, against)]
            yield pair[0].maximum(pair[1])

    def _append(self, name: str, groups: Iterator[scipy.sparse.csr_array]) -> _Files:
        """Write groups of rows, one after another."""
        paths = {part: self._folder / f"{name}.{part}" for part in (STARTS, NODES, WEIGHTS)}
        lengths = []
        with ExitStack() as stack:
            files = {part: stack.enter_context(path.open("wb")) for part, path in paths.items()}
            for rows in groups:
                lengths.append(np.diff(rows.indptr))
                rows.indices.astype(self.kind).tofile(files[NODES])
                if self._is_weighted:
                    rows.data.astype(np.float32).tofile(files[WEIGHTS])
            np.concatenate([[0], np.concatenate(lengths).cumsum()]).astype(np.int64).tofile(files[STARTS])
        starts = _map_file(self._folder, name, STARTS, np.dtype(np.int64))
        nodes = _map_file(self._folder, name, NODES, self.kind)
        weights = _map_file(self._folder, name, WEIGHTS, np.dtype(np.float32)) if self._is_weighted else None
        return _Files(NeighborLists(starts, nodes), weights)


def _turn(chunk: EdgeChunk) -> EdgeChunk:
    return EdgeChunk(chunk.targets, chunk.sources, chunk.weights)


def _both_ways(chunks: Iterator[EdgeChunk]) -> Iterator[EdgeChunk]:
    for chunk in chunks:
        yield chunk
        yield _turn(chunk)
