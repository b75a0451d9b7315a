"""Files of the benchmarks: from the cache, from a mirror, or from the address where they were published.

`TDEGNN_CACHE` names the folder for downloads. `TDEGNN_MIRROR` names a folder or an address (http, https, file) with the
same files under the same relative paths; if it is set, no other address is used. `fetch` returns a file only if its
checksum is right. A download is written to a `.part` file, continues where it broke off, and is renamed once its
checksum is right. A lock lets one process at a time download. `download.py` sends the requests. `announce` logs what
will be downloaded, which the command line prints.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from platformdirs import user_cache_dir

from tdegnn.data.benchmarks.download import FailedDownloadError, open_incomplete, receive
from tdegnn.errors import DownloadError, InputError

LOG = logging.getLogger("tdegnn")


@dataclass(frozen=True)
class DataFile:
    """A file of a benchmark.

    Attributes:
        path: Its path, relative to the cache and to a mirror.
        checksum: `sha256:...`, or `git-blob:...`, the hash that git gives the content.
        address: URL at which it was published. None if only a mirror has it.
        most_bytes: Its size, or a bound if the size is not known. A download ends at the first byte beyond.
    """

    path: str
    checksum: str
    address: str | None
    most_bytes: int

    @property
    def cached(self) -> Path:
        """Its path in the cache, whether it is there or not."""
        return cache_folder() / self.path

    def checksum_of(self, path: Path) -> str:
        """Return the checksum of the content of `path`, of the kind that `checksum` has."""
        with path.open("rb") as stream:
            return self.checksum_of_stream(stream)

    def checksum_of_stream(self, stream: BufferedIOBase) -> str:
        """Return the checksum of an open file, of the kind that `checksum` has."""
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        if not self.checksum.startswith("git-blob:"):
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        header = hashlib.sha1(f"blob {size}\0".encode())
        return f"git-blob:{hashlib.file_digest(stream, lambda: header).hexdigest()}"

    def is_in(self, path: Path) -> bool:
        """Return whether `path` holds this file, complete and correct."""
        return path.is_file() and path.stat().st_size <= self.most_bytes and self.checksum_of(path) == self.checksum


def cache_folder() -> Path:
    """Return the folder for downloads: `TDEGNN_CACHE`, or the usual cache folder of the system."""
    chosen = os.environ.get("TDEGNN_CACHE")
    return _as_folder(chosen) if chosen else Path(user_cache_dir("tdegnn"))


def mirror() -> Path | str | None:
    """Return what `TDEGNN_MIRROR` names: a folder, or an http or https address. None if it is not set."""
    chosen = os.environ.get("TDEGNN_MIRROR")
    if not chosen:
        return None
    # A scheme has at least two letters: one is a drive of Windows.
    if "://" not in chosen and not re.match(r"\s*[a-z][a-z0-9+.-]+:", chosen, re.IGNORECASE):
        return _as_folder(chosen)
    scheme, _, rest = chosen.partition(":")
    scheme = scheme.strip().lower()
    if scheme not in ("http", "https", "file"):
        raise InputError(
            "Expected TDEGNN_MIRROR to be a folder or an http, https or file address, got an address that begins with "
            f"{scheme[:20]!r}. Correct it."
        )
    example = "file:///folder" if scheme == "file" else f"{scheme}://example.org/folder"
    malformed = InputError(
        f"Expected TDEGNN_MIRROR to be an address such as {example}, got something else, which is not repeated here "
        "because it may hold a password. Correct it."
    )
    try:
        parts = urlsplit(chosen)
        host, has_port = parts.hostname, parts.port is not None
        chosen.encode()
    except ValueError as error:
        raise malformed from error
    if not rest.startswith("//"):
        raise malformed
    is_plain = chosen.isprintable() and " " not in chosen and not parts.query and not parts.fragment
    if scheme == "file":
        # The system has no files of other hosts.
        if host not in (None, "", "localhost") or has_port or not parts.path:
            raise malformed
        return Path(url2pathname(parts.path))
    if not host or not is_plain:
        raise malformed
    return chosen.rstrip("/")


def _as_folder(chosen: str) -> Path:
    # Not `Path.expanduser`, which raises an error for the home of an unknown user.
    return Path(os.path.expanduser(chosen))  # noqa: PTH111


def without_password(address: str) -> str:
    """Return an address as it may be shown."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def locate(file: DataFile) -> Path | None:
    """Return where the file is on this machine, in the cache or a mirror folder. None if it has to be downloaded.

    The checksum is not verified.
    """
    source = mirror()
    places = [file.cached, source / file.path] if isinstance(source, Path) else [file.cached]
    return next((place for place in places if place.is_file()), None)


