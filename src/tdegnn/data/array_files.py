"""NumPy and SciPy files of users, npy and npz, checked before they are read.

Headers are read first: they tell what the arrays will take, which must be within the limit of memory (`check_memory`).
Then no more than that is read. Only plain numbers and text are read, never pickles. The parts of a sparse matrix are
checked before SciPy sees them (`sparse_checks.py`).
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import scipy.sparse
from jaxtyping import Shaped

from tdegnn.errors import InputError, list_some
from tdegnn.files import DAMAGED_ARCHIVES, DAMAGED_HEADERS, check_memory
from tdegnn.sparse_checks import PARTS, check_parts

Array: TypeAlias = Shaped[np.ndarray, "..."]
Stream: TypeAlias = IO[bytes] | io.BufferedIOBase

# The name of the array in an npy file.
ONLY = ""
# The array of an npz file in which SciPy keeps the format of a sparse matrix.
FORMAT = "format"
NPY_START = b"\x93NUMPY"
# Booleans, whole, real and complex numbers, and text.
READ_KINDS = "biufcSU"
# The methods with which NumPy packs. Other methods unpack without a limit.
READ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Python reads the list of members of an archive at once, and the objects made of it take many times its length.
LONGEST_READ = 2**20
LONGEST_HEADER = 4096
LONGEST_NAME = 200
MOST_CODES = 0x10FFFF
HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def list_arrays(path: Path, what: str) -> tuple[str, ...]:
    """Return the names of the arrays in an npz file. An npy file has one, `ONLY`.

    Args:
        path: The file. Its content counts, not the ending of its name.
        what: What it should hold, for the message about a damaged file: `an adjacency matrix`.
    """
    with _explained(path, what), _opened(path) as members:
        return tuple(members)


def read_arrays(path: Path, what: str, names: Sequence[str]) -> list[Array]:
    """Read some arrays of an npy or npz file, if they are within the limit of memory together.

    Args:
        path: The file.
        what: What it should hold, for messages.
        names: Names of the arrays.
    """
    with _explained(path, what), _opened(path) as members:
        missing = [name for name in names if name not in members]
        if missing:
            raise InputError(f"Expected an array {missing[0]!r} in {path.name}, got {list_some(list(members))}.")
        headers = [members[name].read_header() for name in names]
        # An entry without bytes, an empty text, still costs what is made of it.
        check_memory(sum(max(header.num_bytes, header.size) for header in headers), path.name)
        return [members[name].read(header) for name, header in zip(names, headers, strict=True)]


def read_sparse(path: Path, what: str) -> scipy.sparse.sparray:
    """Read a sparse matrix that SciPy saved.

    Args:
        path: The file.
        what: What the matrix is, for messages.
    """
    kind_array, shape_array = read_arrays(path, what, (FORMAT, "shape"))
    kind = kind_array.item() if kind_array.size == 1 else None
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
    if kind not in PARTS or shape_array.dtype.kind not in "iu" or shape_array.ndim != 1:
        raise InputError(
            f"Expected {what} in one of SciPy's formats {', '.join(PARTS)} in {path.name}, got {kind!r}. Convert it "
            "with .tocsr() before saving."
        )
    needed = ("data", *PARTS[kind])
    parts = dict(zip(needed, read_arrays(path, what, needed), strict=True))
    shape = tuple(shape_array.tolist())
    check_parts(kind, shape, parts, f"{what} in {path.name}")
    # SciPy's conversions take a number per row and column, and a few per entry.
    check_memory(8 * sum(shape) + 6 * sum(part.nbytes for part in parts.values()), path.name)
    data, *others = (_in_types_of_scipy(part) for part in parts.values())
    make = getattr(scipy.sparse, f"{kind}_array")
    inner = (data, tuple(others)) if kind == "coo" else (data, *others)
    matrix: scipy.sparse.sparray = make(inner, shape=shape)
    return matrix


def _in_types_of_scipy(part: Array) -> Array:
    """Return a part of a sparse matrix in a type that SciPy supports: not float16, not in another order of bytes."""
    is_long_or_short = part.dtype.kind == "f" and part.dtype.itemsize not in (4, 8)
    return part.astype(np.float64 if is_long_or_short else part.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class _Header:
    """What the header of an array says, and how many bytes it has."""

    length: int
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class _Member:
    """An array in a file that is open.

    Attributes:
        open: Opens its bytes.
        size: The number of its bytes.
        is_exact: Whether they are all of the array, as in an archive. More may follow in an npy file.
    """

    open: Callable[[], Stream]
    size: int
    is_exact: bool

    def read_header(self) -> _Header:
        with self.open() as stream:
            header = _read_header(stream)
        needed = header.length + header.num_bytes
        if needed > self.size or (self.is_exact and needed < self.size):
            raise ValueError(f"expected {needed} bytes for the shape {header.shape}, got {self.size}")
        return header

    def read(self, header: _Header) -> Array:
        buffer = np.empty(header.num_bytes, dtype=np.uint8)
        with self.open() as stream:
            stream.read(header.length)
            for start in range(0, len(buffer), LONGEST_READ):
                wanted = buffer[start : start + LONGEST_READ]
                piece = stream.read(len(wanted))
                if len(piece) < len(wanted):
                    raise EOFError(f"the end after {start + len(piece)} of {len(buffer)} bytes")
                wanted[:] = np.frombuffer(piece, dtype=np.uint8)
            if self.is_exact:
                stream.read(1)  # at the end, an archive compares the checksum of its member
        # NumPy cannot view bytes as texts without length.
        values = buffer.view(header.dtype) if header.dtype.itemsize else np.empty(header.size, dtype=header.dtype)
        _check_values(values)
        return values.reshape(header.shape, order="F" if header.is_fortran else "C")


def _read_header(stream: Stream) -> _Header:
    start = stream.read(len(NPY_START) + 2)
    version = (start[-2], start[-1]) if start.startswith(NPY_START) else None
    if version not in HEADER_READERS:  # version 3 is for structures, which are no matrices
        raise ValueError(f"unknown start {start!r}")
    prefix = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(prefix, "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files of Python 2, and about Python that damaged bytes spell
            shape, is_fortran, dtype = HEADER_READERS[version](io.BytesIO(prefix + stream.read(length)))
    except DAMAGED_HEADERS as error:
        raise ValueError(f"a header that NumPy cannot read ({type(error).__name__})") from error
    if dtype.kind not in READ_KINDS or any(size < 0 for size in shape):
        raise ValueError(f"an array of {dtype} and shape {shape}")
    return _Header(len(start) + len(prefix) + length, shape, is_fortran, dtype)


def _check_values(values: Array) -> None:
    """Raise a `ValueError` for bytes that are no value of their type: NumPy trusts them."""
    if values.size == 0 or values.dtype.itemsize == 0:
        return
    if values.dtype.kind == "b" and values.view(np.uint8).max() > 1:
        raise ValueError("booleans that are neither 0 nor 1")
    if values.dtype.kind == "U":
        codes = values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if codes.max() > MOST_CODES or ((codes >= 0xD800) & (codes <= 0xDFFF)).any():
            raise ValueError("text with characters that do not exist")


@contextmanager
def _opened(path: Path) -> Iterator[dict[str, _Member]]:
    """Open a file and yield its arrays by name."""
    with _SmallReads(path) as file:
        if file.read(len(NPY_START)) == NPY_START:
            yield {ONLY: _Member(lambda: path.open("rb"), path.stat().st_size, is_exact=False)}
            return
        with zipfile.ZipFile(file) as archive:
            yield _members_of(archive)


def _members_of(archive: zipfile.ZipFile) -> dict[str, _Member]:
    members: dict[str, _Member] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name in members or entry.compress_type not in READ_METHODS:
            raise ValueError(f"the member {entry.filename!r} twice, or packed with method {entry.compress_type}")
        if len(name) > LONGEST_NAME or not name.isprintable():  # a message may show it
            raise ValueError(f"the name {entry.filename!r}")
        members[name] = _Member(partial(archive.open, entry), entry.file_size, is_exact=True)
    return members


class _SmallReads(io.FileIO):
    """A file that refuses to read much at once."""

    def read(self, size: int | None = -1) -> bytes:
        is_small = size is not None and 0 <= size <= LONGEST_READ
        content = super().read(size if is_small else LONGEST_READ + 1)
        if len(content) > LONGEST_READ:
            raise ValueError(f"expected to read at most {LONGEST_READ} bytes at once")
        return content


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Turn what a damaged file raises into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except DAMAGED_ARCHIVES as error:
        raise InputError(
            f"Expected {what} saved by NumPy or SciPy in {path.name}, got another file, or a damaged one."
        ) from error
