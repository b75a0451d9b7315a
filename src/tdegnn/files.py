"""Files, in one way: written completely or not at all, shared under a lock, and read within a limit of memory.

A file is written under a name of its own, flushed to disk and renamed, so a process killed meanwhile leaves the old
file. Lines are appended under a lock, so several processes can share a file, and a line that a killed process left
incomplete is removed before the next one. Tensors and arrays carry their own SHA-256 checksum, which is compared on
reading. Reading never runs code: files are safetensors, JSON, or NumPy without pickles. System errors become an
`InputError` with a message of one line.

A small file can ask for much memory. What an input may take is checked before it is taken: see `check_memory`.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdegnn.errors import Argument, InputError

if TYPE_CHECKING:
    from torch import Tensor

# The most memory that one input may take, unless the user allows more.
USUAL_LIMIT = 4 * 2**30
LIMIT_VARIABLE = "TDEGNN_MEMORY_LIMIT"
UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
# Python takes up to this many bytes for a byte of JSON: `[[],[]]` has a list per three bytes.
JSON_COST = 40
UNFINISHED = ".unfinished"
# Seconds after which an unfinished file belongs to a process that was killed.
LONGEST_WRITE = 3600.0
# The longest piece of a file's name, in characters of up to four bytes, that is repeated in the names of its lock and
# of its unfinished file. Names may have 255 bytes.
LONGEST_NAME = 50
# What Python raises for damaged archives: members that are cut, encrypted (RuntimeError), or of another version of zip.
DAMAGED_ARCHIVES = (OSError, EOFError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)
# What NumPy raises for damaged headers, which are Python: brackets without end, numbers that do not fit.
DAMAGED_HEADERS = (TypeError, SyntaxError, MemoryError, RecursionError, OverflowError, tokenize.TokenError)
RESTORE = "Restore it from a copy or train again."
# Precedes the checksum in a file. The checksum is computed with zeros in its own place.
MARK = b"tdegnn-sha256:"
ZEROS = b"0" * 64

_chosen_limit: int | None = None


class _MemoryLimit(Argument):
    """The limit of memory in a message. It is no argument of the function that raises the error."""

    def __str__(self) -> str:
        return f"tdegnn.set_memory_limit({self.value!r})"


def set_memory_limit(size: str | int | None) -> None:
    """Allow inputs to take this much memory, in this process.

    The limit applies to each input on its own: a table, an array, a graph, a run folder. It keeps a small file that
    someone else made from filling the memory. Without a limit of your own, it is that of the environment variable
    `TDEGNN_MEMORY_LIMIT`, or 4 GB.

    Args:
        size: Text such as `"16GB"` or `"500MB"`, or a number of bytes. If None, the usual limit.
    """
    global _chosen_limit  # noqa: PLW0603
    _chosen_limit = None if size is None else _parse_size(size, "the memory limit")


def memory_limit() -> int:
    """Return the most memory that one input may take, in bytes."""
    if _chosen_limit is not None:
        return _chosen_limit
    given = os.environ.get(LIMIT_VARIABLE)
    return _parse_size(given, LIMIT_VARIABLE) if given else USUAL_LIMIT


def check_memory(num_bytes: float, what: str) -> None:
    """Raise an `InputError` if an input would take more memory than the limit. Called before the memory is taken.

    Args:
        num_bytes: An upper bound of what it takes.
        what: The input, as in `edges.npz`.
    """
    limit = memory_limit()
    if num_bytes > limit:
        # Rounded up to whole gigabytes, so that the advice is enough.
        needed = f"{math.ceil(num_bytes / 2**30):d}GB" if num_bytes < 2**60 else "more"
        raise InputError(
            f"Expected {what} to take at most {show_size(limit)} of memory, got {show_size(num_bytes)}. If it is not "
            "damaged, and this machine has the memory, allow more with ",
            _MemoryLimit("memory_limit", needed),
            ".",
        )


def show_size(num_bytes: float) -> str:
    """Return a number of bytes for a message, such as `4.2 GB`."""
    for unit, size in reversed(UNITS.items()):
        if num_bytes >= size:
            return f"{num_bytes / size:,.3g} {unit}" if num_bytes < 1000 * size else f"{num_bytes / size:,.0f} {unit}"
    return "0 B"


def _parse_size(given: str | int, what: str) -> int:
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(i?B)?\s*", str(given), re.IGNORECASE | re.ASCII)
    size = None if found is None else int(float(found[1]) * UNITS[f"{found[2].upper()}B"])
    if not size:
        raise InputError(f"Expected {what} to be a size such as 16GB or 500MB, got {given!r}. Correct it.")
    return size


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
    """Write the file completely, or leave everything as it was. The folder is created if it does not exist.

    Several processes may write the same file: the last one wins. A link is followed, and a file keeps its permissions.
    """
    with explained(path):
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():  # a pipe or a device, such as /dev/stdout
            target.write_bytes(content)
            return
        _remove_left_over(target)
        # Nobody can guess the name, and nothing of that name may exist: a link there could point anywhere.
        unfinished = _beside(target, f".{secrets.token_hex(8)}{UNFINISHED}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if target.exists() and hasattr(os, "fchmod"):
                    with suppress(PermissionError):  # some file systems have no permissions
                        os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(target)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def _beside(path: Path, ending: str) -> Path:
    """Return the hidden file next to `path` with this ending."""
    return path.with_name(f".{path.name[:LONGEST_NAME]}{ending}")


def _remove_left_over(path: Path) -> None:
    """Remove unfinished files of `path` that killed processes left long ago."""
    start = _beside(path, ".").name
    for entry in os.scandir(path.parent):
        if entry.name.startswith(start) and entry.name.endswith(UNFINISHED):
            with suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > LONGEST_WRITE:
                    Path(entry.path).unlink(missing_ok=True)


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

    Args:
        path: The file.
        records: The records. They are taken under the lock, so that a generator can look at the file first.

    Raises:
        InputError: The file does not end in JSON lines.
    """
    with locked(path), explained(path):
        finish_last_line(path)
        append_whole(path, b"".join(map(to_json_line, records)))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of `path`, and hold it. The folder is created if it does not exist.

    The system releases the lock of a process that is killed.
    """
    from filelock import FileLock

    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_beside(path, ".lock"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def finish_last_line(path: Path) -> None:
    """Complete or remove a last line without a line break. The caller must hold the lock of the file.

    Raises:
        InputError: The file holds something else than JSON lines. It is left alone.
    """
    if ends_in_line_break(path):
        return
    *lines, last = read_whole(path).split(b"\n")
    if _is_record(last):
        append_whole(path, b"\n")
        return
    is_ours = [*map(_is_record, lines), last.startswith(b"{")]  # an incomplete record begins with a brace too
    if not all(is_ours):
        raise not_a_record(path, is_ours.index(False) + 1)
    cut(path, sum(len(line) + 1 for line in lines))


def ends_in_line_break(path: Path) -> bool:
    """Return whether the last line of a file is complete. A file that is empty or does not exist has none."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def not_a_record(path: Path, line_number: int) -> InputError:
    """Return the error for a file of JSON lines in which a line is not a JSON object."""
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
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush a folder
            raise
    finally:
        os.close(descriptor)


