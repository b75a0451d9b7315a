"""What a Parquet file says that it holds: rows and columns in its footer, and what its pages unpack to.

The footer repeats what the pages say, and can be wrong. A page says how many bytes it unpacks to, and Arrow unpacks no
more than that. Both are read here, in Python, because pyarrow ends the process if it is asked about a column whose
entry in the footer is damaged. They are written in Thrift's compact protocol: fields with a number and a type, up to a
zero. The numbers below are those of `parquet.thrift`.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

# Types of fields in the compact protocol. A boolean is its own type.
BOOLEANS, BYTE, INT32, INT64, DOUBLE, TEXT, LIST, SET, STRUCTURE = (1, 2), 3, 5, 6, 7, 8, 9, 10, 12
NUMBERS = (4, INT32, INT64)
# Structures and lists in each other, of which a valid file has five.
DEEPEST = 20
# The fields to read: their numbers, their types, and the fields of structures and of the structures in lists.
Fields: TypeAlias = dict[int, tuple[int, Any]]
GROUPS, COLUMNS, ROWS, COLUMN = 4, 1, 3, 3
CODEC, PACKED, FIRST_PAGE, DICTIONARY_PAGE = 4, 7, 9, 11
CHUNK: Fields = {
    CODEC: (INT32, None),
    PACKED: (INT64, None),
    FIRST_PAGE: (INT64, None),
    DICTIONARY_PAGE: (INT64, None),
}
FOOTER: Fields = {GROUPS: (LIST, {COLUMNS: (LIST, {COLUMN: (STRUCTURE, CHUNK)}), ROWS: (INT64, None)})}
PAGE_UNPACKED, PAGE_PACKED, DATA, DATA_2 = 2, 3, 5, 8
# Where each version of the header of a data page has its encoding.
ENCODING = {DATA: 2, DATA_2: 4}
PAGE: Fields = {
    PAGE_UNPACKED: (INT32, None),
    PAGE_PACKED: (INT32, None),
    **{version: (STRUCTURE, {field: (INT32, None)}) for version, field in ENCODING.items()},
}
# The encodings of texts by differences: of their lengths, and of their lengths and starts.
DELTAS = (6, 7)
# The most bytes to which a byte unpacks: not packed, Snappy, gzip and LZ4. Other methods have no useful bound.
MOST_UNPACKED = {0: 1, 1: 22, 2: 1033, 5: 256, 7: 256}
# The end of a file: the length of the footer in four bytes, and a mark.
END, MARK = 8, b"PAR1"


@dataclass(frozen=True)
class Contents:
    """What the footer of a file says.

    Attributes:
        num_rows: Number of rows of each group of rows.
        chunks: The pages of each column in each group of rows, as fields of the footer.
    """

    num_rows: list[int]
    chunks: list[dict[int, int]]


def footer_size(path: Path) -> int:
    """Return the number of bytes of the footer of a Parquet file."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - END, 0))
        end = stream.read()
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MARK or length + END > size:
        raise ValueError(f"the end {end!r}")
    return length


def read_footer(path: Path) -> Contents:
    """Return what the footer of a Parquet file says. Raise a `ValueError` if it is damaged."""
    length = footer_size(path)
    with path.open("rb") as stream:
        stream.seek(-length - END, os.SEEK_END)
        content = stream.read(length)
    groups = _read(content, 0, FOOTER)[0].get(GROUPS, [])
    chunks = [chunk.get(COLUMN, {}) for group in groups for chunk in group.get(COLUMNS, [])]
    num_rows = [group.get(ROWS, -1) for group in groups]
    if min(num_rows, default=0) < 0 or not all(chunk.keys() >= {CODEC, PACKED, FIRST_PAGE} for chunk in chunks):
        raise ValueError(f"groups of {num_rows} rows, or columns without pages")
    return Contents(num_rows, chunks)


def unpacked_size(path: Path, contents: Contents, limit: int) -> int:
    """Return a bound of the bytes to which the pages of a file unpack together.

    Args:
        path: The file.
        contents: What its footer says.
        limit: If a quick bound is below this, it is returned. Otherwise the pages are read.

    Raises:
        ValueError: The pages are damaged.
    """
    bound = sum(max(chunk[PACKED], 0) * MOST_UNPACKED.get(chunk[CODEC], math.inf) for chunk in contents.chunks)
    if bound <= limit:
        return int(bound)
    return sum(page[PAGE_UNPACKED] for page in _read_pages(path, contents.chunks))


