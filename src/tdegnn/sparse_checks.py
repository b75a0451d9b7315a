"""Check the parts of SciPy's sparse matrices before compiled code uses them.

SciPy's compiled code trusts indices and pointers: a wrong one reads or writes memory that is not its own, which crashes
the process or changes numbers elsewhere. A matrix can be wrong because a file is damaged, or because someone assigned
to its `indices`. All parts are checked here, in NumPy, in time proportional to their length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from tdegnn.errors import InputError

# The arrays of which SciPy makes a matrix of each format, besides `data`.
PARTS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
LARGEST_SIZE = np.iinfo(np.int64).max


def check_sparse(matrix: Any, what: str) -> Any:
    """Return a SciPy sparse matrix whose parts are right. Otherwise, raise an `InputError`.

    Args:
        matrix: A sparse matrix or array of any format. Formats without compiled code are converted to CSR.
        what: What the matrix is, for messages.
    """
    if matrix.format not in PARTS:
        try:
            matrix = matrix.tocsr()
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise _wrong(what, f"one that SciPy cannot convert ({error})") from error
    if matrix.ndim != 2:
        raise InputError(f"Expected {what} of two dimensions, got shape {matrix.shape}.")
    parts = {name: np.asarray(getattr(matrix, name)) for name in ("data", *PARTS[matrix.format])}
    check_parts(matrix.format, matrix.shape, parts, what)
    return matrix


def check_parts(kind: str, shape: tuple[int, ...], parts: Mapping[str, Shaped[np.ndarray, "..."]], what: str) -> None:
    """Raise an `InputError` unless SciPy can make a sparse matrix of these parts.

    Args:
        kind: The format, one of `PARTS`.
        shape: Number of rows and columns.
        parts: The arrays: `data`, and those that `PARTS` names.
        what: What the matrix is, for messages.
    """
    data, *others = (parts[name] for name in ("data", *PARTS[kind]))
    if len(shape) != 2 or not all(0 <= size <= LARGEST_SIZE for size in shape):
        raise _wrong(what, f"the shape {tuple(shape)}")
    if data.dtype.kind not in "biuf":
        raise _wrong(what, f"entries of type {data.dtype}")
    if any(part.ndim != 1 or part.dtype.kind not in "iu" for part in others):
        raise _wrong(what, "positions that are not lists of whole numbers")
    dimensions = {"bsr": 3, "dia": 2}.get(kind, 1)
    if data.ndim != dimensions:
        raise _wrong(what, f"entries of {data.ndim} dimensions instead of {dimensions}")
    if kind == "coo":
        for position, size in zip(others, shape, strict=True):
            _check_positions(position, size, len(data), what)
    elif kind == "dia":
        (offsets,) = others
        if len(offsets) != len(data) or len(np.unique(offsets)) != len(offsets):
            raise _wrong(what, f"{len(data)} diagonals for {len(np.unique(offsets))} different offsets")
        if len(offsets) and not (offsets.min() >= -shape[0] and offsets.max() <= shape[1]):
            raise _wrong(what, "diagonals outside of its shape")
    else:
        indices, pointers = others
        num_rows, num_columns = _compressed_size(kind, shape, data, what)
        _check_pointers(pointers, num_rows, len(indices), what)
        _check_positions(indices, num_columns, len(data), what)


def _compressed_size(kind: str, shape: tuple[int, ...], data: Shaped[np.ndarray, "..."], what: str) -> tuple[int, int]:
    """Return how many lists the pointers separate, and how many positions there are in each."""
    rows, columns = shape
    if kind == "csc":
        return columns, rows
    if kind == "csr":
        return rows, columns
    _, block_rows, block_columns = data.shape
    if block_rows == 0 or block_columns == 0 or rows % block_rows or columns % block_columns:
        raise _wrong(what, f"blocks of shape {data.shape[1:]} in a matrix of shape {tuple(shape)}")
    return rows // block_rows, columns // block_columns


def _check_pointers(pointers: Int[np.ndarray, " starts"], num_lists: int, num_entries: int, what: str) -> None:
    is_right = (
        len(pointers) == num_lists + 1
        and pointers[0] == 0
        and pointers[-1] <= num_entries
        and bool((pointers[1:] >= pointers[:-1]).all())
    )
    if not is_right:
        raise _wrong(what, f"pointers that do not divide {num_entries} entries into {num_lists}")


def _check_positions(positions: Int[np.ndarray, " entries"], size: int, num_entries: int, what: str) -> None:
    if len(positions) != num_entries:
        raise _wrong(what, f"{len(positions)} positions of {num_entries} entries")
    if num_entries and not (positions.min() >= 0 and positions.max() < size):
        outside = positions.max() if positions.min() >= 0 else positions.min()
        raise _wrong(what, f"an entry at {outside}, where there are {size}")


def _wrong(what: str, came: str) -> InputError:
    return InputError(f"Expected {what} that SciPy can use, got one with {came}. Make it again.")
