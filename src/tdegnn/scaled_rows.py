"""`D_r A' D_c` of a large graph, in compressed rows and in the precision that is used, by several threads.

Values are computed in float64, a range of rows at a time, and written in the precision of the state, so that there is
no float64 copy of the matrix. Columns are those of A', without a copy. `tdegnn.assembly` has made A' and its transpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Shaped

from tdegnn.assembly import RowsBuffer, are_same, canonical, cut_rows, in_threads, index_type, row_numbers, rows_between
from tdegnn.sparse import SparseMatrix


@dataclass(frozen=True, eq=False)
class Scaling:
    """How a matrix is scaled.

    Attributes:
        rows: Factor of each row.
        columns: Factor of each column.
        loops: Which nodes get an entry of 1 on the diagonal. None if no node does.
    """

    rows: Float[np.ndarray, " rows"]
    columns: Float[np.ndarray, " columns"]
    loops: Bool[np.ndarray, " nodes"] | None = None


def scale_large(
    matrix: scipy.sparse.csr_array, turned: scipy.sparse.csr_array, scaling: Scaling, dtype: torch.dtype
) -> SparseMatrix:
    """Return a matrix with its rows and columns scaled, on the CPU.

    Args:
        matrix: The matrix. What is returned shares its columns, if nothing is added on the diagonal.
        turned: The transposed matrix. The same object if the matrix is symmetric.
        scaling: How it is scaled.
        dtype: Precision of the values, float32 or float64.
    """
    kind = np.float32 if dtype == torch.float32 else np.float64
    forward = _scale(matrix, scaling, kind, is_turned=False)
    # Without weights, factors are multiplied by 1 in between, and their product does not depend on their order.
    is_symmetric = turned is matrix and matrix.dtype == bool and np.array_equal(scaling.rows, scaling.columns)
    backward = forward if is_symmetric else _scale(turned, scaling, kind, is_turned=True)
    columns, values = torch.from_numpy(forward.indices), torch.from_numpy(forward.data)
    pointers = torch.from_numpy(forward.indptr)
    # The two halves of a symmetric matrix are the same tensors.
    if backward is forward:
        return SparseMatrix(pointers, columns, values, pointers, columns, values)
    if are_same(forward.indptr, backward.indptr) and are_same(forward.indices, backward.indices):
        turned_values = values if are_same(forward.data, backward.data) else torch.from_numpy(backward.data)
        return SparseMatrix(pointers, columns, values, pointers, columns, turned_values)
    turned_parts = (torch.from_numpy(part) for part in (backward.indptr, backward.indices, backward.data))
    return SparseMatrix(pointers, columns, values, *turned_parts)


def _scale(
    matrix: scipy.sparse.csr_array, scaling: Scaling, kind: type[np.float32 | np.float64], *, is_turned: bool
) -> scipy.sparse.csr_array:
    """Return a scaled matrix. If it is turned, its rows are the columns that `scaling` names, but for the loops."""
    first_rows = cut_rows(matrix)

    def values_of(rows: scipy.sparse.csr_array, first: int, last: int) -> Shaped[np.ndarray, " entries"]:
        own, others = (scaling.columns, scaling.rows) if is_turned else (scaling.rows, scaling.columns)
        by_row = own[first:last].take(row_numbers(rows))
        by_column = np.asarray(others.take(rows.indices))
        # The factor of the row of A' comes first in both cases, so that both halves have the same rounding.
        before, after = (by_column, by_row) if is_turned else (by_row, by_column)
        before *= rows.data
        before *= after
        return before

    if scaling.loops is None:
        values = np.empty(matrix.nnz, dtype=kind)

        def fill(number: int) -> None:
            first, last = first_rows[number : number + 2].tolist()
            part = slice(matrix.indptr[first], matrix.indptr[last])
            values[part] = values_of(rows_between(matrix, first, last), first, last)

        in_threads(fill, range(len(first_rows) - 1))
        return canonical((values, matrix.indices, matrix.indptr), matrix.shape)

    loops = scaling.loops
    loops_before = np.concatenate([[0], loops.cumsum()])
    num_most = matrix.nnz + int(loops_before[-1])
    index = index_type(matrix.shape, num_most)
    buffer = RowsBuffer(
        matrix.shape,
        first_rows,
        matrix.indptr[first_rows] + loops_before[first_rows],
        np.empty(matrix.shape[0], dtype=index),
        np.empty(num_most, dtype=index),
        np.empty(num_most, dtype=kind),
    )

    def write(number: int) -> None:
        first, last = first_rows[number : number + 2].tolist()
        rows = rows_between(matrix, first, last)
        scaled = canonical((values_of(rows, first, last), rows.indices, rows.indptr), rows.shape)
        diagonal = np.flatnonzero(loops[first:last])
        ones = scipy.sparse.csr_array((np.ones(len(diagonal)), (diagonal, diagonal + first)), shape=rows.shape)
        buffer.write(number, scaled + ones)

    in_threads(write, range(len(first_rows) - 1))
    return buffer.matrix()
