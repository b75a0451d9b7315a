"""Read users' tables, CSV and Parquet files, pandas and polars frames, into Arrow columns.

Nothing is guessed about a cell: the caller says which columns hold text and which hold numbers, so that a node called
007 keeps its zeros. Errors name file, line and column. The rest of the library sees only the `Table`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from jaxtyping import Float, Int

from tdegnn.data.tables.csv_files import (
    ChooseKinds,
    CsvFormat,
    TableStart,
    check_file,
    check_names,
    is_parquet,
    num_peeked,
    read_csv,
)
from tdegnn.data.tables.parquet_files import read_parquet
from tdegnn.errors import InputError

PLAIN_CSV = CsvFormat()
# Usual names of a column of nodes.
NODE_NAMES = ("node", "node_id", "id", "unique_id", "item_id", "series", "series_id")
# The source of a table that does not come from a file.
FRAME = "the frame"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a table, and where it came from.

    Attributes:
        columns: The columns. Columns of text are dictionary-encoded.
        source: Name of the file, or "the frame".
        find_line: Returns the line in the file of a row, counted from 0. None if the table is not a text file.
    """

    columns: pa.Table
    source: str
    find_line: Callable[[int], int] | None = None

    def __post_init__(self) -> None:
        check_names(self.names, self.source)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns.column_names)

    @cached_property
    def start(self) -> TableStart:
        """Names of the columns and first rows, as text."""
        first = self.columns.slice(0, num_peeked(len(self.names)))
        try:
            columns = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in first.columns]
        except (OverflowError, ValueError) as error:  # Python has no such dates
            raise InputError(f"Expected dates of the years 1 to 9999 in {self.source}, got others: {error}.") from error
        types = enumerate(self.columns.schema.types)
        # A CSV file has no types: its text may hold numbers.
        is_typed = self.find_line is None
        texts = frozenset(column for column, kind in types if is_typed and _in_words(kind) == "text")
        return TableStart(self.names, tuple(zip(*columns, strict=True)), texts)

    @property
    def stem(self) -> str:
        """Name of the file without its ending; empty for a frame."""
        return "" if self.source == FRAME else Path(self.source).stem

    @cached_property
    def date_columns(self) -> tuple[int, ...]:
        """Columns whose type is a date, if the table has types."""
        types = enumerate(self.columns.schema.types)
        return tuple(column for column, kind in types if pa.types.is_timestamp(kind) or pa.types.is_date(kind))

    def place(self, row: int) -> str:
        """Return where a row stands, for messages: `line 7 of cases.csv`."""
        if self.find_line is None:
            return f"row {row} of {self.source}"
        return f"line {self.find_line(row)} of {self.source}"

    def column(self, column: int) -> pa.ChunkedArray:
        """Return a column as Arrow has it. Raise an `InputError` for lists and structures, which are not read."""
        array = self.columns.column(column)
        if pa.types.is_binary(array.type) and 0 < len(array) == array.null_count:
            raise InputError(
                f"Expected numbers, text or dates in column {self.names[column]!r} of {self.source}, got bytes, lists "
                "or structures. Convert it first."
            )
        return array

    def texts(self, column: int) -> pa.DictionaryArray:
        """Return a column as text, dictionary-encoded, without surrounding spaces."""
        array = self.column(column)
        if not pa.types.is_dictionary(array.type):
            array = _as_strings(array, self.names[column], self.source).dictionary_encode()
        combined = array.unify_dictionaries().combine_chunks()
        try:
            texts = combined.dictionary.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise InputError(
                f"Expected text in column {self.names[column]!r} of {self.source}, got bytes that are not. Convert it."
            ) from error
        stripped = pa.compute.utf8_trim_whitespace(texts)
        # Two spellings of one name get one code, and a category without rows gets none.
        spellings = stripped.take(pa.compute.drop_null(pa.compute.unique(combined.indices))).dictionary_encode()
        codes = pa.compute.index_in(stripped, spellings.dictionary).take(combined.indices)
        return pa.DictionaryArray.from_arrays(codes, spellings.dictionary)

    def codes(self, column: int) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " codes"]]:
        """Number the different entries of a column. Return the number of each row, and the first row per number."""
        array = self.column(column)
        is_text = pa.types.is_dictionary(array.type)
        encoded = self.texts(column) if is_text else array.combine_chunks().dictionary_encode()
        # An empty cell is an entry like the others.
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        first_rows = np.empty(len(encoded.dictionary) + int(encoded.null_count > 0), dtype=np.int64)
        # In reverse, since the last assignment counts.
        first_rows[codes[::-1]] = np.arange(len(codes))[::-1]
        return codes, first_rows

    def numbers(self, column: int) -> Float[np.ndarray, " rows"]:
        """Return a column as float64, with NaN for empty cells. Raise an `InputError` for text and infinity."""
        array, name = self.column(column), self.names[column]
        kind = array.type
        if pa.types.is_null(kind):
            return np.full(len(array), np.nan)
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (is_number or pa.types.is_boolean(kind)):
            raise InputError(
                f"Expected numbers in column {name!r} of {self.source}, got {_in_words(kind)}. Convert it first."
            )
        # Unsafe: large whole numbers may be rounded to float64.
        values = np.array(array.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        is_infinite = np.isinf(values)
        if is_infinite.any():
            row = int(np.argmax(is_infinite))
            raise InputError(
                f"Expected finite numbers in column {name!r}, got {values[row]} in {self.place(row)}. "
                "Leave the cell empty if nothing was observed."
            )
        return values


def read_table(
    source: object,
    choose_kinds: ChooseKinds,
    csv_format: CsvFormat = PLAIN_CSV,
    *,
    has_header: bool = True,
    number_hint: str = "Correct the cell.",
) -> Table:
    """Read a CSV or Parquet file, or take a pandas or polars frame.

    Args:
        source: Path of a file, or a frame.
        choose_kinds: Returns the kind of each column, given the start of the table. Parquet files and frames keep their
            types.
        csv_format: Separator, decimal sign and encoding of a CSV file.
        has_header: Whether the first line of a CSV file holds the names of the columns. If not, they are 0, 1, ...
        number_hint: The end of the message about text in a column of numbers.
    """
    if isinstance(source, str | os.PathLike):
        path = check_file(source)
        if is_parquet(path):
            return _read_parquet(path)
        columns, find_line = read_csv(path, choose_kinds, csv_format, number_hint, has_header=has_header)
        return Table(columns, path.name, find_line)
    return _take_frame(source)


def find_named(names: Sequence[str], usual: Sequence[str]) -> int | None:
    """Return the position of the column with the first of the usual names, or None. Case does not count."""
    lowered = [name.lower() for name in names]
    return next((lowered.index(name) for name in usual if name in lowered), None)


def _read_parquet(path: Path) -> Table:
    columns = read_parquet(path)
    # Indices without a name, kept by pandas: drop those that only count rows, keep times and names.
    counts = [
        name
        for name in columns.column_names
        if name.startswith("__index_level_") and pa.types.is_integer(columns.schema.field(name).type)
    ]
    return Table(_in_known_types(columns.drop_columns(counts)), path.name)


def _take_frame(frame: Any) -> Table:
    if isinstance(frame, pd.DataFrame):
        frame = _flatten(frame)
        check_names(tuple(frame.columns), FRAME)
    elif isinstance(frame, pd.Series) or not hasattr(frame, "__arrow_c_stream__"):
        raise InputError(
            f"Expected a path, or a pandas or polars frame, got {type(frame).__name__}. "
            "For arrays use Panel.from_array."
        )
    try:
        is_pandas = isinstance(frame, pd.DataFrame)
        columns = pa.Table.from_pandas(frame, preserve_index=False) if is_pandas else pa.table(frame)
        known = _in_known_types(columns)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"Expected columns of numbers, text or dates in the frame: {reason}.") from error
    return Table(known, FRAME)


