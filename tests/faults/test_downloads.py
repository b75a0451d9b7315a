"""Downloads from servers that are hostile, and into caches that others can write to."""

import gc
import gzip
import hashlib
import os
import stat

import pytest

from tdegnn import InputError
from tdegnn.data.benchmarks import download
from tdegnn.data.benchmarks.catalogue import data_file
from tdegnn.data.benchmarks.fetch import DataFile, fetch
from tdegnn.errors import DownloadError
from tests.faults.raw_server import serving_raw

PATH = "folder/numbers.bin"
CONTENT = bytes(range(256)) * 68
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT
# A client may have this much in its buffers beyond the first byte too many.
IN_FLIGHT = 32 * 2**20


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TDEGNN_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "cache/folder").mkdir(parents=True)
    return tmp_path / "cache"


def kept(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def file_at(server):
    return DataFile(PATH, SHA256, f"{server.address}/{PATH}", len(CONTENT))


def endless(head):
    def answer(_, send):
        send(head)
        while True:
            send(bytes(2**20))

    return answer


@pytest.mark.parametrize("length", [b"", b"Content-Length: %d\r\n" % 10**15], ids=["endless", "declared"])
def test_a_download_ends_at_the_first_byte_too_many(cache, length):
    with serving_raw(endless(HEAD + length + b"\r\n")) as server:
        with pytest.raises(DownloadError, match="got more than 17,408 bytes, which is the size of the file. Try again"):
            fetch(file_at(server))
        assert server.num_sent < IN_FLIGHT
    assert kept(cache) == []


def test_an_endless_chunk_ends_at_the_first_byte_too_many(cache):
    with serving_raw(endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFF\r\n")) as server:
        with pytest.raises(DownloadError, match="got more than 17,408 bytes"):
            fetch(file_at(server))
        assert server.num_sent < IN_FLIGHT


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",  # the number of bytes in a chunk never ends
        HEAD + b"X: ",
        b"HTTP/1.1 200 ",
    ],
    ids=["chunk size", "header", "status"],
)
def test_an_endless_line_is_not_read_to_its_end(cache, head):
    def answer(_, send):
        send(head)
        while True:
            send(b"1" * 2**16)

    with serving_raw(answer) as server:
        with pytest.raises(DownloadError, match="Expected folder/numbers.bin from http"):
            fetch(file_at(server))
        assert server.num_sent < IN_FLIGHT
    assert kept(cache) == []


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"x-unknown"])
def test_a_compressed_answer_is_refused(cache, encoding):
    body = gzip.compress(bytes(10**6)) if b"gzip" in encoding else CONTENT
    answer = HEAD + b"Content-Encoding: " + encoding + b"\r\n\r\n" + body
    with (
        serving_raw(lambda _, send: send(answer)) as server,
        pytest.raises(DownloadError, match=f"got an answer with the encoding '{encoding.decode()}'"),
    ):
        fetch(file_at(server))
    assert kept(cache) == []


def redirect(target, code=302):
    return f"HTTP/1.1 {code} Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_redirect_to_the_file_is_followed(cache):
    def answer(path, send):
        send(WHOLE if path == "/there" else redirect("/there"))

    with serving_raw(answer) as server:
        assert fetch(file_at(server)).read_bytes() == CONTENT


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/a", "http://[", "", "//[::", "gopher://a"])
def test_a_redirect_that_leaves_http_is_refused(cache, target):
    with (
        serving_raw(lambda _, send: send(redirect(target))) as server,
        pytest.raises(DownloadError, match=r"got (a redirect to|the error)"),
    ):
        fetch(file_at(server))
    assert kept(cache) == []


def test_a_redirect_from_https_to_http_is_refused():
    with pytest.raises(download.FailedDownloadError, match="a redirect to 'http://b/', which is not followed"):
        download._follow("https://a/", "http://b/")


def test_redirects_are_counted_and_their_answers_not_read(cache):
    def answer(_, send):
        send(b"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n")
        while True:
            send(bytes(2**20))

    with serving_raw(answer) as server:
        with pytest.raises(DownloadError, match="got more than 5 redirects"):
            fetch(file_at(server))
        assert server.num_sent < 6 * IN_FLIGHT
        assert len(server.asked) == 6


@pytest.mark.slow
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(cache, monkeypatch):
    monkeypatch.setattr(download, "SECONDS_TO_START", 0.3)
    monkeypatch.setattr(download, "SLOWEST_RATE", 1e6)

    def answer(_, send):
        send(WHOLE[: -len(CONTENT)])
        for number in CONTENT:
            send(bytes([number]))
            server.is_closing.wait(0.02)

    with (
        serving_raw(answer) as server,
        pytest.raises(DownloadError, match="got a server that is slower than 1,000,000 bytes per second"),
    ):
        fetch(file_at(server))
    assert kept(cache) == ["numbers.bin.part"]
    assert CONTENT.startswith((cache / f"{PATH}.part").read_bytes())
    with serving_raw(lambda _, send: send(WHOLE)) as server:
        assert fetch(file_at(server)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00" * 1000,
        b"HTTP/1.1 999 \x1b[31mred\r\n\r\n",
        b"HTTP/1.1 404 " + b"x" * 60_000 + b"\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 6000 + b"\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5, 6\r\n\r\nabcdef",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        HEAD + b"x\r\n" * 500 + b"\r\n",
        HEAD + b"a: b\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 302 \r\nLocation: http://\xff\xfe/\r\n\r\n",
        b"HTTP/1.1 302 \r\nLocation: http://a..b/\r\n\r\n",
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/2\r\n\r\nab",
    ],
    ids=range(15),
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_answer_that_is_no_http_is_said_in_one_short_line(cache, answer):
    with (
        serving_raw(lambda _, send: send(answer)) as server,
        pytest.raises(DownloadError, match="Try again, or put the file into") as caught,
    ):
        fetch(file_at(server))
    assert len(str(caught.value)) < 600 + len(str(cache))
    assert str(caught.value).isprintable()
    assert kept(cache) in ([], ["numbers.bin.part"])
    # urllib3 leaves the socket of a malformed answer to the garbage collector, which would report it in another test.
    del caught
    gc.collect()


