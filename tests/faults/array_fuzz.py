"""Damaged and hostile npz, npy and Parquet files, as edges, features, series and node features.

A file is made well, then parts of it are exchanged, or bytes of it changed. What can be read is used by compiled code.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import torch

from tdegnn.data.graphs.edges import read_graph
from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import read_node_features
from tdegnn.data.tables.nodes import read_node_tables
from tdegnn.data.tables.series import read_panel
from tdegnn.errors import TdegnnError

NODES = ("A", "B", "C", "D")
SIZE = len(NODES)
FORMATS = ("csr", "csc", "coo", "bsr", "dia")
# Numbers at which arithmetic goes wrong.
EXTREMES = (0, 1, -1, 2, 3, 4, 5, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
TYPES = ("<f8", ">f8", "<f4", "<f2", "<i8", ">i4", "|u1", "|b1", "<c16", "<U3", "|S2", "<U0", "|O", "<M8[us]", "V8")
KINDS = ("npz", "npy", "parquet")


def try_one(seed: int, folder: Path) -> str:
    """Make the file of this seed in an empty folder and read it. Return "read" or "refused"."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    content, read = {"npz": _npz, "npy": _npy, "parquet": _parquet}[kind](rng)
    path = folder / f"file.{kind}"
    path.write_bytes(_damaged(content, rng))
    try:
        read(path)
    except TdegnnError:
        return "refused"
    return "read"


def _read_edges(path: Path) -> None:
    graph, _ = read_graph(path, NODES)
    graph.laplacian(torch.ones(graph.num_nodes, 1))


def _read_features(path: Path) -> None:
    has_names = path.suffix == ".parquet" or b"nodes.npy" in path.read_bytes()
    edges = path.with_name("edges.csv")
    edges.write_text("source,target\nA,B\nB,C\n" if has_names else "source,target\n0,1\n1,2\n")
    features = read_node_tables(path, edges).features
    features @ np.ones(features.shape[1])


def _read_series(path: Path) -> None:
    read_panel(path)


def _read_node_features(path: Path) -> None:
    read_node_features(path, Panel.from_array(np.arange(20.0).reshape(5, SIZE), nodes=NODES))


def _npz(rng: random.Random) -> tuple[bytes, Callable[[Path], None]]:
    matrix = np.array([[rng.randrange(3) for _ in NODES] for _ in NODES], dtype=float)
    parts: dict[str, Any]
    if rng.random() < 0.7:
        sparse = getattr(scipy.sparse, f"{rng.choice(FORMATS)}_array")(matrix)
        names = {"coo": ("row", "col"), "dia": ("offsets",)}.get(sparse.format, ("indices", "indptr"))
        parts = {name: getattr(sparse, name) for name in ("data", *names)}
        parts |= {"format": np.array(sparse.format.encode()), "shape": np.array(sparse.shape)}
    else:
        parts = {"features": matrix, "nodes": np.array(NODES)}
    for _ in range(rng.choice((0, 1, 1, 2))):
        _exchange(parts, rng)
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, part in parts.items():
            archive.writestr(f"{name}.npy", part if isinstance(part, bytes) else _saved(part, rng))
    return stream.getvalue(), rng.choice((_read_edges, _read_features))


def _npy(rng: random.Random) -> tuple[bytes, Callable[[Path], None]]:
    matrix = np.array([[rng.randrange(3) for _ in NODES] for _ in NODES])
    return _saved(matrix.astype(rng.choice(("f8", "f4", "i8", "u1", "?", "c16", "U2"))), rng), _read_edges


def _exchange(parts: dict[str, Any], rng: random.Random) -> None:
    """Change one part of an archive: an entry, its type, its shape, or all of it."""
    name = rng.choice(list(parts))
    part = np.array(parts[name])
    choice = rng.randrange(6)
    if choice == 0 and part.size and part.dtype.kind in "iuf":
        part = part.astype(np.int64) if part.dtype.kind in "iu" else part
        part.flat[rng.randrange(part.size)] = rng.choice(EXTREMES)
    elif choice == 1:
        part = part.ravel()[: rng.randrange(part.size + 1)]
    elif choice == 2:
        part = part.reshape(rng.choice(((1, *part.shape), (*part.shape, 1), (-1,))))
    elif choice == 3 and part.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            part = part.astype(rng.choice(("f8", "f2", "g", ">f8", ">i4", "i4", "u1", "u8", "U3", "?", "c8")))
    elif choice == 4:
        parts[f"{name}{rng.randrange(2)}"] = part
    elif choice == 5:
        del parts[name]
        return
    parts[name] = part


