"""Check that files can be read, and read CSV files: their separator, their encoding, and errors that name the line.

Arrow reads a CSV file quickly, given the columns that hold text. Only if it fails, the file is read again cell by cell,
to find the line and to explain the error. Arrow is imported only when a file is read, because the command line checks
file names before that.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tdegnn.errors import Argument, InputError, Message

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["text", "number"]
# Returns the kind of each column, given the start of a table.
ChooseKinds: TypeAlias = Callable[["TableStart"], Sequence[Kind]]

SEPARATORS = (",", ";", "\t", "|")
# Texts that stand for a missing number.
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_FILES = {b"PK\x03\x04": "a spreadsheet or a zip archive", b"\x1f\x8b": "a gzip archive", b"SQLi": "a database"}
LARGEST_FIELD = 2**31 - 1
# Number of rows from which the kind of a column is decided.
NUM_PEEKED = 200
# Number of names in a folder that are compared with the name of a missing file.
MOST_NAMES = 1_000
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.IGNORECASE)


def check_file(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be read and is not empty. Otherwise, raise an `InputError`."""
    path = Path(source)
    if path.is_dir():
        raise InputError(f"Expected a file, got the folder {path}. Name a file in it.")
    if not path.exists():
        near = find_similar(path)
        hint = "Check the path." if near is None else f"Did you mean {near}?"
        raise InputError(f"Expected a file at {path}, got none. {hint}")
    if not os.access(path, os.R_OK):
        raise InputError(f"Expected permission to read {path}, got none. Change its permissions.")
    if not path.is_file():
        raise InputError(f"Expected a file, got {path}, which is a pipe or a device. Write it to a file first.")
    if path.stat().st_size == 0:
        raise InputError(f"Expected a table in {path.name}, got an empty file.")
    return path


def is_parquet(path: Path) -> bool:
    """Return whether a file is in Parquet format, whatever its name."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def find_similar(path: Path) -> Path | None:
    """Return a file in the same folder with a similar name, or None if there is none.

    Upper case and the ending of the name do not count.
    """
    by_name: dict[str, str] = {}
    with suppress(OSError):
        for other in islice(path.parent.iterdir(), MOST_NAMES):
            if other.is_file():
                by_name[other.name.lower()] = other.name
                by_name.setdefault(other.stem.lower(), other.name)
    near = difflib.get_close_matches(path.name.lower(), by_name, n=1, cutoff=0.8)
    return path.with_name(by_name[near[0]]) if near else None


@dataclass(frozen=True)
class CsvFormat:
    """The format of a CSV file.

    Attributes:
        separator: The character between columns. If None, found among comma, semicolon, tab and bar.
        decimal: The decimal sign, a point or a comma.
        encoding: The encoding of the text.
    """

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            raise InputError(f"Expected a separator of one character, got {self.separator!r}.")
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            other = " as separator too" if self.decimal == self.separator else ""
            raise InputError(f"Expected the decimal sign '.' or ',', got {self.decimal!r}{other}.")
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError) as error:
            raise InputError(f"Expected an encoding such as utf-8 or latin-1, got {self.encoding!r}.") from error

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8."""
        return self.encoding.lower().replace("_", "-") in ("utf-8", "utf8")


