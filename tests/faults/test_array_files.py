"""Damaged and hostile NumPy, SciPy and Parquet files give one line, take little memory and never crash."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from tdegnn import Graph, NodeClassifier
from tdegnn.data.array_files import list_arrays, read_arrays, read_sparse
from tdegnn.data.graphs.edges import read_graph
from tdegnn.data.nodes import NodeDataset
from tdegnn.data.tables.nodes import read_node_tables
from tdegnn.data.tables.parquet_pages import read_footer, unpacked_size
from tdegnn.data.tables.series import read_panel
from tdegnn.data.tables.table import read_table
from tdegnn.errors import InputError
from tdegnn.files import set_memory_limit
from tests.faults.array_fuzz import try_one

NODES = ("A", "B", "C", "D")
MATRIX = np.array([[0, 1, 0, 2], [1, 0, 0, 0], [0, 3, 0, 0], [0, 0, 1, 0]], dtype=float)
FORMATS = ("csr", "csc", "coo", "bsr", "dia")
PARTS = {"coo": ("row", "col"), "dia": ("offsets",)}
# Peak of a process that refuses files, besides its imports. Far below what the files ask for.
SMALL = 200 * 2**20


@pytest.fixture
def small_limit():
    set_memory_limit("1MB")
    yield
    set_memory_limit(None)


def parts_of(form):
    matrix = getattr(scipy.sparse, f"{form}_array")(MATRIX)
    parts = {name: getattr(matrix, name) for name in ("data", *PARTS.get(form, ("indices", "indptr")))}
    return parts | {"format": np.array(form.encode()), "shape": np.array(matrix.shape)}


def header(descr, shape, version=1):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


def write_members(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?"])
def test_every_format_of_scipy_is_read(form, dtype, tmp_path):
    matrix = getattr(scipy.sparse, f"{form}_array")(MATRIX.astype(dtype))
    scipy.sparse.save_npz(tmp_path / "m.npz", matrix)
    read = read_sparse(tmp_path / "m.npz", "a matrix")
    assert (read.format, read.dtype) == (matrix.format, matrix.dtype)
    np.testing.assert_array_equal(read.toarray(), matrix.toarray())


WRONG_PARTS = {
    "index beyond the columns": ("csr", "indices", [0, 1, 2**20, 0, 1]),
    "negative index": ("csc", "indices", [0, -5, 1, 0, 1]),
    "pointers that fall": ("csr", "indptr", [0, 900, 2, 3, 5]),
    "pointers beyond the entries": ("csr", "indptr", [0, 1, 2, 3, 2**40]),
    "too few pointers": ("bsr", "indptr", [0]),
    "pointers of real numbers": ("csr", "indptr", [0.0, 1.0, 2.0, 3.0, 5.0]),
    "row beyond the rows": ("coo", "row", [0, 1, 2**31, 0, 1]),
    "negative column": ("coo", "col", [-1, 1, 0, 0, 1]),
    "fewer entries than indices": ("csr", "data", [1.0, 2.0]),
    "text for entries": ("csr", "data", ["a", "b", "c", "d", "e"]),
    "offset outside of the matrix": ("dia", "offsets", [-(2**62), 0, 1]),
    "negative shape": ("csr", "shape", [4, -4]),
    "shape of three": ("coo", "shape", [4, 4, 4]),
    "shape beyond 64 bits": ("csr", "shape", np.array([2**64 - 1, 4], dtype=np.uint64)),
    "unknown format": ("csr", "format", np.array(b"lil")),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_a_malformed_sparse_matrix_is_refused_before_scipy_uses_it(case, tmp_path):
    form, name, wrong = WRONG_PARTS[case]
    np.savez(tmp_path / "m.npz", **(parts_of(form) | {name: np.array(wrong)}))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    with pytest.raises(InputError, match="Expected an adjacency matrix"):
        read_graph(tmp_path / "m.npz", NODES)
    with pytest.raises(InputError, match="Expected features"):
        read_node_tables(tmp_path / "m.npz", tmp_path / "edges.csv")


def test_a_broken_sparse_matrix_given_in_python_is_refused():
    adjacency = scipy.sparse.csr_array(MATRIX)
    adjacency.indices[0] = 10**6
    features = scipy.sparse.csr_array(MATRIX)
    features.indptr[1] = 10**6
    with pytest.raises(InputError, match="Expected an adjacency matrix that SciPy can use, got one with an entry at"):
        Graph.from_scipy(adjacency)
    with pytest.raises(InputError, match="Expected features that SciPy can use, got one with pointers"):
        NodeClassifier().fit(features, ["x", "y", "x", "y"], graph=Graph([[0, 1], [1, 2]], 4))
    masks = np.zeros((0, 4), dtype=bool)
    with pytest.raises(InputError, match="Expected features that SciPy can use"):
        NodeDataset("", features, Graph([[0, 1], [1, 2]], 4), np.zeros(4, np.int64), masks, masks, masks)


WRONG_HEADERS = {
    "pickled objects": header("|O", (1,)) + b"\x80\x04N.",
    "more than the file has": header("<f8", (4, 4)) + bytes(8),
    "negative size": header("<f8", (-4, 4)) + bytes(128),
    "no end of brackets": b"\x93NUMPY\x01\x00\xb8\x0b" + b"(" * 3000,
    "many signs": b"\x93NUMPY\x01\x00\xb9\x0b" + b"-" * 3000 + b"1",
    "no key": b"\x93NUMPY\x01\x00\x07\x00{[]: 1}",
    "long header": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(100),
    "structures": header([("a", "<f8")], (2,)) + bytes(16),
    "unknown version": header("<f8", (1,), version=9) + bytes(8),
    "booleans of 2": header("|b1", (2, 2)) + bytes([2, 2, 2, 2]),
    "text that is none": header("<U1", (1,)) + b"\xff\xff\xff\xff",
    "half a surrogate": header("<U1", (1,)) + b"\x00\xd8\x00\x00",
    "nothing more": b"\x93NUMPY",
}


@pytest.mark.parametrize("case", WRONG_HEADERS)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_a_damaged_array_is_refused(case, ending, tmp_path):
    path = tmp_path / f"m.{ending}"
    path.write_bytes(WRONG_HEADERS[case])
    if ending == "npz":
        write_members(path, {"arr_0.npy": WRONG_HEADERS[case]})
    with pytest.raises(InputError, match=r"saved by NumPy or SciPy in m\.np., got another file, or a damaged one"):
        read_graph(path, NODES)


def saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_a_damaged_archive_is_refused(tmp_path):
    path = tmp_path / "m.npz"
    write_members(path, {"a.npy": saved(MATRIX)}, zipfile.ZIP_STORED)
    content = path.read_bytes()
    encrypted = bytearray(content)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[content.index(mark) + place] |= 1
    damaged = {
        "another checksum": content.replace(MATRIX[0].tobytes(), MATRIX[1].tobytes()),
        "cut off": content[:-30],
        "encrypted": bytes(encrypted),
        "not an archive": b"PK\x03\x04 and no more",
    }
    write_members(path, {"a.npy": saved(MATRIX)}, zipfile.ZIP_BZIP2)
    damaged["another method, which unpacks without a limit"] = path.read_bytes()
    write_members(path, {f"{'n' * 200}{number}": b"" for number in range(5000)})
    damaged["a long list of members"] = path.read_bytes()
    for what, wrong in damaged.items():
        path.write_bytes(wrong)
        with pytest.raises(InputError, match="got another file, or a damaged one"):
            print(what, read_graph(path, NODES))


def test_names_of_arrays_in_messages(tmp_path):
    np.savez(tmp_path / "m.npz", a=MATRIX, b=MATRIX)
    assert list_arrays(tmp_path / "m.npz", "arrays") == ("a", "b")
    with pytest.raises(InputError, match=r"Expected an array 'c' in m\.npz, got a, b"):
        read_arrays(tmp_path / "m.npz", "arrays", ["c"])


@pytest.mark.parametrize(
    ("edge_index", "num_nodes"),
    [([[0], [10**12]], None), ([[0], [2**63 - 2]], None), ([[0], [1]], 10**30), (np.zeros((2, 0), int), 10**12)],
)
def test_a_graph_of_too_many_nodes_is_refused_before_it_takes_memory(edge_index, num_nodes):
    with pytest.raises(InputError, match=r"Expected a graph of [\d,]+ nodes to take at most 4 GB of memory, got"):
        Graph(edge_index, num_nodes)


def test_node_numbers_that_are_none():
    with pytest.raises(InputError, match="fit in 64 bits, got 18446744073709551615"):
        Graph(np.array([[0], [2**64 - 1]], dtype=np.uint64))
    with pytest.raises(InputError, match="got object"):
        Graph([[0], [2**70]])
    huge = scipy.sparse.coo_array(([1.0], ([0], [1])), shape=(10**12, 10**12))
    with pytest.raises(InputError, match="Expected a graph of 1,000,000,000,000 nodes to take at most"):
        Graph.from_scipy(huge)


def test_a_dense_matrix_of_many_edges_is_refused(small_limit, tmp_path):
    assert Graph.from_scipy(np.zeros((500, 500), dtype=bool)).num_edges == 0
    with pytest.raises(InputError, match="Expected a graph of 500 nodes to take at most 1 MB"):
        Graph.from_scipy(np.ones((500, 500), dtype=bool))
    write_members(tmp_path / "f.npz", {"features.npy": saved(np.zeros((1000, 1000), dtype=bool))})
    with pytest.raises(InputError, match=r"Expected f\.npz to take at most 1 MB"):
        read_node_tables(tmp_path / "f.npz", tmp_path / "none.csv")


def write_series(path, **columns):
    pq.write_table(pa.table({"A": np.arange(8.0), **columns}), path)
    return path


def days(kind, first, step):
    return pa.array([first + step * day for day in range(8)], pa.int64()).cast(kind)


WRONG_COLUMNS = {
    "year 30,000": (days(pa.timestamp("us"), 10**18, 86_400_000_000), "Expected times in the years 1 to 9999"),
    "before year 1": (days(pa.timestamp("ms"), -(10**17), 86_400_000), "Expected times in the years 1 to 9999"),
    "date beyond years": (pa.array(range(2**31 - 9, 2**31 - 1), pa.int32()).cast(pa.date32()), "years 1 to 9999"),
    "long duration": (days(pa.duration("s"), 2**62, 1), "Expected times in the years 1 to 9999"),
    "time zone": (days(pa.timestamp("us", "No/Where"), 0, 86_400_000_000), "Expected a time zone .* got 'No/Where'"),
    "lists": (
        pa.array([[1, 2]] * 8),
        "Expected numbers, text or dates in column .* of s.parquet, got bytes, lists or structures",
    ),
    "structures": (pa.array([{"x": 1}] * 8), "got bytes, lists or structures"),
    "text that is none": (pa.array([b"\xff"] * 8).view(pa.string()), "s.parquet, which is damaged or cut off"),
    "bytes that are no text": (pa.array([b"\xff"] * 8), "Expected text in column 'time' of s.parquet, got bytes"),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_parquet_columns_that_cannot_be_read_are_refused(case, tmp_path):
    column, message = WRONG_COLUMNS[case]
    with pytest.raises(InputError, match=message):
        read_panel(write_series(tmp_path / "s.parquet", time=column), time="time")


def test_bytes_in_a_column_that_is_not_used_do_no_harm(tmp_path):
    shapes = pa.array([b"\xff\x00"] * 2)
    pq.write_table(pa.table({"source": ["A", "B"], "target": ["B", "C"], "shape": shapes}), tmp_path / "e.parquet")
    assert read_graph(tmp_path / "e.parquet", NODES)[0].num_edges == 2


def test_text_of_parquet_is_a_dictionary_and_the_table_is_the_same(tmp_path):
    names = pa.array(["x", "y", None, "x"])
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())):
        pq.write_table(pa.table({"name": names.cast(kind), "a": [1, 2, 3, None]}), tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet", lambda _: [])
        assert pa.types.is_dictionary(table.columns.schema.field("name").type)
        assert table.texts(0).to_pylist() == ["x", "y", None, "x"]
        np.testing.assert_array_equal(table.numbers(1), [1, 2, 3, np.nan])


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_say_what_they_unpack_to(codec, version, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"name": rng.choice(["one", "two"], 5000), "x": rng.normal(size=5000)})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression=codec, data_page_version=version, row_group_size=2000, data_page_size=1000)
    footer = pq.read_metadata(path)
    groups = [footer.row_group(position) for position in range(footer.num_row_groups)]
    contents = read_footer(path)
    assert contents.num_rows == [group.num_rows for group in groups]
    # The footer counts the headers of the pages too.
    said = sum(group.column(position).total_uncompressed_size for group in groups for position in range(2))
    assert 0.9 * said < unpacked_size(path, contents, 0) <= said


def test_a_long_name_in_every_row_is_refused(small_limit, tmp_path):
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, np.int32)), ["x" * 1000])
    pq.write_table(pa.table({"source": names, "target": names}), tmp_path / "e.parquet", store_schema=False)
    assert (tmp_path / "e.parquet").stat().st_size < 20_000
    with pytest.raises(InputError, match=r"Expected e\.parquet to take at most 1 MB"):
        read_graph(tmp_path / "e.parquet", NODES)


def zeros_npz(path, name, shape, dtype):
    rows, columns = shape
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w") as stream,
    ):
        stream.write(header(dtype, shape))
        for _ in range(rows):
            stream.write(bytes(columns * np.dtype(dtype).itemsize))


def repeated_rows(path, columns):
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(table, row_group_size=len(table))


def write_bombs(folder):
    """Tiny files that ask for terabytes."""
    (folder / "shape.npy").write_bytes(header("<f8", (2**31, 2**31)) + bytes(100))
    write_members(folder / "lies.npz", {"features.npy": header("<f8", (2**20, 2**20)) + bytes(100)})
    entry = {"row": np.array([0]), "col": np.array([1]), "data": np.array([1.0])}
    np.savez(folder / "coo.npz", **entry, shape=np.array([10**12, 10**12]), format=np.array(b"coo"))
    np.savez(folder / "rows.npz", **entry, shape=np.array([10**12, 3]), format=np.array(b"coo"))


def write_true_bombs(folder):
    """Small files that hold what they say, more than 512 MB."""
    zeros_npz(folder / "zeros.npz", "features", (1000, 70_000), "<f8")
    rows = np.zeros(1_200_000, dtype=np.int64)
    repeated_rows(folder / "rows.parquet", {"time": rows, "A": rows.astype(float)})
    text = pa.array(["x" * (50 << 20)])
    columns = {f"c{number}": text for number in range(12)}
    pq.write_table(pa.table(columns), folder / "pages.parquet", compression="zstd", use_dictionary=False)


COMMANDS = """
import contextlib, io, json, resource, sys
import torch, tdegnn.cli.fit, tdegnn.cli.classify, tdegnn.data.tables.nodes, tdegnn.forecasting, tdegnn.nodes
from tdegnn.cli import main

