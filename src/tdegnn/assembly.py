"""Compressed rows of a large matrix, from a list of its entries, by several threads and in little memory.

Entries are first sorted into ranges of rows, where they keep their order. SciPy then compresses each range on its own,
as it would compress the whole matrix, so that the result is the same bit for bit, for any number of threads. Each
result is written over the entries that it was made from. Threads are as many as torch uses (`torch.set_num_threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int, Shaped

Item = TypeVar("Item")
Result = TypeVar("Result")
# Any number of them: arrays of several lengths may be arguments of one function.
Numbers: TypeAlias = Int[np.ndarray, " _"]
Values: TypeAlias = Shaped[np.ndarray, " _"]

# From this many entries on, a matrix is made here. SciPy alone is as fast for fewer.
LARGE = 2**20
# Entries in float32 up to this value stay in float32: any number of them, summed, fits in it.
LARGEST_SHORT = 1e25
# How many entries a thread reads at a time, and how many a range of rows has about: some megabytes each.
CHUNK = 2**19
RANGE = 2**18
# Numbers of ranges fit in a byte, by which NumPy sorts in linear time.
MOST_RANGES = 2**8
# Ranges are cut between groups of rows, as many as a count of them stays in the cache of a core.
MOST_GROUPS = 2**14
# Up to this many items, one thread does the work. A small graph has one or two chunks.
FEW = 2


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return what `work` returns for each item, computed by as many threads as torch uses."""
    waiting = list(items)
    # To start threads takes as long as some tenths of a megabyte of work.
    if torch.get_num_threads() == 1 or len(waiting) <= FEW:
        return [work(item) for item in waiting]
    with ThreadPoolExecutor(min(torch.get_num_threads(), len(waiting))) as pool:
        return list(pool.map(work, waiting))


def chunks_of(num_entries: int) -> list[slice]:
    """Return slices of `CHUNK` entries."""
    return [slice(first, min(first + CHUNK, num_entries)) for first in range(0, num_entries, CHUNK)]


def _type_of(values: Values) -> type[np.float32 | np.float64]:
    """Return the type in which weights are kept."""
    is_short = values.dtype == np.float32 and values.max(initial=0) <= LARGEST_SHORT
    return np.float32 if is_short else np.float64


def index_type(shape: tuple[int, int], num_entries: int) -> type[np.int32 | np.int64]:
    """Return the integers that count rows, columns and entries: of 32 bits where that suffices, as in SciPy."""
    return np.int32 if max(*shape, num_entries) <= np.iinfo(np.int32).max else np.int64


