"""Result lines: one JSON object per training, with everything that is needed to repeat it.

Lines are appended to `NAME.jsonl`. `pack_lines` moves them to `NAME.parquet`, which is about twenty times smaller; both
files together are the results of that name, the packed lines first. Each experiment says in a `LineKind` what its lines
hold, so that lines of another experiment are refused, and which entries tell its lines apart, so that two processes do
not write the same line twice.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdegnn.errors import InputError
from tdegnn.files import (
    append_records,
    check_memory,
    explained,
    finite_or_null,
    locked,
    not_a_record,
    read_whole,
    to_json,
    to_json_line,
    write_whole,
)
from tdegnn.runs.run_folder import describe_versions

if TYPE_CHECKING:
    import torch

LINES, PACKED = ".jsonl", ".parquet"
# The only column of a packed file: the JSON text of each line. Columns per entry could not tell null from missing.
COLUMN = "line"
# Bytes of memory per byte of a line, as text and as Python objects.
LINE_COST = 20
WORDS = {object: "anything", str: "text", int: "a whole number", float: "a number", dict: "an object", list: "a list"}


@dataclass(frozen=True)
class LineKind:
    """The lines of one experiment.

    Attributes:
        name: What they are, for messages, as in `Table 1`.
        entries: The entries that are read, and the type of each. Null in place of a number is read as NaN.
        identity: The entries that tell lines apart. No two lines with the same ones are written. If empty, any line is.
    """

    name: str
    entries: Mapping[str, type]
    identity: tuple[str, ...]

    def check(self, line: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return a line that this experiment can read. Otherwise, raise an `InputError` that names the place."""
        for name, kind in self.entries.items():
            found = line.get(name)
            accepted = (int, float, type(None)) if kind is float else kind
            if name not in line or isinstance(found, bool) or not isinstance(found, accepted):
                got = f"{to_json(finite_or_null(found))[:40]} in {name!r}" if name in line else f"none in {name!r}"
                raise InputError(
                    f"Expected result lines of {self.name}, with {WORDS[kind]} in {name!r}, got {got} in {place}. "
                    "Choose another file."
                )
        numbers = {name: float("nan") for name, kind in self.entries.items() if kind is float and line[name] is None}
        return {**line, **numbers}

    def identify(self, line: Mapping[str, Any]) -> str:
        """Return a text that two lines share only if they are of the same training."""
        return to_json(finite_or_null([line.get(name) for name in self.identity]))


ANY_LINES = LineKind("any experiment", {}, ())


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return the versions and the device, for a result line."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"versions": describe_versions(), "device": f"{device.type} ({name})"}


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the lines to `path`, replacing its content, completely or not at all."""
    write_whole(path, b"".join(to_json_line(record) for record in records))


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]], kind: LineKind = ANY_LINES) -> None:
    """Add result lines. Several processes may add to the same file: a line that is already there is left out.

    Args:
        path: The file. Lines of a packed file are added to the `.jsonl` file next to it.
        lines: The lines to add.
        kind: What the lines are.
    """
    append_records(_plain_file(path), _not_yet_in(path, lines, kind))


def _not_yet_in(path: Path, lines: Iterable[Mapping[str, Any]], kind: LineKind) -> Iterator[Mapping[str, Any]]:
    known = {kind.identify(line) for line in read_lines(path, kind)} if kind.identity else set()
    yield from (line for line in lines if not kind.identity or kind.identify(line) not in known)


def read_lines(path: Path, kind: LineKind = ANY_LINES, **asked: Collection[Any]) -> list[dict[str, Any]]:
    """Return result lines, packed ones included; an empty list if there is no file yet.

    An incomplete last line, left by a killed process, is skipped.

    Args:
        path: The `.jsonl` file or the `.parquet` file. Both are read if they exist.
        kind: What the lines must be. Default: anything.
        asked: The values to select per entry, as in `dataset=["cora"]`. Other lines are skipped.
    """
    lines = [kind.check(line, place) for place, line in _read_both(path)]
    return [line for line in lines if all(line.get(name) in values for name, values in asked.items())]


def pack_lines(path: Path) -> Path:
    """Move all lines of a `.jsonl` file to the `.parquet` file next to it, after those that are packed already.

    Returns:
        The packed file.
    """
    import pyarrow
    import pyarrow.parquet

    packed, plain = path.with_suffix(PACKED), _plain_file(path)
    with locked(plain):
        texts = [json.dumps(line) for _, line in _read_both(path)]
        stream = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(
            pyarrow.table({COLUMN: pyarrow.array(texts, pyarrow.string())}),
            stream,
            # One page for all lines: they repeat each other's settings, which compresses best together.
            row_group_size=max(len(texts), 1),
            data_page_size=2**30,
            use_dictionary=False,
            write_statistics=False,
            compression="zstd",
            compression_level=19,
        )
        write_whole(packed, stream.getvalue().to_pybytes())
        with explained(plain):
            plain.unlink(missing_ok=True)
    return packed


def _plain_file(path: Path) -> Path:
    return path.with_suffix(LINES) if path.suffix == PACKED else path


def _read_both(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line of the packed and of the plain file, and where it is, for messages."""
    packed, plain = path.with_suffix(PACKED), _plain_file(path)
    # A process killed after it wrote the packed file leaves its lines in both files.
    seen: set[str] = set()
    for number, line in enumerate(_read_packed(packed), start=1):
        seen.add(json.dumps(line))
        yield f"line {number} of {packed}", line
    for number, line in enumerate(_read_plain(plain), start=1):
        if not seen or json.dumps(line) not in seen:
            yield f"line {number} of {plain}", line


def _read_packed(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    from tdegnn.data.tables.parquet_files import read_parquet

    columns = read_parquet(path)
    if COLUMN not in columns.column_names:
        raise InputError(f"Expected packed result lines in {path}, got no column {COLUMN!r}. Choose another file.")
    column = columns.column(COLUMN)
    check_memory(column.nbytes * LINE_COST, path.name)
    for number, text in enumerate(column.to_pylist(), start=1):
        yield _read_object(text if isinstance(text, str) else None, path, number)


def _read_plain(path: Path) -> Iterator[dict[str, Any]]:
    texts = read_whole(path, LINE_COST).split(b"\n") if path.exists() else []
    for number, text in enumerate(texts, start=1):
        try:
            yield _read_object(text, path, number)
        except InputError:
            # After the last line break there is nothing, or an incomplete line.
            if number < len(texts):
                raise


def _read_object(text: str | bytes | None, path: Path, number: int) -> dict[str, Any]:
    try:
        line = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise not_a_record(path, number)
    return line
