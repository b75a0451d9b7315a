"""Files of the benchmarks: from the cache, from a mirror, or from the address where they were published.

`TDEGNN_CACHE` names the folder for downloads. `TDEGNN_MIRROR` names a folder or an address (http, https, file) with the
same files under the same relative paths; if it is set, no other address is used. `fetch` returns a file only if its
checksum is right. A download is written to a `.part` file, continues where it broke off, and is renamed once its
checksum is right. A lock lets one process at a time download.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from platformdirs import user_cache_dir

from tdegnn.errors import DownloadError, InputError

if TYPE_CHECKING:
    import requests

# Seconds without a connection, and without a byte, after which a download fails.
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
CHUNK_SIZE = 1 << 16


@dataclass(frozen=True)
class DataFile:
    """A file of a benchmark.

    Attributes:
        path: Its path, relative to the cache and to a mirror.
        checksum: `sha256:...`, or `git-blob:...`, the hash that git gives the content.
        address: URL at which it was published. None if only a mirror has it.
    """

    path: str
    checksum: str
    address: str | None

    @property
    def cached(self) -> Path:
        """Its path in the cache, whether it is there or not."""
        return cache_folder() / self.path

    def checksum_of(self, path: Path) -> str:
        """Return the checksum of the content of `path`, of the kind that `checksum` has."""
        is_git = self.checksum.startswith("git-blob:")
        with path.open("rb") as stream:
            if not is_git:
                return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
            header = hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
            return f"git-blob:{hashlib.file_digest(stream, lambda: header).hexdigest()}"

    def is_in(self, path: Path) -> bool:
        """Return whether `path` holds this file, complete and correct."""
        return path.is_file() and self.checksum_of(path) == self.checksum


def cache_folder() -> Path:
    """Return the folder for downloads: `TDEGNN_CACHE`, or the usual cache folder of the system."""
    chosen = os.environ.get("TDEGNN_CACHE")
    return Path(chosen).expanduser() if chosen else Path(user_cache_dir("tdegnn"))


def mirror() -> Path | str | None:
    """Return what `TDEGNN_MIRROR` names: a folder, or an http or https address. None if it is not set."""
    chosen = os.environ.get("TDEGNN_MIRROR")
    if not chosen:
        return None
    parts = urlsplit(chosen)
    if parts.scheme in ("http", "https"):
        return chosen.rstrip("/")
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    if "://" in chosen:
        raise InputError(f"Expected TDEGNN_MIRROR to be a folder or an http, https or file address, got {chosen!r}.")
    return Path(chosen).expanduser()


def locate(file: DataFile) -> Path | None:
    """Return where the file is on this machine, in the cache or a mirror folder. None if it has to be downloaded.

    The checksum is not verified.
    """
    source = mirror()
    places = [file.cached, source / file.path] if isinstance(source, Path) else [file.cached]
    return next((place for place in places if place.is_file()), None)


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
    address = f"{source}/{quote(file.path)}" if source else file.address
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
    from filelock import FileLock

    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"Expected a cache folder that can be written to, got {target.parent} ({error.strerror}). "
            "Set TDEGNN_CACHE to another."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _download(file: DataFile, address: str, target: Path) -> Path:
    import requests

    partial = target.with_name(f"{target.name}.part")
    by_hand = f"Try again, or put the file into {target.parent} by hand."
    with _locked(target):
        if file.is_in(target):
            return target
        try:
            was_resumed = _receive(address, partial)
            if was_resumed and not file.is_in(partial):
                # The first bytes may have been those of another file.
                partial.unlink()
                _receive(address, partial)
        except requests.RequestException as error:
            raise DownloadError(
                f"Expected {file.path} from {address}, got {_reason(error, file, partial)}. {by_hand}"
            ) from error
        got = file.checksum_of(partial)
        if got != file.checksum:
            partial.unlink()
            raise DownloadError(
                f"Expected {file.path} from {address} to have the checksum {file.checksum}, got {got}. {by_hand}"
            )
        partial.replace(target)
    return target


def _receive(address: str, partial: Path) -> bool:
    """Download to `partial`, continuing at its end if the server supports that. Return whether it does."""
    start = partial.stat().st_size if partial.is_file() else 0
    if start:
        with _ask(address, {"Range": f"bytes={start}-"}) as response:
            if _is_rest(response, start):
                _write(response, partial, "ab")
                return True
    with _ask(address, {}) as response:
        response.raise_for_status()
        _write(response, partial, "wb")
    return False


def _ask(address: str, headers: dict[str, str]) -> requests.Response:
    import requests

    # Uncompressed, so that the rest begins at the byte at which the download broke off.
    headers = {"Accept-Encoding": "identity", **headers}
    return requests.get(address, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT))


def _is_rest(response: requests.Response, start: int) -> bool:
    """Return whether the answer is the file from byte `start` to its end."""
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", response.headers.get("Content-Range", ""))
    if response.status_code != 206 or found is None:
        return False
    first, last, total = map(int, found.groups())
    return first == start and last == total - 1


def _write(response: requests.Response, partial: Path, mode: Literal["ab", "wb"]) -> None:
    with partial.open(mode) as stream:
        for chunk in response.iter_content(CHUNK_SIZE):
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())


def _reason(error: requests.RequestException, file: DataFile, partial: Path) -> str:
    """Return what went wrong, as the end of a message after `got`."""
    import requests
    from urllib3.exceptions import ReadTimeoutError

    cause = error.args[0] if error.args else error
    if isinstance(error, requests.HTTPError):
        # The text of such an error is `404 Client Error: Not Found for url: ...`.
        return f"the answer {str(error).partition(' for url')[0]}"
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection in {CONNECT_TIMEOUT:g} s"
    # requests reports a server that stalls in the middle of a file as a failed connection.
    if isinstance(error, requests.ReadTimeout) or isinstance(cause, ReadTimeoutError):
        return f"nothing for {READ_TIMEOUT:g} s from a stalled server"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        size, got = partial.stat().st_size, file.checksum_of(partial)
        return f"a connection that broke with {size} bytes kept (checksum {got} in place of {file.checksum})"
    if isinstance(error, requests.ConnectionError):
        return f"no connection ({str(getattr(cause, 'reason', cause)).rpartition(': ')[2]})"
    return f"the error {error}"
