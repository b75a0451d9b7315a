import hashlib
import json
import sys

import numpy as np
import pytest

from tdegnn import Graph, StoredGraph
from tdegnn.cli import main
from tdegnn.data.benchmarks import catalogue
from tdegnn.data.benchmarks.catalogue import CATALOGUE, Benchmark, Statistics
from tdegnn.data.benchmarks.fetch import DataFile
from tests.data.benchmarks.file_server import serving

CONTENTS = {"first/a.txt": b"alpha", "first/b.txt": b"beta", "second/c.txt": b"gamma"}


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A catalogue of two small benchmarks, all of it in a mirror folder, and an empty cache."""
    for path, content in CONTENTS.items():
        copy = tmp_path / "mirror" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
    benchmarks = [
        Benchmark("first", "nodes", "Two files.", ("first/a.txt", "first/b.txt"), "MIT", "A", Statistics(1_234, 2, 3)),
        Benchmark(
            "second", "series", "A stand-in.", ("second/original.txt",), "MIT", "B", Statistics(4, 5, 6), "second/c.txt"
        ),
    ]
    monkeypatch.setattr(catalogue, "CATALOGUE", {benchmark.name: benchmark for benchmark in benchmarks})
    monkeypatch.setattr(catalogue, "data_file", make_file)
    monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TDEGNN_MIRROR", str(tmp_path / "mirror"))
    return tmp_path / "mirror"


def make_file(path):
    content = CONTENTS.get(path, b"lost")
    return DataFile(path, f"sha256:{hashlib.sha256(content).hexdigest()}", None, len(content))


@pytest.fixture
def server_without_files(tmp_path, monkeypatch):
    """A mirror that has no file, with what commands have printed when it is asked, request by request."""
    heard = []
    with serving(lambda _: heard.append(sys.stderr.getvalue())) as server:
        monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("TDEGNN_MIRROR", server.address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield heard


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["data", *arguments])
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


def test_list_says_what_there_is_and_where(capsys, mirror):
    code, out, err = run(capsys, "list")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert ["first", "nodes", "1,234", "2", "-", "-", "-", "mirror", "MIT"] in lines
    assert ["second", "series", "4", "5", "-", "-", "-", "mirror", "(reconstructed)", "MIT"] in lines
    (mirror / "first/b.txt").unlink()
    _, out, _ = run(capsys, "list", "--json")
    first, second = json.loads(out)
    assert (first["where"], first["statistics"]["nodes"], first["citation"]) == ("not here", 1234, "A")
    assert second["where"] == "mirror (reconstructed)"


def test_list_knows_the_catalogue(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path))
    monkeypatch.delenv("TDEGNN_MIRROR", raising=False)
    _, out, _ = run(capsys, "list")
    names = [line.split()[0] for line in out.splitlines() if "not here" in line]
    assert names == list(CATALOGUE)


def test_fetch_gets_files_and_says_where_they_are(capsys, mirror):
    code, out, err = run(capsys, "fetch", "first", "second")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["first", "2", "files", "mirror"],
        ["second", "1", "file", "mirror", "(reconstructed)"],
    ]
    assert run(capsys, "fetch", "--all", "--quiet") == (0, "2 of 2 benchmarks are here.\n", "")


def test_verify_finds_what_is_wrong(capsys, mirror, tmp_path):
    assert run(capsys, "verify") == (0, "3 right, 0 wrong, 1 not here.\n", "")
    (mirror / "first/b.txt").write_bytes(b"bta")
    rotten = tmp_path / "cache/first/a.txt"
    rotten.parent.mkdir(parents=True)
    rotten.write_bytes(b"lph")
    code, out, _ = run(capsys, "verify")
    assert code == 1
    first, second, summary = out.splitlines()
    assert first.startswith(f"{rotten}: expected {make_file('first/a.txt').checksum}, got sha256:")
    assert first.endswith("Do: tdegnn data fetch first")
    assert second.endswith("Do: replace it in the mirror")
    assert summary == "1 right, 2 wrong, 1 not here."
    code, out, _ = run(capsys, "verify", "first", "--json")
    assert code == 1
    assert [entry["file"] for entry in json.loads(out)["wrong"]] == [str(rotten), str(mirror / "first/b.txt")]
    assert run(capsys, "verify", "second", "--quiet") == (0, "1 right, 0 wrong, 1 not here.\n", "")


def test_where_prints_folders_and_files(capsys, mirror, tmp_path, monkeypatch):
    code, out, _ = run(capsys, "where", "second")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["cache", str(tmp_path / "cache")],
        ["mirror", str(mirror)],
        ["not", "here", "second/original.txt"],
        ["mirror", "second/c.txt"],
    ]
    monkeypatch.delenv("TDEGNN_MIRROR")
    _, out, _ = run(capsys, "where", "--json")
    assert json.loads(out) == {"cache": str(tmp_path / "cache"), "mirror": None, "files": {}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "Expected names of benchmarks or --all, got both or neither. Try: tdegnn data list"),
        (["fetch", "first", "--all"], "got both or neither"),
        (["fetch", "frist"], "one of first, second, got 'frist'. Did you mean 'first'?"),
        (["verify", "third"], "one of first, second, got 'third'"),
        (["where", "third"], "one of first, second, got 'third'"),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_two(capsys, mirror, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_failed_download_gives_one_line_and_exit_code_two(capsys, mirror):
    (mirror / "first/b.txt").unlink()
    code, _, err = run(capsys, "fetch", "first")
    assert code == 2
    assert err.startswith("Error: Expected first/b.txt in the mirror, got no file")
    assert err.count("\n") == 1


def test_a_download_is_announced_before_it_starts(capsys, mirror, tmp_path, monkeypatch):
    with serving(CONTENTS.get) as server:
        monkeypatch.setenv("TDEGNN_MIRROR", server.address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        code, _, err = run(capsys, "fetch", "first")
        note = f"Note: Downloading first: 2 files, less than 1 MB, from 127.0.0.1 to {tmp_path / 'cache'}.\n"
        assert (code, err) == (0, note)
        assert run(capsys, "fetch", "first")[2] == ""  # they are here now
        server.fault = "refuse"
        code, _, err = run(capsys, "fetch", "second")
        assert (code, err.startswith("Note: Downloading second: 1 file, less than 1 MB, from")) == (2, True)
        assert err.splitlines()[-1].startswith("Error: Expected second/original.txt from")
        assert run(capsys, "fetch", "second", "--quiet")[2].startswith("Error: ")


def test_the_download_of_a_stand_in_is_announced_too(capsys, mirror, tmp_path, monkeypatch):
    with serving(CONTENTS.get) as server:
        monkeypatch.setenv("TDEGNN_MIRROR", server.address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        code, out, err = run(capsys, "fetch", "second")
    size = f"1 file, less than 1 MB, from 127.0.0.1 to {tmp_path / 'cache'}."
    assert (code, out.split()) == (0, ["second", "1", "file", "cached", "(reconstructed)"])
    assert err.splitlines() == [
        f"Note: Downloading second: {size}",
        f"Note: Downloading second (reconstructed): {size}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "files"),
    [(("fit", "pedalme"), "1 file, "), (("classify", "cora"), f"{len(CATALOGUE['cora'].paths)} files, ")],
)
def test_whatever_command_downloads_says_so_before_its_first_request(
    capsys, server_without_files, tmp_path, command, files
):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--out", str(tmp_path / "run")])
    note, error = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert note.startswith(f"Note: Downloading {command[1]}: {files}")
    assert note.endswith(f"from 127.0.0.1 to {tmp_path / 'cache'}.")
    assert error.startswith("Error: Expected ")
    assert server_without_files[0] == f"{note}\n"
    with pytest.raises(SystemExit):
        main([*command, "--out", str(tmp_path / "run"), "--quiet"])
    assert capsys.readouterr().err.startswith("Error: Expected ")


def test_store_writes_a_large_graph_to_a_folder(capsys, tmp_path):
    edges = np.array([[0, 1, 1], [1, 2, 1]])
    np.save(tmp_path / "e.npy", edges)
    np.save(tmp_path / "w.npy", np.array([1.0, 2.0, 3.0]))
    folder = tmp_path / "graph"
    code, out, err = run(capsys, "store", str(tmp_path / "e.npy"), str(folder), "--nodes", "4")
    assert (code, err) == (0, "")
    assert out == (
        "4 nodes and 4 edges, each direction counted.\n"
        f"Train on it: tdegnn classify --edges {folder / 'graph.json'} --batches ranges ...\n"
    )
    assert StoredGraph(folder).equals(Graph(np.concatenate([edges, edges[::-1]], axis=1), 4))
    code, _, err = run(capsys, "store", str(tmp_path / "e.npy"), str(folder))
    assert code == 2
    assert err == f"Error: Expected a folder without a graph, got {folder}. Choose another, or remove it.\n"
    options = ["--weights", str(tmp_path / "w.npy"), "--direction", "in", "--keep-self-loops", "--json"]
    code, out, err = run(capsys, "store", str(tmp_path / "e.npy"), str(tmp_path / "other"), *options)
    assert (code, err) == (0, "")
    expected = Graph(edges, 3, [1.0, 2.0, 3.0], "in", keep_self_loops=True)
    assert StoredGraph(tmp_path / "other").equals(expected)
    facts = {"nodes": 3, "edges": 3, "is_weighted": True, "direction": "in"}
    assert json.loads(out) == {"folder": str(tmp_path / "other"), **facts}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.npy", "Expected a file of edges, got {}, which does not exist. Correct the path."),
        ("e.csv", "Expected a .npy, .parquet or .safetensors file of edges, got {}. Convert it."),
    ],
)
def test_store_says_what_it_cannot_read(capsys, tmp_path, name, message):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n")
    code, out, err = run(capsys, "store", str(tmp_path / name), str(tmp_path / "graph"))
    assert (code, out, err) == (2, "", f"Error: {message.format(tmp_path / name)}\n")
    assert not (tmp_path / "graph" / "graph.json").exists()