def read_whole(path: Path, cost: float = 2.0) -> bytes:
    """Return the content of a file that should exist.

    Args:
        path: The file.
        cost: Bytes of memory that a byte of the file will take.
    """
    try:
        # Not a pipe, which could be endless, nor a device.
        if path.exists() and not path.is_file():
            raise InputError(f"Expected a file, got {path}, which is none. Check the path.")
        check_memory(path.stat().st_size * cost, path.name)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"Expected {path.name} in {path.parent}, got no such file. {RESTORE}") from error
    except OSError as error:
        raise InputError(f"Expected a file that can be read, got {path} ({error.strerror}). Check the path.") from error


def digest_of(value: Any) -> str:
    """Return the SHA-256 of plain values, whatever the order of their keys and the spaces in their file."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


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
    check_memory(len(text) * JSON_COST, source)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected JSON in {source}, got {error}. {RESTORE}") from error
    if not isinstance(value, dict):
        raise InputError(f"Expected a JSON object in {source}, got {type(value).__name__}. {RESTORE}")
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
        del header["checksum"]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path) from error
    return dict(sorted(tensors.items())), header


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any] | None = None) -> None:
    """Write arrays, and plain values in the comment of the archive, as npz."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InputError(f"Expected numbers or text in the array {name!r}, got {array.dtype} objects.")
    stream = io.BytesIO()
    # Not `np.savez`, because an array may have the name of one of its arguments.
    with zipfile.ZipFile(stream, "w") as archive:
        archive.comment = MARK + ZEROS + (to_json(header).encode() if header else b"")
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    write_whole(path, _seal(stream.getvalue()))


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote: arrays by name, and the plain values of the header."""
    content = _read_sealed(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            arrays = {entry.filename.removesuffix(".npy"): _read_array(archive, entry) for entry in archive.infolist()}
            header = json.loads(archive.comment[len(MARK + ZEROS) :] or b"{}")
            return arrays, dict(header)
    except (*DAMAGED_ARCHIVES, *DAMAGED_HEADERS, KeyError) as error:
        raise damaged(path) from error


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array of an archive. It takes no more memory than the archive."""
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError("a compressed entry, which may be of any size")
    stream = io.BytesIO(archive.read(entry))
    is_first_version = np.lib.format.read_magic(stream) == (1, 0)
    read_header = np.lib.format.read_array_header_1_0 if is_first_version else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(stream.getbuffer()) - stream.tell():
        raise ValueError("a shape that does not fit the size")
    stream.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _seal(content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.replace(MARK + ZEROS, MARK + digest, 1)


def _read_sealed(path: Path) -> bytes:
    content = read_whole(path)
    found = re.search(re.escape(MARK) + rb"([0-9a-f]{64})", content)
    if found is None:
        raise damaged(path)
    start, stop = found.span(1)
    unsealed = content[:start] + ZEROS + content[stop:]
    if hashlib.sha256(unsealed).hexdigest().encode() != found.group(1):
        raise damaged(path)
    return content


def damaged(path: Path) -> InputError:
    """Return the error for a file that was changed after it was written."""
    return InputError(
        f"Expected {path} as it was written, got a file that does not match its SHA-256 checksum. {RESTORE}"
    )


def finite_or_null(value: Any) -> Any:
    """Return the value with None in place of infinite numbers and NaN, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {name: finite_or_null(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