@dataclass(frozen=True)
class TableStart:
    """Names of the columns and the first rows of a table, which show the kind of each column.

    Attributes:
        names: Names of the columns.
        rows: The first rows, as text.
        text_columns: Columns whose type is text, if the table has types.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset()

    def column(self, position: int) -> list[str]:
        """Return the first cells of a column, without surrounding spaces."""
        return [row[position].strip() for row in self.rows if len(row) == len(self.names)]

    def holds_numbers(self, position: int) -> bool:
        """Return whether the first cells of a column are numbers or empty."""
        return position not in self.text_columns and all(
            cell in MISSING or _is_number(cell, ".") or _is_number(cell, ",") for cell in self.column(position)
        )


def read_csv(
    path: Path, choose_kinds: ChooseKinds, csv_format: CsvFormat, number_hint: str, *, has_header: bool
) -> tuple[pa.Table, Callable[[int], int]]:
    """Read a CSV file. Return its columns, and a function that finds the line of a row."""
    import pyarrow as pa
    import pyarrow.csv

    types = {"text": pa.dictionary(pa.int32(), pa.string()), "number": pa.float64()}
    separator, start = peek_csv(path, csv_format, has_header=has_header)
    file = _CsvFile(path, csv_format, separator, start.names, tuple(choose_kinds(start)), has_header, number_hint)
    try:
        columns = pyarrow.csv.read_csv(
            path if csv_format.is_utf8 else io.BytesIO(_transcoded(path, csv_format)),
            # `skip_rows` would count lines, and a quoted name may have two.
            read_options=pyarrow.csv.ReadOptions(column_names=start.names, skip_rows_after_names=int(has_header)),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: types[kind] for name, kind in zip(start.names, file.kinds, strict=True)},
                null_values=list(MISSING),
                strings_can_be_null=False,
                decimal_point=csv_format.decimal,
            ),
        )
    except pa.ArrowInvalid as error:
        raise file.explain(error) from error
    return columns, file.find_line


def peek_csv(path: Path, csv_format: CsvFormat, *, has_header: bool = True) -> tuple[str, TableStart]:
    """Return the separator and the first rows of a CSV file. Columns without a header are called 0, 1, ..."""
    _check_is_text(path, csv_format)
    try:
        separator = _find_separator(path, csv_format)
        with _open_text(path, csv_format) as file:
            rows = [tuple(cells) for cells in islice(_reader(file, separator), NUM_PEEKED + 1)]
    except UnicodeError as error:
        raise _undecodable(path, csv_format) or error from error
    except csv.Error as error:
        raise InputError(f"Expected a CSV table in {path.name}, got one that cannot be read: {error}.") from error
    header = tuple(cell.strip() for cell in rows[0])
    if len(header) < 2:
        cure = Message("Separate them by commas, or pass ", Argument("separator"), ".")
        raise InputError(
            f"Expected at least two columns in {path.name}, got one in line 1: {_shorten(''.join(header))!r}. ",
            cure if rows[0] else "Remove the line.",
        )
    if not has_header:
        return separator, TableStart(tuple(map(str, range(len(header)))), tuple(row for row in rows if row))
    return separator, TableStart(header, tuple(row for row in rows[1:] if row))


@dataclass(frozen=True)
class _CsvFile:
    """A CSV file read cell by cell. This is slow, so it is only done to explain an error."""

    path: Path
    csv_format: CsvFormat
    separator: str
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    has_header: bool
    number_hint: str

    def find_line(self, row: int) -> int:
        """Return the line on which a row ends."""
        return next(line for position, (line, _) in enumerate(self._rows()) if position == row)

    def explain(self, error: pa.ArrowInvalid) -> InputError:
        """Return the error that names the line and the cell that Arrow could not read."""
        wrong_encoding = _undecodable(self.path, self.csv_format)
        if wrong_encoding is not None:
            return wrong_encoding
        for line, cells in self._rows():
            if len(cells) != len(self.names):
                return self._ragged(cells, line)
            for name, kind, cell in zip(self.names, self.kinds, cells, strict=True):
                if kind == "number" and cell not in MISSING and not _is_number(cell, self.csv_format.decimal):
                    return self._not_a_number(cell, name, line)
        return InputError(f"Expected a CSV table in {self.path.name}, got one that cannot be read: {error}.")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row that is not blank."""
        with _open_text(self.path, self.csv_format) as file:
            reader = _reader(file, self.separator)
            if self.has_header:
                next(reader)
            for cells in reader:
                if cells:
                    yield reader.line_num, cells

    def _ragged(self, cells: list[str], line: int) -> InputError:
        cure = f"Cells that hold a {self.separator!r} need quotes around them."
        if not "".join(cells).strip():
            cure = "Remove the line."
        elif any("\n" in cell for cell in cells):
            cure = "A quote before it is never closed."
        elif self.names[0].startswith("#"):
            cure = "If line 1 is a comment, remove it."
        return InputError(
            f"Expected {len(self.names)} columns as in the first line of {self.path.name}, got {len(cells)} in line "
            f"{line}: {_shorten(self.separator.join(cells))!r}. {cure}"
        )

    def _not_a_number(self, cell: str, name: str, line: int) -> InputError:
        hint = self.number_hint
        if "," in cell and self.csv_format.decimal == ".":
            comma = Argument("decimal", ",")
            hint = Message("If the comma is a decimal comma, pass ", comma, "; if it groups thousands, remove it.")
        elif "." in cell and self.csv_format.decimal == ",":
            hint = "The decimal sign is a comma here: remove points that group thousands."
        return InputError(
            f"Expected a number in column {name!r}, got {_shorten(cell)!r} in line {line} of {self.path.name}. ", hint
        )