def _saved(array: np.ndarray, rng: random.Random) -> bytes:
    """Return an array as npy, in some cases with a header that says something else."""
    stream = io.BytesIO()
    np.save(stream, np.asfortranarray(array) if rng.random() < 0.2 else array)
    content = stream.getvalue()
    if rng.random() < 0.9:
        return content
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    key = rng.choice(("descr", "shape", "shape", "fortran_order"))
    shape = tuple(rng.choice((*EXTREMES, SIZE)) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 70))))
    header[key] = {"descr": rng.choice(TYPES), "shape": shape, "fortran_order": rng.choice((True, 1, None))}[key]
    text = rng.choice((str(header), str(header), json.dumps(str(header)), "(" * 3000, "{", "-" * 3000 + "1", "[1, 2L]"))
    data = content[content.index(b"\n") + 1 :]
    version = rng.choice(((1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    length = len(text) if rng.random() < 0.9 else rng.choice((0, 2**16 - 1, 10))
    size = 2 if version == (1, 0) else 4
    return b"\x93NUMPY" + bytes(version) + length.to_bytes(size, "little") + text.encode() + data


def _parquet(rng: random.Random) -> tuple[bytes, Callable[[Path], None]]:
    read = rng.choice((_read_edges, _read_features, _read_series, _read_series, _read_node_features))
    num_rows = rng.choice((1, 4, 4, 20, 300))
    names = [NODES[row % SIZE] for row in range(num_rows)]
    columns: dict[str, Any] = {}
    if read is _read_edges:
        columns = {"source": names, "target": [NODES[(row + 1) % SIZE] for row in range(num_rows)]}
        columns["weight"] = [float(row % 3) for row in range(num_rows)]
    elif read is _read_series:
        columns = {"node": names, "time": pa.array([row // SIZE for row in range(num_rows)], pa.int64())}
        kind = rng.choice((pa.int64(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.timestamp("s"), pa.int64()))
        scale = rng.choice((1, 86_400, 86_400_000, 86_400_000_000, 2**45))
        columns["time"] = pa.array([(row // SIZE) * scale for row in range(num_rows)], pa.int64()).cast(kind)
        if rng.random() < 0.2:
            columns["time"] = pa.array([rng.choice(EXTREMES[:11]) for _ in names], pa.int64()).cast(
                pa.int32(), safe=False
            )
            columns["time"] = columns["time"].cast(pa.date32())
        columns["value"] = [float(row) if row % 7 else None for row in range(num_rows)]
    else:
        columns = {"node": NODES, "a": [1.0, 2.0, 3.0, 4.0], "b": pa.array([1, 2, 3, 4], pa.decimal128(9, 2))}
    if rng.random() < 0.3:
        columns["more"] = _odd_column(rng, len(next(iter(columns.values()))))
    stream = io.BytesIO()
    codec = rng.choice(("none", "snappy", "zstd", "gzip", "brotli", "lz4"))
    table = pa.table(columns)
    pq.write_table(
        table,
        stream,
        compression=codec,
        use_dictionary=rng.random() < 0.6,
        data_page_version=rng.choice(("1.0", "2.0")),
        row_group_size=rng.choice((7, 1000)),
        store_schema=rng.random() < 0.7,
        write_page_index=rng.random() < 0.2,
    )
    return stream.getvalue(), read


def _odd_column(rng: random.Random, num_rows: int) -> pa.Array:
    odd = (
        lambda: pa.array([b"\xff\xfe"] * num_rows, pa.binary()),
        lambda: pa.array([b"\xff\xfe"] * num_rows, pa.binary()).view(pa.string()),
        lambda: pa.array([[1, 2]] * num_rows),
        lambda: pa.array([{"x": 1}] * num_rows),
        lambda: pa.array([None] * num_rows, pa.null()),
        lambda: pa.array(["x", None] * num_rows).slice(0, num_rows).dictionary_encode(),
        lambda: pa.array([2**62] * num_rows).cast(pa.duration("s")),
        lambda: pa.array([rng.choice(EXTREMES)] * num_rows).cast(pa.timestamp("us", rng.choice(("UTC", "No/Where")))),
        lambda: pa.array([b"abcd"] * num_rows, pa.binary(4)),
        lambda: pa.array([True] * num_rows),
    )
    return rng.choice(odd)()


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Change bytes of a file: none, some, a number, a piece, or its end."""
    changed = bytearray(content)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2, 5))):
        place = rng.randrange(len(changed) or 1)
        if rng.random() < 0.4:  # headers and footers are at the ends
            place = rng.choice(
                (rng.randrange(min(len(changed), 80) or 1), max(len(changed) - rng.randrange(1, 600), 0))
            )
        choice = rng.randrange(6)
        if choice == 0:
            changed[place : place + 1] = bytes([rng.randrange(256)])
        elif choice == 1 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif choice == 2:
            number = rng.choice(EXTREMES) & (2**64 - 1)
            width = rng.choice((2, 4, 8))
            changed[place : place + width] = number.to_bytes(8, "little")[:width]
        elif choice == 3:
            changed[place:place] = changed[place : place + rng.randrange(1, 40)]
        elif choice == 4:
            del changed[place : place + rng.randrange(1, 40)]
        elif rng.random() < 0.3:
            del changed[place:]
    return bytes(changed)
