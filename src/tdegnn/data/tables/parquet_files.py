"""Parquet files of users, checked before they are read into Arrow columns.

A Parquet file of a few megabytes can hold billions of rows. Its footer and its pages tell how many, and how long
(`parquet_pages.py`), so what the columns will take is known before they are read, and must be within the limit of
memory (`check_memory`). Text is read as a dictionary: a name takes memory once, and four bytes per row. Both may be
wrong, so what was read is counted, and checked once more by Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from tdegnn.data.tables.csv_files import check_names
from tdegnn.data.tables.parquet_pages import Contents, find_deltas, footer_size, read_footer, unpacked_size
from tdegnn.errors import InputError
from tdegnn.files import check_memory, memory_limit

# Bytes that a byte of the footer takes once it is parsed, measured.
FOOTER_COST = 40
# Bytes that a cell takes besides its own, until it is part of a panel or a graph: as a number, as text or a time.
NUMBER_COST = 16
OTHER_COST = 50
# Bytes that Python takes for a byte of text.
TEXT_COST = 2
# How often Arrow holds a text meanwhile, if it cannot read it as a dictionary.
TEXT_COPIES = 4
# Rows that are read at once. Each batch has its own dictionary of texts, so batches should be few.
ROWS_AT_ONCE = 2**20
# What Arrow raises for damaged files, besides its own kinds: names that are not UTF-8, time zones that do not exist.
DAMAGES = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError)


def read_parquet(path: Path) -> pa.Table:
    """Read the columns of a Parquet file. Columns of text are dictionary-encoded."""
    with _explained(path):
        check_memory(footer_size(path) * FOOTER_COST, path.name)
        contents = read_footer(path)
        with pyarrow.parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    _check_columns(schema, path.name)
    _check_cost(contents, schema, path)
    # Lists and structures have several columns in the file, one for each of their parts.
    places = dict(zip(schema.names, accumulate(map(_num_leaves, schema.types), initial=0), strict=False))
    texts = [field.name for field in schema if _is_text(field.type)]
    with _explained(path):
        found = find_deltas(path, contents, [places[name] for name in texts])
    deltas = {name: found[places[name]] for name in texts if places[name] in found}
    # Arrow cannot read differences as a dictionary. They are read as text, some rows at a time.
    numbered = [name for name in texts if name not in deltas]
    with (
        _explained(path),
        pyarrow.parquet.ParquetFile(path, metadata=metadata, read_dictionary=numbered, pre_buffer=False) as file,
    ):
        read = [field.name for field in schema if _width(field.type) is not None]
        columns = _read_rows(file, path.name, read, deltas)
        columns.validate(full=True)
    for position, field in enumerate(schema):
        if field.name not in read:
            # Nothing is known of its size, so it is not read. `Table.column` says so to those who need it.
            columns = columns.add_column(position, field.name, pa.nulls(columns.num_rows, pa.binary()))
    _check_texts(columns, path.name)
    _check_times(columns, path.name)
    return columns


def _check_columns(schema: pa.Schema, source: str) -> None:
    """Raise an `InputError` if two columns have one name, or if a time zone does not exist."""
    check_names(schema.names, source)
    for field in schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            try:
                pa.scalar(0, field.type).as_py()
            except (ValueError, KeyError, OSError) as error:
                raise InputError(
                    f"Expected a time zone such as Europe/Berlin in column {field.name!r} of {source}, got "
                    f"{field.type.tz!r}. Convert the column."
                ) from error


def _check_cost(contents: Contents, schema: pa.Schema, path: Path) -> None:
    row_cost = sum(
        (_width(field.type) or 0) + (NUMBER_COST if _is_number(field.type) else OTHER_COST) for field in schema
    )
    num_bytes = sum(contents.num_rows) * row_cost
    check_memory(num_bytes, path.name)
    # Pages bound the dictionaries of texts.
    with _explained(path):
        num_bytes += unpacked_size(path, contents, memory_limit() - num_bytes)
    check_memory(num_bytes, path.name)


def _read_rows(file: pyarrow.parquet.ParquetFile, source: str, names: list[str], deltas: Mapping[str, int]) -> pa.Table:
    """Read all rows of some columns.

    Args:
        file: The file.
        source: Its name, for messages.
        names: The columns.
        deltas: The columns of text that Arrow cannot read as a dictionary, and the most bytes of a text in each.
    """
    # A batch may take a sixteenth of the limit before it is counted.
    most_rows = memory_limit() // (16 * max(sum(deltas.values()), 1))
    batches: list[pa.RecordBatch] = []
    num_bytes = 0
    # Arrow 18 calls a file without groups of rows damaged.
    groups = file.iter_batches(min(ROWS_AT_ONCE, max(most_rows, 1)), columns=names) if file.num_row_groups else ()
    for batch in groups:
        arrays = [
            array.dictionary_encode() if name in deltas else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names))
        num_bytes += batches[-1].get_total_buffer_size()
        # Arrow holds a batch of texts several times until the next one is read.
        check_memory(num_bytes + (TEXT_COPIES * batch.get_total_buffer_size() if deltas else 0), source)
    return pa.Table.from_batches(batches, batches[0].schema if batches else _fields_of(file.schema_arrow, names))


def _fields_of(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _num_leaves(kind: pa.DataType) -> int:
    """Return the number of columns that a file has for a column of this type."""
    inner = [kind.field(number).type for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return sum(map(_num_leaves, inner)) if inner else 1


def _check_texts(columns: pa.Table, source: str) -> None:
    """Raise an `InputError` if the texts of all rows are too long together: a name may be long, and in every row."""
    num_bytes = 0
    for column in columns.columns:
        if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
            for chunk in column.chunks:
                lengths = pa.compute.binary_length(chunk.dictionary).cast(pa.int64())
                most = (pa.compute.max(lengths).as_py() or 0) * len(chunk)
                # The exact number takes longer to find than a bound, and is seldom needed.
                is_much = most > memory_limit() / 100
                num_bytes += (pa.compute.sum(lengths.take(chunk.indices)).as_py() or 0) if is_much else most
    check_memory(TEXT_COST * num_bytes, source)


def _check_times(columns: pa.Table, source: str) -> None:
    """Raise an `InputError` for dates and times that Python does not have, such as those after the year 9999."""
    for name, column in zip(columns.column_names, columns.columns, strict=True):
        if pa.types.is_temporal(column.type):
            # Arrow has no extremes of durations, but of the numbers that they are.
            is_duration = pa.types.is_duration(column.type)
            extremes = pa.compute.min_max(column.cast(pa.int64()) if is_duration else column)
            try:
                for extreme in extremes.values():
                    extreme.cast(column.type).as_py()
            except (ValueError, OverflowError) as error:
                raise InputError(
                    f"Expected times in the years 1 to 9999 in column {name!r} of {source}, got others. Check its unit."
                ) from error


def _width(kind: pa.DataType) -> int | None:
    """Return the bytes of a cell in Arrow. None for types without a fixed width, except text, which is numbered."""
    if _is_text(kind) or pa.types.is_dictionary(kind):
        return 4
    if pa.types.is_null(kind):
        return 0
    if isinstance(kind, pa.BaseExtensionType):
        return None if _is_text(kind.storage_type) else _width(kind.storage_type)
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return (kind.bit_width + 7) // 8 if is_fixed else None


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text or bytes of any length."""
    of_strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    of_bytes = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(is_kind(kind) for is_kind in (*of_strings, *of_bytes))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what a damaged file raises into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except DAMAGES as error:
        raise _damaged(path.name) from error


def _damaged(source: str) -> InputError:
    return InputError(f"Expected a whole Parquet file, got {source}, which is damaged or cut off. Write it again.")