def canonical(parts: tuple[Values, Numbers, Numbers], shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Return a matrix whose rows are known to be sorted, without duplicates."""
    matrix = scipy.sparse.csr_array(parts, shape=shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def row_numbers(matrix: scipy.sparse.csr_array) -> Numbers:
    """Return the row of each entry. Unlike `np.repeat`, SciPy lets other threads work meanwhile."""
    return np.asarray(matrix.tocoo(copy=False).row)


class Entries(Protocol):
    """Entries of a matrix, of which a part can be read at a time."""

    shape: tuple[int, int]
    num_entries: int
    # That of the values. Booleans stand for ones, which are not read.
    dtype: np.dtype

    def rows(self, part: slice) -> Numbers:
        """Return the rows of some entries."""

    def columns(self, part: slice) -> Numbers:
        """Return the columns of some entries."""

    def values(self, part: slice) -> Values:
        """Return the values of some entries."""


class ListedEntries:
    """Entries in lists.

    Args:
        rows: Row of each entry, in integers of any type. Each part is converted when it is read.
        columns: Column of each entry.
        values: Value of each entry. If None, all are true. Those in float32 stay so, and sums of entries are rounded to
            it; others become float64.
        shape: Number of rows and columns.
    """

    def __init__(self, rows: Numbers, columns: Numbers, values: Values | None, shape: tuple[int, int]) -> None:
        self._rows, self._columns, self._entry_values = rows, columns, values
        self.shape, self.num_entries = shape, len(rows)
        self.dtype = np.dtype(bool if values is None else _type_of(values))
        self._index_type = index_type(shape, len(rows))

    def rows(self, part: slice) -> Numbers:
        """Return the rows of some entries."""
        return self._rows[part].astype(self._index_type, copy=False)

    def columns(self, part: slice) -> Numbers:
        """Return the columns of some entries."""
        return self._columns[part].astype(self._index_type, copy=False)

    def values(self, part: slice) -> Values:
        """Return the values of some entries."""
        assert self._entry_values is not None  # ones are not read
        return self._entry_values[part].astype(self.dtype, copy=False)


class TurnedEntries:
    """The entries of a transposed matrix, in the order of the matrix."""

    def __init__(self, matrix: scipy.sparse.csr_array) -> None:
        self._matrix = matrix
        self.shape, self.num_entries = matrix.shape[::-1], matrix.nnz
        self.dtype = matrix.dtype

    def rows(self, part: slice) -> Numbers:
        """Return the rows of some entries."""
        rows: Numbers = self._matrix.indices[part]
        return rows

    def columns(self, part: slice) -> Numbers:
        """Return the columns of some entries."""
        pointers = self._matrix.indptr
        first = int(np.searchsorted(pointers, part.start, side="right")) - 1
        last = int(np.searchsorted(pointers, part.stop, side="left"))
        own = np.clip(pointers[first : last + 1], part.start, part.stop) - pointers.dtype.type(part.start)
        rows = canonical((self._matrix.data[part], self._matrix.indices[part], own), (last - first, self.shape[0]))
        return np.asarray(row_numbers(rows) + pointers.dtype.type(first))

    def values(self, part: slice) -> Values:
        """Return the values of some entries."""
        values: Values = self._matrix.data[part]
        return values


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """Entries sorted by ranges of rows. Within a range they keep their order.

    Attributes:
        shape: Number of rows and columns of the matrix.
        first_rows: The first row of each range, and the number of rows.
        starts: Where the entries of each range start, and where the last ones end.
        rows: Row of each entry, counted from the first one of its range.
        columns: Column of each entry.
        values: Value of each entry. None if all are true.
    """

    shape: tuple[int, int]
    first_rows: Numbers
    starts: Numbers
    rows: Numbers
    columns: Numbers
    values: Values | None

    @property
    def num_ranges(self) -> int:
        """Number of ranges."""
        return len(self.starts) - 1

    def matrix(self, number: int, *, without_loops: bool = False) -> scipy.sparse.csr_array:
        """Return the rows of one range, with entries that are there more than once summed."""
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        first, last = int(self.first_rows[number]), int(self.first_rows[number + 1])
        rows, columns = self.rows[part], self.columns[part]
        values = np.ones(len(rows), dtype=bool) if self.values is None else self.values[part]
        if values.dtype == np.float32:
            values = values.astype(np.float64)
        if without_loops and not (keep := rows != columns - first).all():
            rows, columns, values = rows[keep], columns[keep], values[keep]
        return scipy.sparse.coo_array((values, (rows, columns)), shape=(last - first, self.shape[1])).tocsr()


def sort_by_range(entries: Entries) -> SortedEntries:
    """Sort entries by ranges of rows with about as many entries each."""
    kind = index_type(entries.shape, entries.num_entries)
    shift = max(0, (entries.shape[0] - 1).bit_length() - (MOST_GROUPS - 1).bit_length())
    num_groups = ((entries.shape[0] - 1) >> shift) + 1
    chunks = chunks_of(entries.num_entries)
    counts = np.stack(in_threads(lambda part: np.bincount(entries.rows(part) >> shift, minlength=num_groups), chunks))
    first_groups = _cut(counts.sum(axis=0).cumsum(), min(MOST_RANGES, -(-entries.num_entries // RANGE)))
    range_of = np.repeat(np.arange(len(first_groups) - 1, dtype=np.uint8), np.diff(first_groups))
    first_rows = np.minimum(first_groups << shift, entries.shape[0]).astype(kind)
    sizes = np.add.reduceat(counts, first_groups[:-1], axis=1)
    starts = np.concatenate([[0], sizes.sum(axis=0).cumsum()])
    # Where the entries of each chunk go, in each range.
    places = starts[:-1] + sizes.cumsum(axis=0) - sizes
    rows, columns = (np.empty(entries.num_entries, dtype=kind) for _ in range(2))
    values = None if entries.dtype == bool else np.empty(entries.num_entries, dtype=entries.dtype)

    def place(number: int) -> None:
        part = chunks[number]
        own_rows = entries.rows(part)
        order = np.argsort(range_of.take(own_rows >> shift), kind="stable")
        own_rows, own_columns = own_rows.take(order), entries.columns(part).take(order)
        own_values = None if values is None else entries.values(part).take(order)
        begins, ends = sizes[number].cumsum() - sizes[number], sizes[number].cumsum()
        for each in np.flatnonzero(sizes[number]).tolist():
            given = slice(begins[each], ends[each])
            taken = slice(places[number, each], places[number, each] + sizes[number, each])
            np.subtract(own_rows[given], first_rows[each], out=rows[taken])
            columns[taken] = own_columns[given]
            if values is not None and own_values is not None:
                values[taken] = own_values[given]

    in_threads(place, range(len(chunks)))
    return SortedEntries(entries.shape, first_rows, starts, rows, columns, values)


def _cut(ends: Numbers, num_ranges: int) -> Numbers:
    """Return the first group of each range, and the number of groups, given how many entries there are up to each."""
    goals = np.arange(1, num_ranges) * (int(ends[-1]) / num_ranges)
    inner = np.searchsorted(ends, goals) + 1
    return np.unique(np.concatenate([[0], inner[inner < len(ends)], [len(ends)]]))


@dataclass(frozen=True, eq=False)
class RowsBuffer:
    """Room for the compressed rows of all ranges. Each range is written where its longest possible rows would start.

    Attributes:
        shape: Number of rows and columns of the matrix.
        first_rows: The first row of each range, and the number of rows.
        starts: Where the room of each range starts.
        lengths: How many entries each row has.
        columns: Column of each entry.
        values: Value of each entry. None if all are true.
    """

    shape: tuple[int, int]
    first_rows: Numbers
    starts: Numbers
    lengths: Numbers
    columns: Numbers
    values: Values | None

    def write(self, number: int, rows: scipy.sparse.csr_array) -> None:
        """Write the rows of one range."""
        start = int(self.starts[number])
        self.lengths[self.first_rows[number] : self.first_rows[number + 1]] = np.diff(rows.indptr)
        self.columns[start : start + rows.nnz] = rows.indices
        if self.values is not None:
            self.values[start : start + rows.nnz] = rows.data

    def matrix(self) -> scipy.sparse.csr_array:
        """Return the matrix, after all ranges were written. Room that was not needed is given back."""
        pointers = np.zeros(self.shape[0] + 1, dtype=self.columns.dtype)
        np.cumsum(self.lengths, dtype=pointers.dtype, out=pointers[1:])
        ends = pointers[self.first_rows]
        for array in (self.columns, self.values):
            if array is not None and ends[-1] < len(array):
                for start, begin, end in zip(self.starts.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=False):
                    array[begin:end] = array[start : start + end - begin]
                array.resize(int(ends[-1]), refcheck=False)
        values = np.ones(len(self.columns), dtype=bool) if self.values is None else self.values
        return canonical((values, self.columns, pointers), self.shape)


def compress(entries: Entries, *, without_loops: bool = False, without_zeros: bool = False) -> scipy.sparse.csr_array:
    """Return the matrix of some entries, in compressed rows. Entries that are there more than once are summed.

    Args:
        entries: The entries. Values that are booleans stay booleans.
        without_loops: Whether entries on the diagonal are left out.
        without_zeros: Whether entries whose sum is zero are left out.
    """
    sorted_ = sort_by_range(entries)
    lengths = np.empty(entries.shape[0], dtype=sorted_.columns.dtype)
    # What is written takes the place of what was read.
    buffer = RowsBuffer(entries.shape, sorted_.first_rows, sorted_.starts, lengths, sorted_.columns, sorted_.values)

    def write(number: int) -> None:
        rows = sorted_.matrix(number, without_loops=without_loops)
        if without_zeros:
            rows.eliminate_zeros()
        buffer.write(number, rows)

    in_threads(write, range(sorted_.num_ranges))
    del sorted_
    return buffer.matrix()


def turn(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the transposed matrix, in compressed rows."""
    return compress(TurnedEntries(matrix)) if matrix.nnz >= LARGE else matrix.T.tocsr()


def join_both_ways(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the larger one of each entry of a square matrix and of the transposed one. Of a symmetric one, itself."""
    if matrix.nnz < LARGE:
        return matrix.maximum(matrix.T.tocsr())
    turned = sort_by_range(TurnedEntries(matrix))
    num_most = 2 * matrix.nnz
    kind = index_type(matrix.shape, num_most)
    buffer = RowsBuffer(
        matrix.shape,
        turned.first_rows,
        matrix.indptr[turned.first_rows] + turned.starts,
        np.empty(matrix.shape[0], dtype=kind),
        np.empty(num_most, dtype=kind),
        None if turned.values is None else np.empty(num_most, dtype=turned.values.dtype),
    )

    def write(number: int) -> bool:
        own = rows_between(matrix, *turned.first_rows[number : number + 2])
        joined = own.maximum(turned.matrix(number))
        buffer.write(number, joined)
        return are_equal(own, joined)

    if all(in_threads(write, range(turned.num_ranges))):
        return matrix
    del turned
    return buffer.matrix()


def rows_between(matrix: scipy.sparse.csr_array, first: int, last: int) -> scipy.sparse.csr_array:
    """Return some consecutive rows, which share the memory of the matrix."""
    start, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    pointers = matrix.indptr[first : last + 1] - matrix.indptr[first]
    return canonical((matrix.data[start:end], matrix.indices[start:end], pointers), (last - first, matrix.shape[1]))


def are_equal(one: scipy.sparse.csr_array, other: scipy.sparse.csr_array) -> bool:
    """Return whether two matrices have the same entries, in the same order."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("indptr", "indices", "data"))


def are_same(one: Values, other: Values) -> bool:
    """Return whether two long arrays are equal."""
    return len(one) == len(other) and all(
        in_threads(lambda part: np.array_equal(one[part], other[part]), chunks_of(len(one)))
    )


def cut_rows(matrix: scipy.sparse.csr_array) -> Numbers:
    """Return the first rows of ranges with about as many entries each, and the number of rows."""
    return _cut(matrix.indptr[1:], max(1, -(-matrix.nnz // RANGE)))


def row_sums(matrix: scipy.sparse.csr_array) -> Float[np.ndarray, " rows"]:
    """Return the sum of each row, in float64."""
    if matrix.dtype == bool:
        return np.asarray(np.diff(matrix.indptr), dtype=np.float64)
    if matrix.nnz < LARGE:
        return np.asarray(_with_all_digits(matrix).sum(axis=1))
    ranges = pairwise(cut_rows(matrix))
    return np.concatenate(in_threads(lambda rows: _with_all_digits(rows_between(matrix, *rows)).sum(axis=1), ranges))


def column_sums(
    matrix: scipy.sparse.csr_array, turned: scipy.sparse.csr_array | None = None
) -> Float[np.ndarray, " columns"]:
    """Return the sum of each column, in float64.

    Args:
        matrix: The matrix.
        turned: The transposed matrix, if it is known. It makes large sums faster.
    """
    if turned is not None and matrix.dtype == bool:
        return row_sums(turned)
    if turned is None or matrix.nnz < LARGE:
        return np.asarray(_with_all_digits(matrix).sum(axis=0), dtype=np.float64)
    # A product adds one entry after another, as SciPy does along columns. A sum of rows adds them in another order.
    first_rows, ones = cut_rows(turned), np.ones(turned.shape[1])
    return np.concatenate(in_threads(lambda rows: rows_between(turned, *rows) @ ones, pairwise(first_rows)))


def _with_all_digits(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return a matrix whose sums are those of float64."""
    return matrix.astype(np.float64) if matrix.dtype == np.float32 else matrix