def find_deltas(path: Path, contents: Contents, columns: Iterable[int]) -> dict[int, int]:
    """Return which columns of text have pages in which a text is written as what differs from the one before it.

    Args:
        path: The file.
        contents: What its footer says.
        columns: The columns of text, by position.

    Returns:
        The most bytes that a text of such a column can have, by position. All texts together can have more bytes than
        their pages.
    """
    if not contents.chunks:
        return {}
    num_columns = len(contents.chunks) // len(contents.num_rows)
    longest: dict[int, int] = {}
    for column in columns:
        for page in _read_pages(path, contents.chunks[column::num_columns]):
            if any(page.get(version, {}).get(field) in DELTAS for version, field in ENCODING.items()):
                longest[column] = max(longest.get(column, 0), page[PAGE_UNPACKED])
    return longest


def _read_pages(path: Path, chunks: Sequence[dict[int, int]]) -> Iterator[dict[int, Any]]:
    """Yield the header of each page of some columns in some groups of rows."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for chunk in chunks:
            yield from _read_chunk(content, chunk)


def _read_chunk(content: mmap.mmap, chunk: dict[int, int]) -> Iterator[dict[int, Any]]:
    """Yield the header of each page of one column in one group of rows."""
    first = chunk[FIRST_PAGE]
    if 0 < chunk.get(DICTIONARY_PAGE, 0) < first:
        first = chunk[DICTIONARY_PAGE]
    end = first + chunk[PACKED]
    if not 0 <= first <= end <= len(content):
        raise ValueError(f"a column from {first} to {end} in a file of {len(content)} bytes")
    while first < end:
        page, after = _read(content, first, PAGE)
        unpacked, packed = page.get(PAGE_UNPACKED, -1), page.get(PAGE_PACKED, -1)
        if unpacked < 0 or packed < 0:
            raise ValueError(f"a page of {packed} bytes that unpack to {unpacked}")
        yield page
        first = after + packed


def _read(content: bytes | mmap.mmap, place: int, fields: Fields) -> tuple[dict[int, Any], int]:
    """Return some fields of the structure at a place, and the place after it."""
    try:
        return _read_structure(content, place, fields, 0)
    except IndexError as error:
        raise ValueError("the end of the file in the middle of a structure") from error


def _read_structure(content: bytes | mmap.mmap, place: int, fields: Fields, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    field = 0
    while (start := content[place]) != 0:
        place += 1
        kind = start & 0x0F
        if start >> 4:
            field += start >> 4
        else:
            number, place = _read_number(content, place)
            field = (number >> 1) ^ -(number & 1)
        if field not in fields:
            place = place if kind in BOOLEANS else _skip(content, place, kind, depth)
            continue
        expected, inner = fields[field]
        if kind != expected:
            raise ValueError(f"a field of type {kind}")
        if kind == LIST:
            found[field], place = _read_list(content, place, inner, depth + 1)
        elif kind == STRUCTURE:
            found[field], place = _read_structure(content, place, inner, depth + 1)
        else:
            number, place = _read_number(content, place)
            found[field] = (number >> 1) ^ -(number & 1)
    return found, place + 1


def _read_list(content: bytes | mmap.mmap, place: int, fields: Fields, depth: int) -> tuple[list[dict[int, Any]], int]:
    """Return some fields of each structure in a list, and the place after it."""
    kind, length, place = _read_list_start(content, place)
    if kind != STRUCTURE and length:
        raise ValueError(f"a list of type {kind}")
    found = []
    for _ in range(length):
        structure, place = _read_structure(content, place, fields, depth)
        found.append(structure)
    return found, place


def _read_list_start(content: bytes | mmap.mmap, place: int) -> tuple[int, int, int]:
    """Return the type of a list's entries, their number, and the place of the first."""
    start = content[place]
    length, place = (start >> 4, place + 1) if start >> 4 < 15 else _read_number(content, place + 1)
    return start & 0x0F, length, place


def _read_number(content: bytes | mmap.mmap, place: int) -> tuple[int, int]:
    """Return a number without sign, written in groups of seven bits, and the place after it."""
    number = shift = 0
    while shift < 70:
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    raise ValueError("a number of more than 64 bits")


def _skip(content: bytes | mmap.mmap, place: int, kind: int, depth: int) -> int:
    """Return the place after a value."""
    if depth > DEEPEST:
        raise ValueError("too many structures in each other")
    if kind == TEXT:
        length, place = _read_number(content, place)
        return place + length
    if kind in NUMBERS:
        return _read_number(content, place)[1]
    if kind == STRUCTURE:
        return _read_structure(content, place, {}, depth + 1)[1]
    if kind in (LIST, SET):
        inner, length, place = _read_list_start(content, place)
        for _ in range(length):
            place = _skip(content, place, inner, depth + 1)
            content[place]  # the end of the file ends a list that is too long
        return place
    if kind in (BYTE, DOUBLE, *BOOLEANS):
        return place + (8 if kind == DOUBLE else 1)
    raise ValueError(f"a field of type {kind}")