def announce(name: str, files: Sequence[DataFile]) -> None:
    """Log which of some files `fetch` will download, if any. Call it before the first of them.

    Args:
        name: What they are.
        files: The files.
    """
    missing = [(file, address) for file in files if locate(file) is None and (address := _address_of(file)) is not None]
    if missing:
        count = "1 file" if len(missing) == 1 else f"{len(missing)} files"
        megabytes = sum(file.most_bytes for file, _ in missing) / 1e6
        size = "less than 1 MB" if megabytes < 1 else f"up to {megabytes:.0f} MB"
        host = urlsplit(missing[0][1]).hostname
        LOG.info("Downloading %s: %s, %s, from %s to %s.", name, count, size, host, cache_folder())


def _address_of(file: DataFile) -> str | None:
    """Return where to download a file from. None if it is not downloaded: it is in a mirror folder, or nowhere."""
    source = mirror()
    if isinstance(source, Path):
        return None
    return f"{source}/{quote(file.path)}" if source else file.address


def fetch(file: DataFile) -> Path:
    """Return the path of the file, whose checksum is right. Download it into the cache if needed.

    A wrong file in the cache is removed and downloaded again. A mirror folder is read in place and never written to.
    """
    target = file.cached
    if file.is_in(target):
        return target
    if target.is_file():
        with _locked(target):
            # Another process may have downloaded the right one meanwhile.
            if not file.is_in(target):
                target.unlink(missing_ok=True)
    source = mirror()
    if isinstance(source, Path):
        return _use_in_place(file, source / file.path)
    address = _address_of(file)
    if address is None:
        raise DownloadError(
            f"Expected {file.path} in {target.parent}, got no such file, and it has no public address. "
            "Put it there, or set TDEGNN_MIRROR to a folder or an address that has it."
        )
    return _download(file, address, target)


def _use_in_place(file: DataFile, path: Path) -> Path:
    if not path.is_file():
        raise DownloadError(
            f"Expected {file.path} in the mirror, got no file {path}. "
            f"Put it there or into {file.cached.parent}, or unset TDEGNN_MIRROR."
        )
    got = file.checksum_of(path)
    if got != file.checksum:
        raise InputError(f"Expected {path} to have the checksum {file.checksum}, got {got}. Replace it in the mirror.")
    return path


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    # Here, because it imports NumPy: the list of benchmarks does not need it.
    from tdegnn.files import locked

    with ExitStack() as held:
        try:
            held.enter_context(locked(target))
        except InputError as error:
            raise InputError(error.message, " TDEGNN_CACHE names the folder of downloads.") from error
        yield


def _download(file: DataFile, address: str, target: Path) -> Path:
    from tdegnn.files import explained, sync_folder

    incomplete = target.with_name(f"{target.name}.part")
    with _locked(target), explained(target):
        if file.is_in(target):
            return target
        with open_incomplete(incomplete) as stream:
            try:
                got = _receive(file, address, stream)
            except FailedDownloadError as error:
                raise _failed(file, address, f", got {error}.") from error
            if got != file.checksum:
                stream.truncate(0)
                raise _failed(file, address, f" to have the checksum {file.checksum}, got {got}.")
        incomplete.replace(target)
        sync_folder(target.parent)
    return target


def _receive(file: DataFile, address: str, stream: BufferedIOBase) -> str:
    """Complete a download that may have begun earlier. Return the checksum of what is there now."""
    # Complete already if a process was killed before it could rename the file.
    if (got := file.checksum_of_stream(stream)) == file.checksum:
        return got
    try:
        was_continued = receive(address, stream, file.most_bytes)
        got = file.checksum_of_stream(stream)
        if was_continued and got != file.checksum:
            # The first bytes may have been those of another file.
            stream.truncate(0)
            receive(address, stream, file.most_bytes)
            got = file.checksum_of_stream(stream)
    except FailedDownloadError as error:
        if error.is_wrong_file:
            stream.truncate(0)
        raise
    return got


def _failed(file: DataFile, address: str, what: str) -> DownloadError:
    return DownloadError(
        f"Expected {file.path} from {without_password(address)}{what} "
        f"Try again, or put the file into {file.cached.parent} by hand."
    )
