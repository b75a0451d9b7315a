"""Check that files can be read, and read CSV files: their separator, their encoding, and errors that name the line.

Arrow reads a CSV file quickly, given the columns that hold text. Only if it fails, the file is read again cell by cell,
to find the line and to explain the error. Arrow is imported only when a file is read, because the command line checks
file names before that. What a row and the whole table may take is compared with the limit of memory before it is taken.

Spreadsheets run a cell that begins with `=` as a formula. Writers put an apostrophe before such text, and readers take
it away again.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tdegnn.data.tables.encodings import PIECE, Transcoded, find_undecodable, other_text, utf8_pieces
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
# Number of rows from which the kind of a column is decided, and of cells and characters in them.
NUM_PEEKED = 200
MOST_PEEKED_CELLS = 2_000_000
MOST_PEEKED_CHARACTERS = 2**26
# Bytes of memory, measured: per character and per cell of a row of Python texts; per byte of a file that Arrow reads,
# per number, text and column of the table that it makes, until a panel or a graph is made of it.
CHARACTER_COST, CELL_COST = 8, 150
BYTE_COST, NUMBER_COST, TEXT_COST, COLUMN_COST = 2, 24, 64, 8000
# Arrow reads blocks of this size. A row must fit into one, and many rows should.
SMALLEST_BLOCK, LARGEST_BLOCK = 2**20, 2**31 - 1
ROWS_PER_BLOCK = 64
# Number of names in a folder that are compared with the name of a missing file.
MOST_NAMES = 1_000
NUMBER = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.IGNORECASE | re.ASCII)
# Text that a spreadsheet would run unless it is a number, also after apostrophes.
FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")  # noqa: RUF001
ESCAPED = f"^'({FORMULA.pattern})"


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
        if self.separator is not None and (self.separator in '"\r\n\0' or not self.separator.isascii()):
            raise InputError(
                f"Expected an ASCII character that is no quote or line break as separator, got {self.separator!r}."
            )
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            other = " as separator too" if self.decimal == self.separator else ""
            raise InputError(f"Expected the decimal sign '.' or ',', got {self.decimal!r}{other}.")
        try:
            # Python also calls compressions encodings, and these do not decode text.
            is_text = "a".encode(self.encoding).decode(self.encoding) == "a"
        except (LookupError, ValueError) as error:
            raise InputError(f"Expected an encoding such as utf-8 or latin-1, got {self.encoding!r}.") from error
        if not is_text:
            raise InputError(f"Expected an encoding such as utf-8 or latin-1, got {self.encoding!r}.")

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8."""
        return codecs.lookup(self.encoding).name == "utf-8"


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

    separator, start = peek_csv(path, csv_format, has_header=has_header)
    check_names(start.names, path.name)
    file = _CsvFile(path, csv_format, separator, start.names, tuple(choose_kinds(start)), has_header, number_hint)
    try:
        file.check_cost()
    except UnicodeError as error:
        raise file.explain(str(error)) from error
    block_size = file.first_block_size(start)
    while True:
        try:
            return file.read(block_size), file.find_line
        except pa.ArrowInvalid as error:
            # A row is longer than the block.
            if "straddling" not in str(error) or block_size > min(LARGEST_BLOCK - 1, 4 * path.stat().st_size):
                raise file.explain(str(error)) from error
            block_size = min(4 * block_size, LARGEST_BLOCK)
        except (UnicodeError, pa.ArrowException, OSError) as error:
            raise file.explain(str(error)) from error


def peek_csv(path: Path, csv_format: CsvFormat, *, has_header: bool = True) -> tuple[str, TableStart]:
    """Return the separator and the first rows of a CSV file. Columns without a header are called 0, 1, ..."""
    _check_is_text(path, csv_format)
    separator = _find_separator(path, csv_format)
    rows: list[tuple[str, ...]] = []
    num_cells = 0
    for _, cells in _read_rows(path, csv_format, separator, MOST_PEEKED_CHARACTERS):
        rows.append(tuple(cells))
        num_cells += len(cells)
        if len(rows) > NUM_PEEKED or num_cells > MOST_PEEKED_CELLS:
            break
    header = tuple(unescape(cell.strip()) for cell in rows[0]) if rows else ()
    if len(header) < 2:
        cure = Message("Separate them by commas, or pass ", Argument("separator"), ".")
        raise InputError(
            f"Expected at least two columns in {path.name}, got one in line 1: {_shorten(''.join(header))!r}. ",
            cure if header else "Remove the line.",
        )
    if not has_header:
        return separator, TableStart(tuple(map(str, range(len(header)))), tuple(row for row in rows if row))
    return separator, TableStart(header, tuple(row for row in rows[1:] if row))


