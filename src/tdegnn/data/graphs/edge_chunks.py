"""Edges of a large graph, some at a time: from arrays, or from files of NumPy, Parquet or safetensors.

Files are mapped into memory or read in batches, so that the whole list of edges is never copied. They may be read
several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from tdegnn.data.mapped_features import map_tensor
from tdegnn.errors import InputError

# Edges that are looked at at a time.
CHUNK = 2**23
# The names of columns and tensors.
SOURCE, TARGET, WEIGHT = "source", "target", "weight"
EDGE_INDEX, EDGE_WEIGHT = "edge_index", "edge_weight"


class EdgeChunk(NamedTuple):
    """Some edges.

    Attributes:
        sources: Where they start.
        targets: Where they end.
        weights: Their weights. None if the graph is unweighted.
    """

    sources: Int[np.ndarray, " edges"]
    targets: Int[np.ndarray, " edges"]
    weights: Float[np.ndarray, " edges"] | None


# Each call begins anew.
ReadChunks: TypeAlias = Callable[[], Iterator[EdgeChunk]]


def open_edge_chunks(edges: Any, weights: Any = None) -> ReadChunks:
    """Return a function that yields edges, some at a time.

    Args:
        edges: An array of two rows, sources and targets; or the path of a file: `.npy` with such an array, `.parquet`
            with columns `source`, `target` and perhaps `weight`, or `.safetensors` with a tensor `edge_index` and
            perhaps `edge_weight`.
        weights: One weight per edge: an array, or the path of a `.npy` file. If None, those of the file, if any.
    """
    if isinstance(edges, str | Path):
        path = Path(edges)
        if not path.exists():
            raise InputError(f"Expected a file of edges, got {path}, which does not exist. Correct the path.")
        if path.suffix == ".parquet":
            return lambda: _read_parquet(path)
        if path.suffix == ".safetensors":
            weights = _weights_in(path) if weights is None else weights
            edges = map_tensor(path, EDGE_INDEX)
        elif path.suffix == ".npy":
            edges = np.load(path, mmap_mode="r")
        else:
            raise InputError(f"Expected a .npy, .parquet or .safetensors file of edges, got {path}. Convert it.")
    if isinstance(weights, str | Path):
        weights = np.load(weights, mmap_mode="r")
    ends = np.asarray(edges)
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise InputError(f"Expected edges as two rows of whole numbers, got {ends.dtype} of shape {ends.shape}.")
    if weights is not None and np.shape(weights) != (ends.shape[1],):
        raise InputError(f"Expected one weight for each of the {ends.shape[1]} edges, got shape {np.shape(weights)}.")

    def chunks() -> Iterator[EdgeChunk]:
        for first in range(0, ends.shape[1], CHUNK):
            part = slice(first, first + CHUNK)
            own = None if weights is None else np.asarray(weights[part], dtype=np.float64)
            yield EdgeChunk(np.asarray(ends[0, part]), np.asarray(ends[1, part]), own)

    return chunks


def _weights_in(path: Path) -> Any:
    """Return the weights in a safetensors file. None if there are none."""
    try:
        return map_tensor(path, EDGE_WEIGHT)
    except InputError:
        return None


def _read_parquet(path: Path) -> Iterator[EdgeChunk]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if SOURCE not in names or TARGET not in names:
            raise InputError(
                f"Expected columns {SOURCE!r} and {TARGET!r} in {path}, got {', '.join(names)}. Rename them."
            )
        columns = [SOURCE, TARGET, *([WEIGHT] if WEIGHT in names else [])]
        for batch in file.iter_batches(CHUNK, columns=columns):
            sources, targets, *weights = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            if sources.dtype.kind not in "iu" or targets.dtype.kind not in "iu":
                raise InputError(f"Expected whole numbers of nodes in {path}, got {sources.dtype}. Number the nodes.")
            yield EdgeChunk(sources, targets, weights[0].astype(np.float64) if weights else None)
