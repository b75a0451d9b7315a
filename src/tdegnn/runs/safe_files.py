"""Files that are whole or not there, and that notice damage.

A file is written beside its place, flushed to the disk and renamed: a kill meanwhile leaves what was there before.
Tensors and arrays carry their own SHA-256 inside, so that content and checksum cannot be of two different moments;
reading looks at it first. Nothing that is read can run code: safetensors, JSON, and NumPy without pickles.
Problems of the disk become an `InputError` of one line.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from tdegnn.errors import InputError
import math
from collections.abc import Mapping


UNFINISHED = ".unfinished"
# Where a file keeps its checksum; the checksum is that of the file with zeros in its place.
MARK = b"tdegnn-sha256:"
ZEROS = b"0" * 64


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system says about writing to `path` into an `InputError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"Expected room on the disk for {path}, got none ({reason}). Free some, then start or resume again."
            )
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = f"Expected to be allowed to write {path}, got the answer {reason!r}. Choose another folder."
        else:
            message = f"Expected to write {path}, got an error of the system ({reason}). Choose another folder."
        raise InputError(message) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write the file, or leave everything as it was."""
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
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
    """Append the line, or leave the file as it was. A process killed meanwhile may leave a line without its end."""
    with explained(path):
        is_new = not path.exists()
        # Unbuffered: what a full disk did not take must not be tried again when the file is closed.
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


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes of a file."""
    with explained(path), path.open("r+b") as stream:
        stream.truncate(size)
        os.fsync(stream.fileno())


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left beside the files of `folder`."""
    with explained(folder):
        for path in folder.glob(f".*{UNFINISHED}"):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder: a renamed or removed file is so only after that."""
    if os.name == "nt":  # it cannot open folders, and needs no such call
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_whole(path: Path) -> bytes:
    """The content of a file that should be there."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"Expected {path.name} in {path.parent}, got no such file. Restore it from a copy or train again."
        ) from error
    except OSError as error:
        raise InputError(f"Expected a file that can be read, got {path} ({error.strerror}). Check the path.") from error


def to_json(value: Any, *, indent: int | None = None, is_strict: bool = True) -> str:
    """The value as JSON text.

    Args:
        value: What to write.
        indent: Spaces a level, for people; None for one line.
        is_strict: Refuse infinite numbers and NaN, which Python reads and others do not.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=not is_strict, default=_plain_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected values that JSON can say, got one it cannot ({error}).") from error


def _plain_number(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def from_json(text: bytes | str, source: str) -> dict[str, Any]:
    """The JSON object in `text`; errors call it `source`."""
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
    """Write tensors, and plain values beside them, as safetensors."""
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            raise InputError(f"Expected dense tensors, got {name!r} as {tensor.layout}. Make it dense.")
    # Copies: safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in no fixed order, and the same training should give the same file.
    text = to_json({"checksum": (MARK + ZEROS).decode(), **(header or {})}, is_strict=False)
    try:
        content = save(copies, {"tdegnn": text})
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"Expected tensors that safetensors can store, got one it cannot ({error}).") from error
    write_whole(path, _seal(content))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote: tensors by name, and the plain values."""
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
    # Not `np.savez`: it has arguments of its own, which an array may be named like.
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
    """The value with every number that JSON cannot say (infinite, not a number) as null."""
    if isinstance(value, Mapping):
        return {name: finite_or_null(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
