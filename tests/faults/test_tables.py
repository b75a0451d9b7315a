"""Odd tables of series: huge numbers, long rows, odd times, encodings, names and formulas."""

import errno
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from matplotlib.figure import Figure

from tdegnn import Forecaster, Graph, InputError, NodeClassifier, NodeRegressor
from tdegnn.analysis.plots import save_figure
from tdegnn.cli.tables import write_table
from tdegnn.data.graphs.edges import read_graph, write_edges
from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.tables.csv_files import CsvFormat
from tdegnn.data.tables.node_features import read_node_features
from tdegnn.data.tables.series import read_panel, write_series
from tdegnn.errors import TrainingError
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.inputs import extend_panel
from tests.faults.table_fuzz import try_one

FORMULAS = ["=cmd|'/c calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "'=q", "''@z", "'plain", "-5", "+7.5", "Rome", "-"]
NUM_FUZZED = 400


def waves(num_steps=60, num_nodes=2, scale=1.0):
    return scale * np.sin(np.arange(num_steps)[:, None] / 3 + np.arange(num_nodes))


def days(num_steps):
    return pd.date_range("2024-01-01", periods=num_steps)


def write_wide(path, values):
    pd.DataFrame({"time": days(len(values)), **dict(zip("ABCDEF", values.T, strict=False))}).to_csv(path, index=False)
    return path


# Huge and tiny numbers


@pytest.mark.parametrize("value", [1e101, -1e155, 1e300])
def test_a_huge_number_is_refused_with_its_node_and_its_own_time(tmp_path, value):
    values = waves()
    values[40, 1] = value
    message = f"at most 1e\\+100 in size, got {value:g} for node '(B|1)' at 2024-02-10".replace("e+", "e\\+")
    path = write_wide(tmp_path / "a.csv", values)
    frame = pd.read_csv(path)
    frame.assign(time=pd.to_datetime(frame["time"])).to_parquet(tmp_path / "a.parquet")
    for source in (path, tmp_path / "a.parquet", frame):
        with pytest.raises(InputError, match=message):
            read_panel(source)
    with pytest.raises(InputError, match=message):
        Panel.from_array(values, times=days(60))
    with pytest.raises(InputError, match=message):
        Panel.from_array(waves(), times=days(60)).with_exogenous(Panel.from_array(values, times=days(60)))


def test_the_largest_numbers_are_read():
    values = waves(scale=1e100)
    assert Panel.from_array(values).values.max() == values.max()


@pytest.mark.slow
def test_huge_and_tiny_series_give_forecasts_in_their_own_units():
    for scale in (1e90, 1e-90):
        panel = Panel.from_array(waves(scale=scale))
        forecast = Forecaster(num_steps=20, num_members=1, hidden_channels=8).fit(panel).predict(6)
        frame = forecast.to_frame()
        assert np.isfinite(frame["forecast"]).all()
        assert 0.01 * scale < np.abs(frame["forecast"]).max() < 10 * scale


def test_differences_that_are_lost_give_a_note_and_no_nan():
    panel = Panel.from_array(waves(scale=1e-300))
    assert any("below 1e-100" in note for note in panel.notes)
    scaler = Scaler.standard(panel.values)
    assert (scaler.scale == 1).all()
    assert np.isfinite(scaler.transform(panel.values)).all()
    assert not any("below" in note for note in Panel.from_array(waves(scale=1e-90)).notes)


def test_a_value_far_from_the_training_is_refused_with_its_own_time():
    """In float32 it would be infinite, and the forecast empty."""
    training = Panel.from_array(waves(), times=days(60))
    maker = FrameMaker.fit(training, window=4)
    values = waves()
    values[57, 0] = 1e30
    message = (
        "within 1e\\+18 standard deviations of those of the training, got 1e\\+30 of 'value' for node '0' at 2024-02-27"
    )
    with pytest.raises(InputError, match=message):
        maker.windows(Panel.from_array(values, times=days(60)))


def test_a_forecast_that_diverges_is_never_an_empty_cell():
    panel = Panel.from_array(waves(), times=days(60))
    for value in (np.nan, np.inf, -1e200):
        with pytest.raises(TrainingError, match="as forecasts, got .* for node '1', forecast for 2024-03-01"):
            extend_panel(panel, np.array([[[0.0], [value]]]), None)
    maker = FrameMaker.fit(panel, window=4)
    with pytest.raises(TrainingError, match="they diverge"):
        maker.to_units(np.array([[[np.inf], [0.0]]]))


# Formulas


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_names_that_look_like_formulas_come_back(tmp_path, layout, ending):
    panel = Panel.from_array(waves(5, len(FORMULAS)), nodes=FORMULAS)
    path = tmp_path / f"new folder/series{ending}"
    write_series(panel, path, layout)
    assert read_panel(path, time="time", node="node" if layout == "long" else None).nodes == tuple(FORMULAS)
    if ending == ".parquet":
        names = pyarrow.parquet.read_table(path)
        assert set(FORMULAS) <= set(names.column_names if layout == "wide" else names["node"].to_pylist())


def cells_of(path):
    text = path.read_text("utf-8-sig")
    return [cell.strip('"') for line in text.splitlines() for cell in line.split(",")]


def is_run_by_a_spreadsheet(cell):
    try:
        float(cell)
    except ValueError:
        return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


def test_no_written_cell_is_run_by_a_spreadsheet(tmp_path):
    panel = Panel.from_array(waves(5, len(FORMULAS)), nodes=FORMULAS)
    graph = Graph([list(range(len(FORMULAS) - 1)), list(range(1, len(FORMULAS)))])
    write_series(panel, tmp_path / "long.csv")
    write_series(panel, tmp_path / "wide.csv", "wide")
    write_edges(graph, FORMULAS, tmp_path / "edges.csv")
    table = pd.DataFrame({"node": FORMULAS, "label": FORMULAS[::-1], "=share": -0.5})
    write_table(table, tmp_path / "labels.csv")
    for path in tmp_path.iterdir():
        cells = cells_of(path)
        assert not [cell for cell in cells if is_run_by_a_spreadsheet(cell)], path
        assert "-5" in cells  # a number is no formula
    back, _ = read_graph(tmp_path / "edges.csv", FORMULAS)
    assert back.equals(graph)


# Files are written whole


def test_a_full_disk_keeps_the_old_files(tmp_path, monkeypatch):
    panel = Panel.from_array(waves(5))
    graph = Graph([[0], [1]], 2)
    writers = {
        "a.csv": lambda path: write_series(panel, path),
        "a.parquet": lambda path: write_series(panel, path),
        "edges.csv": lambda path: write_edges(graph, ["0", "1"], path),
        "a.png": lambda path: save_figure(Figure(), path),
        "t.csv": lambda path: write_table(pd.DataFrame({"a": ["b"]}), path),
    }

    def no_space(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    for name, write in writers.items():
        path = tmp_path / name
        path.write_bytes(b"old")
        with pytest.raises(InputError, match="free disk space"):
            write(path)
        assert path.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(writers)


def test_a_picture_of_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"ends in .png, .pdf or .svg, got a.xyz"):
        save_figure(Figure(), tmp_path / "a.xyz")


# Long rows, and bounds of memory

MEASURED = """
import resource, sys
from tdegnn import InputError, set_memory_limit
from tdegnn.data.tables.series import read_panel
from tdegnn.data.tables.csv_files import CsvFormat
import pyarrow.csv, pyarrow.parquet, pyarrow.compute
set_memory_limit("150MB")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_panel(sys.argv[1], csv_format=CsvFormat(encoding=sys.argv[2]))
    print("read")
except InputError as error:
    print("refused:", error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def measure(path, encoding="utf-8"):
    """Return what reading says with a limit of 150 MB, and the memory it took, in MB."""
    command = [sys.executable, "-c", MEASURED, str(path), encoding]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said, taken = result.stdout.splitlines()
    return said, int(taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "encoding", "name"),
    [
        (b"1," * 10_000_000, "utf-8", "a row of"),
        (b"time," + b"," * 20_000_000, "utf-8", "a row of"),
        (b'time,"' + b"x" * 40_000_000, "utf-8", "a row of"),
        (b"time,A\n1,2\n" + b"3," * 10_000_000, "utf-8", "a row of"),
        (b"time,A\n1,2\n" + b",\n" * 10_000_000, "utf-8", ""),
        ("time,A\n1,2\n".encode("utf-16") + b"1\0,\0" * 10_000_000, "utf-16", "a row of"),
        (b'time,A\n1,2\n"' + b'",\n' * 8_000_000, "latin-1", ""),
    ],
    ids=["columns", "empty names", "a long name", "a long row", "empty rows", "UTF-16", "quotes"],
)
def test_a_table_takes_no_more_memory_than_allowed(tmp_path, content, encoding, name):
    path = tmp_path / "big.csv"
    path.write_bytes(content)
    said, taken = measure(path, encoding)
    assert f"Expected {name}" in said
    assert "to take at most 150 MB of memory" in said
    assert "memory_limit" in said
    assert taken < 190


@pytest.mark.slow
def test_a_wide_table_of_60000_nodes_is_read(tmp_path):
    """Its rows are longer than Arrow's usual block of 1 MiB."""
    num_nodes = 60_000
    path = tmp_path / "wide.csv"
    rows = [",".join(["time", *(f"station number {node}" for node in range(num_nodes))])]
    rows += [",".join([str(step), *[f"{step}.12345678901234567"] * num_nodes]) for step in range(3)]
    path.write_text("\n".join(rows) + "\n")
    panel = read_panel(path)
    assert panel.values.shape == (3, num_nodes, 1)
    assert (panel.values[1] == 1.12345678901234567).all()


def test_a_row_longer_than_the_first_ones_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,node,value\n" + "1,A,5\n" * 1 + f"2,A,{' ' * 3_000_000}7\n" + "3,A,8\n")
    assert read_panel(path).values.ravel().tolist() == [5, 7, 8]


def test_a_long_cell_that_is_no_number_is_found_at_once(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"time,A\n1,{'1' * 200_000}x\n")
    with pytest.raises(InputError, match="number in column 'A', got '111"):
        read_panel(path)


# Times


@pytest.mark.parametrize("cell", ["-1", "0000-01-01", "99999-01-01", "-0001-01-01"])
def test_a_number_among_dates_is_named(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"time,A,B\n2024-01-01,1,2\n{cell},2,3\n2024-01-03,3,4\n")
    with pytest.raises(InputError, match=f"got '{cell}' in line 3 of a.csv"):
        read_panel(path)


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("number", [2**62, -(2**62), 253402300800 * 10**6])
def test_timestamps_beyond_the_calendar_are_refused(tmp_path, unit, zone, number):
    times = pa.array([number, number + 1, number + 2], pa.timestamp(unit, zone))
    path = tmp_path / "a.parquet"
    # Both among the first rows, which decide what a column is, and after them.
    for lead in (0, 300):
        early = pa.array(np.arange(lead), pa.timestamp(unit, zone))
        column = pa.chunked_array([early, times])
        pyarrow.parquet.write_table(pa.table({"time": column, "A": np.arange(lead + 3.0)}), path)
        with pytest.raises(InputError, match="years 1 to 9999"):
            read_panel(path)


@pytest.mark.parametrize("numbers", [[-(2**31), 0, 1], [2**31 - 1, 0, 1]])
def test_days_beyond_the_calendar_are_refused(tmp_path, numbers):
    times = pa.array(numbers, pa.int32()).cast(pa.date32())
    pyarrow.parquet.write_table(pa.table({"time": times, "A": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="years 1 to 9999"):
        read_panel(tmp_path / "a.parquet")


@pytest.mark.skipif(pd.__version__ < "3", reason="in pandas 2, times end in 2262")
def test_the_future_ends_with_the_calendar():
    panel = Panel.from_array(waves(3), times=["9999-10-01", "9999-11-01", "9999-12-01"])
    with pytest.raises(InputError, match="5 steps after 9999-12-01 in the calendar"):
        panel.future_times(5)
    with pytest.raises(InputError, match="1000000000000 future times to take at most"):
        Panel.from_array(waves(3)).future_times(10**12)


@pytest.mark.parametrize("times", [[1e300, 2e300, 3e300], [-1e308, 1e308, 1.5e308]])
def test_times_whose_differences_overflow_are_refused(times):
    with pytest.raises(InputError, match="times of at most 1e\\+100 in size"):
        Panel.from_array(waves(3), times=times)


# Encodings and names


def test_a_utf8_file_is_not_utf16(tmp_path):
    path = write_wide(tmp_path / "a.csv", waves(5))
    with pytest.raises(InputError, match="Expected utf-16 text in a.csv, got other text: UTF-16 stream does not start"):
        read_panel(path, csv_format=CsvFormat(encoding="utf-16"))


@pytest.mark.parametrize("encoding", ["zip", "rot13", "undefined", "hex", "base64", "", "\0", "é", "mbcs", "x" * 999])
def test_what_is_no_encoding_of_text_is_refused(encoding):
    with pytest.raises(InputError, match="Expected an encoding such as utf-8"):
        CsvFormat(encoding=encoding)


@pytest.mark.parametrize("encoding", ["idna", "punycode", "unicode_escape", "utf-7", "cp037", "utf-32", "iso2022_jp"])
def test_odd_encodings_are_read_or_refused(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes(b"time,caf\xe9\n1,2\n2,3\n" * 50)
    with pytest.raises(InputError):
        read_panel(tmp_path / "a.csv", csv_format=CsvFormat(encoding=encoding))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_a_long_file_of_another_encoding_is_read_in_pieces(tmp_path, encoding):
    rows = "".join(f"{step},{step % 7},é\n" for step in range(120_000))
    path = tmp_path / "a.csv"
    path.write_bytes(("time,Zürich,unused\n" + rows).replace(",é", ",1").encode(encoding))
    panel = read_panel(path, csv_format=CsvFormat(encoding=encoding))
    assert panel.nodes[0] == "Zürich"
    assert (panel.values[:, 0, 0] == np.arange(120_000) % 7).all()


def test_a_file_name_that_is_not_utf8_is_read(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    write_wide(path, waves(5))
    panel = read_panel(path)
    assert panel.name == "caf\N{REPLACEMENT CHARACTER}"
    write_series(panel, tmp_path / os.fsdecode(b"\xff.csv"))
    assert panel.with_exogenous(read_panel(tmp_path / os.fsdecode(b"\xff.csv"))).num_channels == 2
    path.write_bytes(b"time,A\n1,x\n")
    with pytest.raises(InputError, match="got 'x' in line 2"):
        read_panel(path)


def test_a_name_like_that_of_an_archive_is_only_a_name(tmp_path):
    path = write_wide(tmp_path / "a.csv.gz.csv", waves(5)).rename(tmp_path / "a.csv.gz")
    assert read_panel(path).num_nodes == 2


@pytest.mark.parametrize("name", ["a\0", "\ud800"])
def test_names_that_files_would_change_are_refused(name):
    with pytest.raises(InputError, match="names of nodes that are text"):
        Panel.from_array(waves(3), nodes=["A", name])


@pytest.mark.slow
def test_odd_tables_are_read_or_refused(tmp_path):
    counts = {"read": 0, "refused": 0}
    for seed in range(NUM_FUZZED):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts[try_one(seed, folder)] += 1
    assert min(counts.values()) > NUM_FUZZED // 10, counts


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Graph([[0], [1]], edge_weight=[1e300]), "Expected edge weights to be at most 1e.100, got 1e.300"),
        (
            lambda: NodeClassifier(num_steps=1).fit(np.array([[1e300], [1.0]]), [0, 1], graph=Graph([[0], [1]])),
            "Expected features of at most 1e.100 in size, got 1e.300 for node 0, feature 0",
        ),
        (
            lambda: NodeRegressor(num_steps=1).fit(np.ones((2, 1)), [1.0, -1e300], graph=Graph([[0], [1]])),
            "Expected targets of at most 1e.100 in size, got -1e.300 for node 1",
        ),
    ],
)
def test_huge_weights_features_and_targets_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_a_huge_node_feature_is_refused_at_its_own_line(tmp_path):
    (tmp_path / "heights.csv").write_text("node,height\nA,1\nB,1e300\n")
    panel = Panel.from_array(np.ones((5, 2)), nodes=["A", "B"])
    with pytest.raises(InputError, match=r"in column 'height', got 1e\+300 in line 3 of heights.csv"):
        read_node_features(tmp_path / "heights.csv", panel)


def test_a_large_file_in_another_encoding_is_explained(tmp_path, monkeypatch):
    rows = "".join(f"{step},{step},{step}\n" for step in range(30_000))
    (tmp_path / "a.csv").write_bytes(f"time,A,B\n{rows}".encode() + b"30000,\xff,1\n")
    monkeypatch.setenv("TDEGNN_MEMORY_LIMIT", "10MB")
    with pytest.raises(InputError, match=r"Expected utf-8 text in a.csv, got the byte 0xff in line 30002"):
        read_panel(tmp_path / "a.csv")


def test_a_parquet_file_without_rows_is_not_called_damaged(tmp_path):
    schema = pa.schema({"node": pa.string(), "time": pa.int64(), "value": pa.float64()})
    pyarrow.parquet.ParquetWriter(tmp_path / "a.parquet", schema).close()
    with pytest.raises(InputError, match=r"Expected rows in a.parquet, got only a header"):
        read_panel(tmp_path / "a.parquet")