def whole_server():
    return serving_raw(lambda _, send: send(WHOLE))


def symbolic(path, victim):
    path.symlink_to(victim)


def hard(path, victim):
    os.link(victim, path)


@pytest.mark.parametrize("link", [symbolic, hard])
@pytest.mark.parametrize("ending", [".part", ""])
def test_a_link_in_the_cache_does_not_overwrite_its_target(cache, tmp_path, link, ending):
    victim = tmp_path / "precious.txt"
    victim.write_text("precious")
    link(cache / f"{PATH}{ending}", victim)
    with whole_server() as server:
        assert fetch(file_at(server)).read_bytes() == CONTENT
    assert victim.read_text() == "precious"
    assert not (cache / PATH).is_symlink()
    assert kept(cache) == ["numbers.bin"]


def test_a_link_in_place_of_the_lock_does_not_overwrite_its_target(cache, tmp_path):
    victim = tmp_path / "precious.txt"
    victim.write_text("precious")
    (cache / "folder/.numbers.bin.lock").symlink_to(victim)
    with whole_server() as server, pytest.raises(InputError, match="Expected to write .*TDEGNN_CACHE names"):
        fetch(file_at(server))
    assert victim.read_text() == "precious"


def test_a_pipe_or_socket_in_place_of_the_part_is_not_waited_for(cache):
    part = cache / f"{PATH}.part"
    os.mkfifo(part)
    with whole_server() as server:
        assert fetch(file_at(server)).read_bytes() == CONTENT
        (cache / PATH).unlink()
        # Made without binding it: a bound socket's path may have about 100 characters.
        os.mknod(part, stat.S_IFSOCK | 0o600)
        assert fetch(file_at(server)).read_bytes() == CONTENT


@pytest.mark.parametrize("ending", [".part", ""])
def test_a_folder_in_place_of_a_file_is_refused(cache, ending):
    (cache / f"{PATH}{ending}/inner").mkdir(parents=True)
    with whole_server() as server, pytest.raises(InputError, match="numbers.bin"):
        fetch(file_at(server))
    assert (cache / f"{PATH}{ending}/inner").is_dir()


def test_a_disk_without_room_is_said_before_a_byte_is_written(cache, monkeypatch):
    monkeypatch.setattr(download, "_free_bytes", lambda _: 100)
    with whole_server() as server, pytest.raises(DownloadError, match="a disk with only 100 bytes free for its 17,408"):
        fetch(file_at(server))
    assert kept(cache) == []


@pytest.mark.parametrize(
    "address",
    [
        *("http://[", "https://", "http:///path", "http://host:port/", "http://host:99999/", "http://a b/", "file://"),
        *("file://host/folder", "http://a\tb", "http://h/?query", "http://h/#part", "http://\udce9/", "ftp://host"),
        *("https://[::1", "http://]", "file://h:1/", "HTTP://", "://", "http://:80", "http://user@:80"),
        *("http:/u:secret@h", " http://u:secret@h", "http://u:sec/ret@h", "ftp://u:secret@h", "http://h/?token=secret"),
    ],
)
def test_a_malformed_mirror_is_refused_in_a_line(cache, monkeypatch, address):
    monkeypatch.setenv("TDEGNN_MIRROR", address)
    with pytest.raises(InputError, match="Expected TDEGNN_MIRROR to be") as caught:
        fetch(data_file("temporal/pedalme_london.json"))
    assert not isinstance(caught.value, DownloadError)


@pytest.mark.parametrize(
    "folder", ["~nosuchuser/folder", "a" * 300, "no\udce9such", "C:\\folder", "file:///no", "a//:b"]
)
def test_a_mirror_folder_of_any_name_is_looked_into(cache, monkeypatch, folder):
    monkeypatch.setenv("TDEGNN_MIRROR", folder)
    with pytest.raises((DownloadError, OSError), match="got no file|File name too long"):
        fetch(data_file("temporal/pedalme_london.json"))


def test_a_password_in_an_address_is_not_printed(cache, monkeypatch):
    with serving_raw(lambda _, send: send(b"HTTP/1.1 404 \r\n\r\n")) as server:
        monkeypatch.setenv("TDEGNN_MIRROR", server.address.replace("//", "//user:secret@"))
        with pytest.raises(DownloadError, match="from http://127.0.0.1:") as caught:
            fetch(data_file("temporal/pedalme_london.json"))
    assert "secret" not in str(caught.value)