def _reader(file: Iterable[str], separator: str) -> Any:
    # By default, the module refuses cells of more than 128 kB.
    csv.field_size_limit(LARGEST_FIELD)
    return csv.reader(file, delimiter=separator)


def _is_number(cell: str, decimal: str) -> bool:
    # If the decimal sign is a comma, a point does not belong to a number.
    plain = cell.replace(".", "?").replace(",", ".") if decimal == "," else cell
    return NUMBER.fullmatch(plain.strip(" \t")) is not None


def _find_separator(path: Path, csv_format: CsvFormat) -> str:
    """Return the most frequent separator among those that occur equally often in each of the first lines.

    If there is none, return the most frequent one in the first line.
    """
    if csv_format.separator is not None:
        return csv_format.separator
    with _open_text(path, csv_format) as file:
        # Quoted text does not separate columns.
        lines = ["".join(line.split('"')[::2]) for line in islice(file, 5) if line.strip()]
    candidates = [separator for separator in SEPARATORS if separator != csv_format.decimal]
    counts = {separator: [line.count(separator) for line in lines] or [0] for separator in candidates}

    def likelihood(separator: str) -> tuple[bool, int]:
        in_lines = counts[separator]
        return len(set(in_lines)) == 1 and in_lines[0] > 0, in_lines[0]

    return max(candidates, key=likelihood)


def _check_is_text(path: Path, csv_format: CsvFormat) -> None:
    """Raise an `InputError` if the first bytes of a file show that it is not text in the stated encoding."""
    with path.open("rb") as file:
        start = file.read(4096)
    for mark, content in OTHER_FILES.items():
        if start.startswith(mark):
            raise InputError(f"Expected a CSV or Parquet file, but {path.name} is {content}. Save the table as CSV.")
    if not csv_format.is_utf8:
        return
    if start[:2] in UTF16_MARKS:
        raise InputError(
            f"Expected UTF-8 text in {path.name}, got UTF-16. Save it as 'CSV UTF-8', or pass ",
            Argument("encoding", "utf-16"),
            ".",
        )
    if b"\0" in start:
        raise InputError(f"Expected UTF-8 text in {path.name}, got bytes that are not text. Save the table as CSV.")


def _undecodable(path: Path, csv_format: CsvFormat) -> InputError | None:
    """Return the error for text that is not in the stated encoding, or None if it is."""
    content = path.read_bytes()
    try:
        content.decode(csv_format.encoding)
    except UnicodeError as error:
        if not isinstance(error, UnicodeDecodeError):
            return InputError(f"Expected {csv_format.encoding} text in {path.name}, got other text: {error}.")
        line = content[: error.start].count(b"\n") + 1
        return InputError(
            f"Expected {csv_format.encoding} text in {path.name}, got the byte 0x{content[error.start]:02x} in line "
            f"{line}. Save it as 'CSV UTF-8', or pass its encoding, for example ",
            Argument("encoding", "latin-1"),
            ".",
        )
    return None


def _transcoded(path: Path, csv_format: CsvFormat) -> bytes:
    wrong_encoding = _undecodable(path, csv_format)
    if wrong_encoding is not None:
        raise wrong_encoding
    return path.read_bytes().decode(csv_format.encoding).encode("utf-8")


def _open_text(path: Path, csv_format: CsvFormat) -> io.TextIOWrapper:
    # Excel marks UTF-8 by an invisible first character, which does not belong to the first name.
    return path.open(encoding="utf-8-sig" if csv_format.is_utf8 else csv_format.encoding, newline="")


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
