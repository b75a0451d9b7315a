"""Receive one file over HTTP from a server that may be slow, broken or hostile, and write it where nobody interferes.

The size of a file is known before it is asked for: the first byte too many ends the download. So does an answer that is
compressed, which could unpack to any size, a redirect that leaves HTTP, and a server that is slower than
`SLOWEST_RATE`. The file is written to an incomplete file beside its place, which is never a link.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from io import BufferedIOBase
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from tdegnn.errors import InputError, shorten

if TYPE_CHECKING:
    import requests

# Seconds without a connection, and without a byte, after which a download fails.
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
# All in all, a download may take this many seconds, and as long as its bytes take at the slowest rate, in bytes per
# second. The next try continues where this one ended.
SECONDS_TO_START = 60.0
SLOWEST_RATE = 4096.0
CHUNK_SIZE = 1 << 16
MOST_REDIRECTS = 5
REDIRECTS = {301, 302, 303, 307, 308}


class FailedDownloadError(Exception):
    """A download that did not succeed. Its text is the end of a message, after `got`.

    Args:
        reason: What went wrong.
        is_wrong_file: Whether the server sent something else, of which nothing is worth keeping.
    """

    def __init__(self, reason: str, *, is_wrong_file: bool = False) -> None:
        super().__init__(reason)
        self.is_wrong_file = is_wrong_file


@contextmanager
def open_incomplete(path: Path) -> Iterator[BufferedIOBase]:
    """Open the incomplete file of a download for reading and writing. It is created if it does not exist.

    Others may be able to write to the folder. A link, a file with a second name or a file of another user is removed
    instead of opened: what is written would end up elsewhere. A file that stays empty is removed.
    """
    if os.path.lexists(path) and not _is_own(path.lstat()):
        path.unlink()
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags, 0o666), "r+b") as stream:
        if not _is_own(os.fstat(stream.fileno())):
            raise InputError(f"Expected {path} to be an incomplete download, got another file. Remove it.")
        try:
            yield stream
        finally:
            stream.flush()
            if os.fstat(stream.fileno()).st_size == 0:
                path.unlink(missing_ok=True)


def _is_own(found: os.stat_result) -> bool:
    """Return whether it is a file of this user, with one name."""
    is_ours = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and is_ours


def receive(address: str, stream: BufferedIOBase, most_bytes: int) -> bool:
    """Download to `stream`, continuing at its end if the server supports that. Return whether it does.

    Args:
        address: An http or https address.
        stream: An incomplete file, or an empty one.
        most_bytes: The size of the file, or a bound.

    Raises:
        FailedDownloadError: The server did not send such a file.
    """
    deadline = monotonic() + SECONDS_TO_START + most_bytes / SLOWEST_RATE
    start = stream.seek(0, os.SEEK_END)
    with _errors_explained(stream):
        if 0 < start < most_bytes:
            with closing(_ask(address, {"Range": f"bytes={start}-"}, deadline)) as response:
                if is_rest(response, start):
                    _write(response, stream, most_bytes, deadline)
                    return True
        stream.truncate(stream.seek(0))
        with closing(_ask(address, {}, deadline)) as response:
            if response.status_code != HTTPStatus.OK:
                raise FailedDownloadError(f"the answer {_describe_status(response.status_code)}")
            _write(response, stream, most_bytes, deadline)
    return False


def _ask(address: str, headers: dict[str, str], deadline: float) -> requests.Response:
    """Return the answer to a request, after redirects."""
    for _ in range(MOST_REDIRECTS + 1):
        response = _send(address, headers)
        try:
            _check_time(deadline)
        except FailedDownloadError:
            response.close()
            raise
        if response.status_code not in REDIRECTS:
            return response
        response.close()
        address = _follow(address, response.headers.get("Location", ""))
    raise FailedDownloadError(f"more than {MOST_REDIRECTS} redirects")


def _send(address: str, headers: dict[str, str]) -> requests.Response:
    """Return the answer to one request, of which only the headers were read."""
    import requests

    # Uncompressed, so that the rest begins at the byte at which the download broke off.
    headers = {"Accept-Encoding": "identity", **headers}
    with requests.Session() as session:
        request = session.prepare_request(requests.Request("GET", address, headers=headers))
        url = str(request.url)
        settings = session.merge_environment_settings(url, {}, True, None, None)
        # Not `session.send`, which reads the whole answer if it is a redirect, however long, also if none is followed.
        return session.get_adapter(url).send(request, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT), **settings)


def _follow(address: str, target: str) -> str:
    """Return the address that a redirect leads to."""
    refused = FailedDownloadError(f"a redirect to {target[:100]!r}, which is not followed")
    try:
        next_address = urljoin(address, target)
        schemes = urlsplit(address).scheme, urlsplit(next_address).scheme
    except ValueError as error:
        raise refused from error
    if not target or schemes not in {("http", "http"), ("http", "https"), ("https", "https")}:
        raise refused
    return next_address


def is_rest(response: requests.Response, start: int) -> bool:
    """Return whether the answer is the file from byte `start` to its end."""
    # At most 18 digits: Python refuses to read thousands of them.
    found = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", response.headers.get("Content-Range", ""))
    if response.status_code != HTTPStatus.PARTIAL_CONTENT or found is None:
        return False
    first, last, total = map(int, found.groups())
    return first == start and last == total - 1


def _write(response: requests.Response, stream: BufferedIOBase, most_bytes: int, deadline: float) -> None:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise FailedDownloadError(f"an answer with the encoding {encoding[:40]!r}, which was not asked for")
    declared = response.raw.length_remaining or 0
    too_long = FailedDownloadError(f"more than {most_bytes:,} bytes, which is the size of the file", is_wrong_file=True)
    size = stream.tell()
    if size + declared > most_bytes:
        raise too_long
    free = _free_bytes(stream)
    if free < declared:
        raise FailedDownloadError(f"a disk with only {free:,} bytes free for its {declared:,} bytes")
    # As it arrives: bytes are neither waited for nor unpacked.
    while chunk := response.raw.read1(CHUNK_SIZE, decode_content=False):
        size += len(chunk)
        if size > most_bytes:
            raise too_long
        stream.write(chunk)
        _check_time(deadline)
    stream.flush()
    os.fsync(stream.fileno())


def _free_bytes(stream: BufferedIOBase) -> int:
    """Return how much more fits on the disk of a file, where the system says so."""
    if not hasattr(os, "fstatvfs"):
        return sys.maxsize
    disk = os.fstatvfs(stream.fileno())
    return disk.f_bavail * disk.f_frsize


def _check_time(deadline: float) -> None:
    if monotonic() > deadline:
        raise FailedDownloadError(f"a server that is slower than {SLOWEST_RATE:,.0f} bytes per second")


@contextmanager
def _errors_explained(stream: BufferedIOBase) -> Iterator[None]:
    """Turn errors of the connection into a `FailedDownloadError`."""
    import requests
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    try:
        yield
    except (requests.RequestException, HTTPError) as error:
        cause = error.args[0] if error.args else error
        if isinstance(error, requests.ConnectTimeout):
            reason = f"no connection in {CONNECT_TIMEOUT:g} s"
        elif isinstance(error, requests.ReadTimeout | ReadTimeoutError) or isinstance(cause, ReadTimeoutError):
            reason = f"nothing for {READ_TIMEOUT:g} s from a stalled server"
        elif isinstance(error, HTTPError):
            reason = f"a connection that broke after {stream.tell():,} bytes, which are kept"
        elif isinstance(error, requests.ConnectionError):
            reason = f"no connection ({_clean(str(getattr(cause, 'reason', cause)).rpartition(': ')[2])})"
        else:
            reason = f"the error {_clean(str(error))}"
        raise FailedDownloadError(reason) from error
    except UnicodeError as error:
        # What requests does not convert: a name of a host that cannot be written in a request.
        raise FailedDownloadError(f"the error {_clean(str(error))}") from error


def _describe_status(code: int) -> str:
    """Return a status with its usual name. A server may call it anything."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _clean(text: str) -> str:
    """Return text that a server may have chosen, on one line, without control characters, and not too long."""
    return shorten("".join(letter if letter.isprintable() else " " for letter in text))
