import hashlib
import os
import socket
import subprocess
import sys

import pytest

from tdegnn import InputError
from tdegnn.data.benchmarks import download
from tdegnn.data.benchmarks.fetch import DataFile, cache_folder, fetch, locate
from tdegnn.errors import DownloadError

PATH = "folder/numbers.bin"
CONTENT = bytes(range(256)) * 1000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def file(server, files):
    files[PATH] = CONTENT
    return DataFile(PATH, SHA256, f"{server.address}/{PATH}", len(CONTENT))


def kept(cache):
    """Return the files in the cache, except locks."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def leave_part(cache, content):
    part = cache / f"{PATH}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    return part


def test_a_download_is_kept_and_not_asked_for_again(file, server, cache):
    assert locate(file) is None
    path = fetch(file)
    assert path == locate(file) == cache / PATH
    assert path.read_bytes() == CONTENT
    assert fetch(file) == path
    assert len(server.asked) == 1
    assert kept(cache) == ["numbers.bin"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("corrupt", f"to have the checksum {SHA256}, got sha256:[0-9a-f]{{64}}"),
        ("cut", f"to have the checksum {SHA256}, got sha256:[0-9a-f]{{64}}"),
        ("truncate", "got a connection that broke after 128,000 bytes, which are kept"),
        ("refuse", "the answer 404 Not Found"),
        ("stall", "nothing for 0.5 s from a stalled server"),
        ("stall midway", "nothing for 0.5 s from a stalled server"),
    ],
)
def test_what_goes_wrong_is_said_in_a_line_and_the_next_try_succeeds(fault, message, file, server, cache, monkeypatch):
    server.fault = fault
    with monkeypatch.context() as patch:
        patch.setattr(download, "READ_TIMEOUT", 0.5)
        with pytest.raises(DownloadError, match=message) as caught:
            fetch(file)
    assert "\n" not in str(caught.value)
    assert f"Expected {PATH} from {file.address}" in str(caught.value)
    assert f"put the file into {cache / 'folder'} by hand" in str(caught.value)
    assert not (cache / PATH).exists()
    assert kept(cache) in ([], ["numbers.bin.part"])
    server.fault = None
    assert fetch(file).read_bytes() == CONTENT
    assert kept(cache) == ["numbers.bin"]


def test_no_network_is_said_in_a_line(cache):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/{PATH}"
    with pytest.raises(DownloadError, match=r"got no connection \(.*Connection refused\). Try again, or put"):
        fetch(DataFile(PATH, SHA256, address, len(CONTENT)))
    assert kept(cache) == []


def test_a_broken_download_goes_on_where_it_broke(file, server, cache):
    server.fault = "truncate"
    with pytest.raises(DownloadError, match="broke"):
        fetch(file)
    server.fault = None
    assert fetch(file).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=128000-"]


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, len(CONTENT) - 1])
@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_part_of_any_size_becomes_the_file(size, knows_ranges, file, server, cache):
    leave_part(cache, (CONTENT + b"more")[:size])
    server.knows_ranges = knows_ranges
    assert fetch(file).read_bytes() == CONTENT
    assert server.asked[0] == (PATH, f"bytes={size}-")
    assert kept(cache) == ["numbers.bin"]


def test_a_complete_part_needs_no_server_and_a_part_that_is_too_long_none_of_its_bytes(file, server, cache):
    part = leave_part(cache, CONTENT)
    assert fetch(file).read_bytes() == CONTENT
    assert server.asked == []
    (cache / PATH).rename(part)
    part.write_bytes(CONTENT + b"more")
    assert fetch(file).read_bytes() == CONTENT
    assert server.asked == [(PATH, None)]
    assert kept(cache) == ["numbers.bin"]


def test_a_part_of_another_file_is_forgotten(file, server, cache):
    leave_part(cache, b"<html>Please log in</html>")
    assert fetch(file).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=26-", None]


def test_a_wrong_rest_leaves_nothing(file, server, cache):
    leave_part(cache, CONTENT[:100])
    server.fault = "corrupt"
    with pytest.raises(DownloadError, match="to have the checksum"):
        fetch(file)
    assert kept(cache) == []


@pytest.mark.parametrize(
    ("status", "header", "is_rest"),
    [
        (206, "bytes 5-9/10", True),
        (206, "bytes 4-9/10", False),
        (206, "bytes 5-8/10", False),
        (206, "bytes 5-9/*", False),
        (206, f"bytes 5-9/1{'0' * 5000}", False),
        (206, "", False),
        (200, "bytes 5-9/10", False),
    ],
)
def test_a_rest_is_taken_only_where_it_fits(status, header, is_rest):
    import requests

    response = requests.Response()
    response.status_code = status
    response.headers["Content-Range"] = header
    assert download.is_rest(response, 5) is is_rest


def test_a_wrong_file_in_the_cache_is_fetched_anew(file, server, cache):
    fetch(file).write_bytes(b"rotten")
    assert fetch(file).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_wrong_file_in_the_cache_does_not_outlive_a_failed_download(file, server, cache):
    fetch(file).write_bytes(b"rotten")
    server.fault = "refuse"
    with pytest.raises(DownloadError, match="404"):
        fetch(file)
    assert kept(cache) == []


@pytest.mark.slow
def test_two_processes_that_fetch_at_once_download_once(file, server, cache):
    server.delay = 0.5
    code = (
        "from tdegnn.data.benchmarks.fetch import DataFile, fetch;"
        f"print(fetch(DataFile({PATH!r}, {SHA256!r}, {file.address!r}, {len(CONTENT)})).read_bytes()[:3])"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate(timeout=20)[0] for process in processes] == [b"b'\\x00\\x01\\x02'\n"] * 2
    assert len(server.asked) == 1
    assert kept(cache) == ["numbers.bin"]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_mirror_folder_is_read_in_place(prefix, file, server, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_MIRROR", f"{prefix}{tmp_path / 'mirror'}")
    with pytest.raises(DownloadError, match=f"in the mirror, got no file .*{PATH}. Put it there or into"):
        fetch(file)
    copy = tmp_path / "mirror" / PATH
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    assert fetch(file) == locate(file) == copy
    assert not cache.exists()
    assert server.asked == []
    copy.write_bytes(b"rotten")
    with pytest.raises(InputError, match=f"{copy} to have the checksum {SHA256}, got sha256:.*Replace it in the mirr"):
        fetch(file)
    assert copy.exists()


def test_a_wrong_file_in_the_cache_gives_way_to_a_mirror_folder(file, cache, tmp_path, monkeypatch):
    fetch(file).write_bytes(b"rotten")
    monkeypatch.setenv("TDEGNN_MIRROR", str(tmp_path / "mirror"))
    copy = tmp_path / "mirror" / PATH
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    assert fetch(file) == copy
    assert kept(cache) == []


def test_an_http_mirror_comes_before_the_public_address(file, server, cache, monkeypatch):
    monkeypatch.setenv("TDEGNN_MIRROR", f"{server.address}/")
    assert fetch(DataFile(PATH, SHA256, "http://127.0.0.1:9/never", len(CONTENT))).read_bytes() == CONTENT
    assert locate(file) == cache / PATH


def test_a_file_without_a_public_address_needs_a_mirror(cache):
    with pytest.raises(DownloadError, match="no public address. Put it there, or set TDEGNN_MIRROR"):
        fetch(DataFile(PATH, SHA256, None, len(CONTENT)))


def test_a_mirror_of_another_kind_is_refused(cache, monkeypatch):
    monkeypatch.setenv("TDEGNN_MIRROR", "ftp://example.org")
    with pytest.raises(InputError, match="a folder or an http, https or file address, got .* begins with 'ftp'"):
        locate(DataFile(PATH, SHA256, None, len(CONTENT)))


def test_a_cache_that_cannot_be_made_is_refused(file, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path / "taken"))
    with pytest.raises(InputError, match="Expected to write .*TDEGNN_CACHE names the folder of downloads."):
        fetch(file)


def test_the_cache_has_a_customary_place(monkeypatch):
    monkeypatch.delenv("TDEGNN_CACHE", raising=False)
    assert cache_folder().name == "tdegnn"


def test_git_names_a_file_by_its_content(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    assert DataFile("hello", "git-blob:ce013625030ba8dba906f756967f9e9ca394464a", None, 6).is_in(path)
    assert not DataFile("hello", "git-blob:" + "0" * 40, None, 6).is_in(path)


def test_nothing_for_downloads_is_imported_before_a_download():
    code = (
        "import sys, tdegnn.data.benchmarks.catalogue, tdegnn.data.benchmarks.fetch;"
        "sys.exit(bool({'requests', 'urllib3', 'filelock', 'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, env=os.environ).returncode == 0
