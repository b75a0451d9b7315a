"""Result lines: one JSON object per training, with everything that is needed to repeat it.

Lines are appended to `NAME.jsonl`. `pack_lines` moves them to `NAME.parquet`, which is about twenty times smaller; both
files together are the results of that name, the packed lines first.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdegnn.errors import InputError
from tdegnn.files import append_records, explained, locked, not_a_record, to_json_line, write_whole
from tdegnn.runs.run_folder import describe_versions

if TYPE_CHECKING:
    import torch

LINES, PACKED = ".jsonl", ".parquet"
# The only column of a packed file: the JSON text of each line. Columns per entry could not tell null from missing.
COLUMN = "line"


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return the versions and the device, for a result line."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"versions": describe_versions(), "device": f"{device.type} ({name})"}


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the lines to `path`, replacing its content, completely or not at all."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, b"".join(to_json_line(record) for record in records))


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add result lines. Several processes may add to the same file.

    Args:
        path: The file. Lines of a packed file are added to the `.jsonl` file next to it.
        lines: The lines to add.
    """
    append_records(_plain_file(path), lines)


def read_lines(path: Path, **asked: Collection[Any]) -> list[dict[str, Any]]:
    """Return result lines, packed ones included; an empty list if there is no file yet.

    An incomplete last line, left by a killed process, is skipped.

    Args:
        path: The `.jsonl` file or the `.parquet` file. Both are read if they exist.
        asked: The values to select per entry, as in `dataset=["cora"]`. Other lines are skipped.
    """
    lines = [*_read_packed(path.with_suffix(PACKED)), *_read_plain(_plain_file(path))]
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
        # A process killed after it wrote the packed file leaves its lines in both files.
        texts = list(dict.fromkeys(json.dumps(line) for line in read_lines(path)))
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


def _read_packed(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    import pyarrow
    import pyarrow.parquet

    try:
        texts = pyarrow.parquet.read_table(path, columns=[COLUMN]).column(COLUMN).to_pylist()
    except (pyarrow.ArrowException, KeyError) as error:
        raise InputError(f"Expected packed result lines in {path}, got {error}. Choose another file.") from error
    for number, text in enumerate(texts, start=1):
        yield _read_object(text, path, number)


def _read_plain(path: Path) -> Iterator[dict[str, Any]]:
    texts = path.read_text("utf-8").split("\n") if path.exists() else []
    for number, text in enumerate(texts, start=1):
        try:
            yield _read_object(text, path, number)
        except InputError:
            # After the last line break there is nothing, or an incomplete line.
            if number < len(texts):
                raise


def _read_object(text: str, path: Path, number: int) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise not_a_record(path, number)
    return line