def check_names(names: Sequence[str], source: str) -> None:
    """Raise an `InputError` for a column of a table without a name, and for two columns with the same one."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        if name in seen:
            raise InputError(f"Expected each column of {source} once, got {name!r} twice. Rename one of them.")
        if not name and position > 0:
            raise InputError(
                f"Expected a name for each column of {source}, got none for column {position + 1}. Name it, or remove "
                "the separator at the end of each line."
            )
        seen.add(name)


def num_peeked(num_columns: int) -> int:
    """Return the number of rows from which the kind of a column is decided: fewer if there are many columns."""
    return min(NUM_PEEKED, max(1, MOST_PEEKED_CELLS // max(num_columns, 1)))


def unescape(cell: str) -> str:
    """Return the text before which `to_csv` may have put an apostrophe."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


@dataclass(frozen=True)
class _CsvFile:
    """A CSV file whose format and columns are known. Arrow reads it; errors are explained by reading cell by cell."""

    path: Path
    csv_format: CsvFormat
    separator: str
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    has_header: bool
    number_hint: str

    def check_cost(self) -> None:
        """Raise an `InputError` if the whole table would take more memory than the limit."""
        from tdegnn.files import check_memory, memory_limit

        size, num_columns = self.path.stat().st_size, len(self.names)
        num_texts = self.kinds.count("text")
        per_row = NUMBER_COST * (num_columns - num_texts) + TEXT_COST * num_texts
        fixed = BYTE_COST * size + COLUMN_COST * num_columns
        # A row has a separator or a line break per column. Only if that many would not fit, lines are counted.
        num_rows = size // num_columns
        if fixed + per_row * num_rows > memory_limit():
            num_rows = min(num_rows, self._count_lines())
        check_memory(fixed + per_row * num_rows, self.path.name)

    def _count_lines(self) -> int:
        """Return at least as many lines as there are."""
        feeds = returns = 1
        for piece in utf8_pieces(self.path, self.csv_format.encoding):
            feeds, returns = feeds + piece.count(b"\n"), returns + piece.count(b"\r")
        return max(feeds, returns)

    def first_block_size(self, start: TableStart) -> int:
        """Return the size of blocks that hold many rows like the first ones."""
        longest = max((sum(map(len, row)) + len(row) for row in (self.names, *start.rows)), default=0)
        whole = min(self.path.stat().st_size + 1, LARGEST_BLOCK)
        return max(SMALLEST_BLOCK, min(ROWS_PER_BLOCK * longest, whole))

    def read(self, block_size: int) -> pa.Table:
        """Return the columns of the file."""
        import pyarrow as pa
        import pyarrow.csv

        types = {"text": pa.dictionary(pa.int32(), pa.string()), "number": pa.float64()}
        with self._open_utf8() as stream:
            columns = pyarrow.csv.read_csv(
                stream,
                # `skip_rows` would count lines, and a quoted name may have two.
                read_options=pyarrow.csv.ReadOptions(
                    column_names=self.names, skip_rows_after_names=int(self.has_header), block_size=block_size
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: types[kind] for name, kind in zip(self.names, self.kinds, strict=True)},
                    null_values=list(MISSING),
                    strings_can_be_null=False,
                    decimal_point=self.csv_format.decimal,
                ),
            )
        for position, kind in enumerate(self.kinds):
            if kind == "text":
                columns = _unescaped(columns, position)
        return columns

    def _open_utf8(self) -> Any:
        """Return a stream of the file as UTF-8. Arrow would guess a compression from the name of the file."""
        import pyarrow as pa

        if not self.csv_format.is_utf8:
            return io.BufferedReader(Transcoded(self.path, self.csv_format.encoding), PIECE)
        # As bytes, since a name need not be UTF-8.
        return pa.OSFile(os.fsencode(self.path))

    def find_line(self, row: int) -> int:
        """Return the line on which a row ends."""
        line = 1
        for position, (found, _) in enumerate(self._rows()):
            line = found
            if position == row:
                break
        return line

    def explain(self, reason: str) -> InputError:
        """Return the error that names the line and the cell that Arrow could not read."""
        wrong_encoding = find_undecodable(self.path, self.csv_format.encoding)
        if wrong_encoding is not None:
            return wrong_encoding
        line = 0
        for line, cells in self._rows():
            if len(cells) != len(self.names):
                return self._ragged(cells, line)
            for name, kind, cell in zip(self.names, self.kinds, cells, strict=True):
                if kind == "number" and cell not in MISSING and not _is_number(cell, self.csv_format.decimal):
                    return self._not_a_number(cell, name, line)
        if line == 0:
            return InputError(f"Expected rows in {self.path.name}, got only a header.")
        reason = " ".join(reason.split()).rstrip(".")
        return InputError(
            f"Expected a CSV table in {self.path.name}, got one that cannot be read: {_shorten(reason, 200)}."
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row that is not blank."""
        rows = _read_rows(self.path, self.csv_format, self.separator)
        for line, cells in islice(rows, int(self.has_header), None):
            if cells:
                yield line, cells

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


class _Lines:
    """The lines of a text file for `csv.reader`. A row that would take too much memory raises an `InputError`.

    Args:
        file: The file.
        name: Its name, for messages.
        separator: The character between columns.
        most_characters: Number of characters after which the lines end, but not before the end of the first row. If
            None, all lines are read.
    """

    def __init__(self, file: io.TextIOWrapper, name: str, separator: str, most_characters: int | None) -> None:
        self.file, self.name, self.separator = file, name, separator
        self.most_characters = most_characters
        self.num_characters = 0
        self.row_cost = 0
        self.is_first_row = True

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        from tdegnn.files import check_memory, memory_limit

        is_enough = self.most_characters is not None and self.num_characters > self.most_characters
        if is_enough and not self.is_first_row:
            raise StopIteration
        line = self.file.readline(memory_limit() // CHARACTER_COST + 1)
        if not line:
            raise StopIteration
        self.num_characters += len(line)
        self.row_cost += CHARACTER_COST * len(line) + CELL_COST * line.count(self.separator)
        check_memory(self.row_cost, f"a row of {self.name}")
        return line

    def end_row(self) -> None:
        """Count anew from here."""
        self.row_cost, self.is_first_row = 0, False


def _read_rows(
    path: Path, csv_format: CsvFormat, separator: str, most_characters: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of each row, also of the header and of blank ones."""
    # By default, the module refuses cells of more than 128 kB.
    csv.field_size_limit(LARGEST_FIELD)
    try:
        with _open_text(path, csv_format) as file:
            lines = _Lines(file, path.name, separator, most_characters)
            reader = csv.reader(lines, delimiter=separator)
            for cells in reader:
                lines.end_row()
                yield reader.line_num, cells
    except UnicodeError as error:
        raise find_undecodable(path, csv_format.encoding) or other_text(path, csv_format.encoding, error) from error
    except csv.Error as error:
        raise InputError(f"Expected a CSV table in {path.name}, got one that cannot be read: {error}.") from error


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
    try:
        with _open_text(path, csv_format) as file:
            first = [line for line in islice(_Lines(file, path.name, "\n", MOST_PEEKED_CHARACTERS), 5) if line.strip()]
    except UnicodeError as error:
        raise find_undecodable(path, csv_format.encoding) or other_text(path, csv_format.encoding, error) from error
    # Quoted text does not separate columns.
    lines = ["".join(line[:MOST_PEEKED_CHARACTERS].split('"')[::2]) for line in first]
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
            raise InputError(
                f"Expected a CSV or Parquet file, got {path.name}, which is {content}. Save the table as CSV."
            )
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


def _unescaped(columns: pa.Table, position: int) -> pa.Table:
    """Return the table without the apostrophes that `to_csv` put before formulas in a column of text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = columns.column(position).chunks
    if not any(pc.any(pc.starts_with(chunk.dictionary, "'")).as_py() for chunk in chunks):
        return columns
    plain = [
        pa.DictionaryArray.from_arrays(chunk.indices, pc.replace_substring_regex(chunk.dictionary, ESCAPED, r"\1"))
        for chunk in chunks
    ]
    return columns.set_column(position, columns.schema.field(position), pa.chunked_array(plain))


def _open_text(path: Path, csv_format: CsvFormat) -> io.TextIOWrapper:
    # Excel marks UTF-8 by an invisible first character, which does not belong to the first name.
    return path.open(encoding="utf-8-sig" if csv_format.is_utf8 else csv_format.encoding, newline="")


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
