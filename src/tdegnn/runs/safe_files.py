"""Files that are written completely or not at all, and that notice damage.

A file is written under another name, flushed to disk and renamed, so a process killed meanwhile leaves the old file.
Lines are appended under a lock, so several processes can share a file. Tensors and arrays carry their own SHA-256
checksum, which is compared on reading. Reading never runs code: files are safetensors, JSON, or NumPy without pickles.
System errors become an `InputError` with a message of one line.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdegnn.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

UNFINISHED = ".unfinished"
# Precedes the checksum in a file. The checksum is computed with zeros in its own place.
MARK = b"tdegnn-sha256:"
ZEROS = b"0" * 64


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn system errors about writing to `path` into an `InputError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"Expected free disk space for {path}, got none ({reason}). Free some, then start or resume again."
            )
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = f"Expected permission to write {path}, got the error {reason!r}. Choose another folder."
        else:
            message = f"Expected to write {path}, got a system error ({reason}). Choose another folder."
        raise InputError(message) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write the file completely, or leave everything as it was."""
    # Two processes that write the same file must not write into each other's unfinished one.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    with explained(path):
        try:
            with unfinished.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def append_whole(path: Path, line: bytes) -> None:
    """Append the line, or leave the file as it was. A process that is killed meanwhile may leave an incomplete line.

    The caller must be the only writer of the file. See `append_records` for files that several processes share.
    """
    with explained(path):
        is_new = not path.exists()
        # Unbuffered, so that closing the file does not try again to write what a full disk refused.
        with path.open("ab", buffering=0) as stream:
            size = stream.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[stream.write(line) :]
                os.fsync(stream.fileno())
            except BaseException:
                stream.truncate(size)
                raise
        if is_new:
            sync_folder(path.parent)


def append_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append records as JSON lines, all of them or none. Any number of processes may append to the same file.

    A last line without a line break is completed if it is a record, and removed if a killed process left it incomplete.

    Raises:
        InputError: The file does not end in JSON lines.
    """
    content = b"".join(to_json_line(record) for record in records)
    with locked(path):
        _finish_last_line(path)
        append_whole(path, content)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of `path`, and hold it. The folder is created if it does not exist."""
    from filelock import FileLock

    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _finish_last_line(path: Path) -> None:
    """Complete or remove a last line without a line break. A file that holds something else is left alone."""
    *lines, last = read_whole(path).split(b"\n") if path.exists() else [b""]
    if not last:
        return
    if _is_record(last):
        append_whole(path, b"\n")
        return
    is_ours = [*map(_is_record, lines), last.startswith(b"{")]  # an incomplete record begins with a brace too
    if not all(is_ours):
        raise not_a_record(path, is_ours.index(False) + 1)
    cut(path, sum(len(line) + 1 for line in lines))


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def not_a_record(path: Path, line_number: int) -> InputError:
    """Return the error for a file of JSON lines in which a line is not JSON."""
    return InputError(
        f"Expected result lines in {path}, got something else in line {line_number}. Choose another file."
    )


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes of a file."""
    with explained(path), path.open("r+b") as stream:
        stream.truncate(size)
        os.fsync(stream.fileno())


def remove_unfinished(folder: Path) -> None:
    """Remove the incomplete files that a killed process left in `folder`."""
    with explained(folder):
        for path in folder.glob(f".*{UNFINISHED}"):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk: only then is renaming or removing a file permanent."""
    if os.name == "nt":  # Windows cannot open folders, and does not need this
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_whole(path: Path) -> bytes:
    """Return the content of a file that should exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"Expected {path.name} in {path.parent}, got no such file. Restore it from a copy or train again."
        ) from error
    except OSError as error:
        raise InputError(f"Expected a file that can be read, got {path} ({error.strerror}). Check the path.") from error


def to_json(value: Any, *, indent: int | None = None, is_strict: bool = True) -> str:
    """Return the value as JSON text.

    Args:
        value: The value to write.
        indent: Spaces per level. If None, everything is written on one line.
        is_strict: Whether to refuse infinite numbers and NaN, which many programs cannot read. Default: True.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=not is_strict, default=_plain_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected values that JSON can hold, got one that it cannot ({error}).") from error


def to_json_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as one line of JSON, with null for numbers that are not finite."""
    return f"{to_json(finite_or_null(record))}\n".encode()


def _plain_number(value: Any) -> Any:
    """Return a NumPy number as a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def from_json(text: bytes | str, source: str) -> dict[str, Any]:
    """Return the JSON object in `text`. Errors call the text `source`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected JSON in {source}, got {error}. Restore it from a copy or train again.") from error
    if not isinstance(value, dict):
        raise InputError(
            f"Expected a JSON object in {source}, got {type(value).__name__}. Restore it from a copy or train again."
        )
    return value


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None) -> None:
    """Write tensors, and plain values in the header, as safetensors."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save

    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            raise InputError(f"Expected dense tensors, got {name!r} as {tensor.layout}. Make it dense.")
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    # One entry of metadata: safetensors writes several in no fixed order, and equal trainings must give equal files.
    text = to_json({"checksum": (MARK + ZEROS).decode(), **(header or {})}, is_strict=False)
    try:
        content = save(copies, {"tdegnn": text})
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"Expected tensors that safetensors can store, got one that it cannot ({error}).") from error
    write_whole(path, _seal(content))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote: tensors by name, and the plain values of the header."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = _read_sealed(path)
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["tdegnn"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    del header["checksum"]
    return dict(sorted(tensors.items())), header


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as npz."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InputError(f"Expected numbers or text in the array {name!r}, got {array.dtype} objects.")
    stream = io.BytesIO()
    # Not `np.savez`, because an array may have the name of one of its arguments.
    with zipfile.ZipFile(stream, "w") as archive:
        archive.comment = MARK + ZEROS
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    write_whole(path, _seal(stream.getvalue()))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what `write_arrays` wrote."""
    content = _read_sealed(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise _damaged(path) from error


def _seal(content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.replace(MARK + ZEROS, MARK + digest, 1)


def _read_sealed(path: Path) -> bytes:
    content = read_whole(path)
    found = re.search(re.escape(MARK) + rb"([0-9a-f]{64})", content)
    if found is None:
        raise _damaged(path)
    start, stop = found.span(1)
    unsealed = content[:start] + ZEROS + content[stop:]
    if hashlib.sha256(unsealed).hexdigest().encode() != found.group(1):
        raise _damaged(path)
    return content


def _damaged(path: Path) -> InputError:
    return InputError(
        f"Expected {path} as it was written, got a file that does not match its SHA-256 checksum. "
        "Restore it from a copy or train again."
    )


def finite_or_null(value: Any) -> Any:
    """Return the value with None in place of infinite numbers and NaN, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {name: finite_or_null(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