# In KB on Linux, in bytes on macOS.
unit = 1 if sys.platform == "darwin" else 1024
before, found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
for command in json.load(sys.stdin):
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            main(command)
        except SystemExit as end:
            found.append([end.code, errors.getvalue()])
print(json.dumps([found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak of a process in this way")
@pytest.mark.parametrize("limit", ["512MB", None])
def test_small_files_that_ask_for_much_memory_give_one_line(limit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TDEGNN_MEMORY_LIMIT", raising=False)
    if limit:
        monkeypatch.setenv("TDEGNN_MEMORY_LIMIT", limit)
    Path("bombs").mkdir()
    write_bombs(Path("bombs"))
    if limit:
        write_true_bombs(Path("bombs"))
    assert all(path.stat().st_size < 4 * 2**20 for path in Path("bombs").iterdir())
    Path("series.csv").write_text("time,A,B\n" + "".join(f"2024-01-{day:02d},{day},1\n" for day in range(1, 29)))
    Path("labels.csv").write_text("node,label\n0,x\n1,y\n")
    edges = ["shape.npy", "lies.npz", "coo.npz", *(["zeros.npz", "rows.parquet", "pages.parquet"] if limit else [])]
    features = ["lies.npz", "rows.npz", *(["zeros.npz", "pages.parquet"] if limit else [])]
    commands = [["fit", "series.csv", "--edges", f"bombs/{name}", "--out", "run"] for name in edges]
    commands += [
        ["classify", "--features", f"bombs/{name}", "--edges", "series.csv", "--labels", "labels.csv", "--out", "run"]
        for name in features
    ]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, peak = json.loads(done.stdout)
    for command, (code, errors) in zip(commands, found, strict=True):
        assert code == 2, (command, errors)
        assert errors.count("\n") <= 2, (command, errors)
        assert "Expected" in errors, (command, errors)
    assert peak < SMALL, peak
    assert not Path("run").exists()


@pytest.mark.slow
def test_fuzzed_files_are_read_or_refused(tmp_path):
    found = {"read": 0, "refused": 0}
    for seed in range(240):
        for path in tmp_path.iterdir():
            path.unlink()
        found[try_one(seed, tmp_path)] += 1
    assert min(found.values()) > 30


@pytest.mark.parametrize("encoding", [None, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_lists_and_structures_that_are_not_used_are_not_read(tmp_path, encoding):
    steps = range(60)
    columns = {
        "tags": [["a", "b"]] * 60,
        "more": [{"x": 1, "y": "z"}] * 60,
        "time": [step // 3 for step in steps],
        "node": ["abc"[step % 3] for step in steps],
        "value": [float(step) for step in steps],
    }
    ways = {} if encoding is None else {"use_dictionary": False, "column_encoding": {"node": encoding}}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet", **ways)
    panel = read_panel(tmp_path / "s.parquet", node="node", time="time", value="value")
    assert panel.nodes == ("a", "b", "c")
    assert panel.values[..., 0].ravel().tolist() == columns["value"]
    with pytest.raises(InputError, match="in column 'tags' of s.parquet, got bytes, lists or structures"):
        read_panel(tmp_path / "s.parquet", node="node", time="time", value="tags")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak of a process in this way")
def test_texts_that_share_their_starts_stay_within_the_limit(tmp_path):
    texts = pa.array([f"{'x' * 500_000}{number}" for number in range(1500)], pa.large_string())
    table = pa.table({"node": texts, "time": list(range(1500)), "value": [1.0] * 1500})
    ways = {"use_dictionary": False, "column_encoding": {"node": "DELTA_BYTE_ARRAY"}, "write_statistics": False}
    pq.write_table(table, tmp_path / "s.parquet", compression="none", **ways)
    assert (tmp_path / "s.parquet").stat().st_size < 2**21
    code = (
        "import resource, sys, pandas, pyarrow.parquet, tdegnn\n"
        "from tdegnn.data.tables.series import read_panel\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "tdegnn.set_memory_limit('256MB')\n"
        "try:\n    read_panel(sys.argv[1])\n"
        "except tdegnn.InputError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.parquet")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    message, peak = done.stdout.splitlines()
    assert message.startswith("Expected s.parquet to take at most 256 MB of memory")
    assert int(peak) * (1 if sys.platform == "darwin" else 1024) < 1.3 * 2**28