def _flatten(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its index as columns, and with text for names."""
    index = frame.index
    # Row numbers are not data, even if rows were filtered or sorted.
    is_count = index.nlevels == 1 and index.name is None and pd.api.types.is_integer_dtype(index.dtype)
    if isinstance(index, pd.PeriodIndex):
        frame = frame.set_axis(index.to_timestamp(), axis=0)
    # Levels of the index that are also columns.
    known = [name for name in index.names if name is not None and name in frame.columns]
    if is_count or len(known) == index.nlevels:
        frame = frame.reset_index(drop=True)
    elif known:
        frame = frame.reset_index(level=known, drop=True).reset_index()
    else:
        frame = frame.reset_index()
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _in_known_types(columns: pa.Table) -> pa.Table:
    """Return the table with all text as `string`: Arrow's other types of text support fewer operations."""
    others = (pa.string_view(), pa.large_string())
    fields = [field.with_type(pa.string()) if field.type in others else field for field in columns.schema]
    return columns.cast(pa.schema(fields))


def _as_strings(array: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    """Return names, given as text or as whole numbers, as text."""
    if pa.types.is_floating(array.type) or pa.types.is_nested(array.type):
        raise InputError(
            f"Expected names in column {name!r} of {source}, got {_in_words(array.type)}. Convert it to text."
        )
    return array.cast(pa.string())


def _in_words(kind: pa.DataType) -> str:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    return "text" if is_text else str(kind)
