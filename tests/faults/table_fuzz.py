"""Odd tables: series, edges, features and labels as nobody should write them, each from one seed.

`try_one` writes tables into a folder and reads them. A table is read or refused; any other error is a fault. A panel
that was read is written and read again, and must come back as it was.
"""

from __future__ import annotations

import codecs
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tdegnn import InputError
from tdegnn.data.graphs.edges import read_graph, write_edges
from tdegnn.data.graphs.neighbors import read_coordinates
from tdegnn.data.panel import Panel
from tdegnn.data.tables.csv_files import CsvFormat
from tdegnn.data.tables.node_features import read_node_features
from tdegnn.data.tables.nodes import read_labels, read_node_tables
from tdegnn.data.tables.series import panel_to_frame, read_panel, write_series
from tdegnn.errors import TdegnnError

Row = list[str]

NAMES = [
    *("A", "B", "C", "D", "Zürich", "=1+1", "=cmd|'/c calc'!A0", "+x", "-y", "@z", "'=q", "''-w", "'", "-5", "+7.5"),
    *("007", "1", "0", "a b", " A ", "A\tB", "\tA", 'quo"ted', "com,ma", "semi;colon", "line\nbreak", "re\rturn"),
    *(
        "nul\0",
        "\x1b[31m",
        "\ufeffA",
        "\u202eright",
        "😀",
        "nan",
        "NA",
        "",
        "None",
        "time",
        "node",
        "id",
        "ID",
        "value",
    ),
    *("x" * 300, "Unnamed: 0", "1e5", "inf", "#comment", "weight", "source", "target", "label", "subset", "lat"),
]
NUMBERS = [
    *("0", "1", "-1", "2.5", "-3.25", "1e3", "1e-300", "1e99", "1e100", "1e101", "1e300", "1e308", "1e309", "-1e308"),
    *("inf", "-inf", "nan", "NA", "", " ", " 7 ", "1,5", "1.000,5", "1,000.5", "0x10", "1_000", "٣", "½", "--1", "+5"),
    *("9" * 19, "9" * 400, "1" * 5000 + "x", "1e999999999", "true", "#N/A", "null", "one", "'5", "=5", "1e", ".", "-"),
]
TIMES = [
    *("2024-01-01", "2024-02-30", "0000-01-01", "0001-01-01", "99999-01-01", "-1", "0", "1", "1e300", "-1e300", "inf"),
    *("2016-12-31T23:59:60Z", "2024-03-31 02:30", "2024-10-27 02:30", "2024-01-01T00:00+99:99", "2024-01-01T00:00-23"),
    *("2024-01-01 24:00", "2024-W05-1", "2024-060", "20240101", "20241301", "202401", "1704067200", "-1704067200"),
    *("17040672000000000", "9" * 18, "9" * 19, "9" * 30, "-" + "9" * 19, "03/04/2024", "31/12/2024", "12/31/2024"),
    *(
        "1.1.2024",
        "1/1/24",
        "Jan 5 2024",
        "",
        "NA",
        "NaT",
        "now",
        "today",
        "2024-01-01T00:00:00.123456789",
        "1677-09-21",
    ),
    *(
        "2262-04-12",
        "9999-12-31",
        "294247-01-10",
        "2024-01-01 00:00 UTC",
        "2024-01-01Z",
        "T",
        "T01:00",
        ":",
        "٢٠٢٤",
        "1_0",
    ),
    *(
        "0.1",
        "0.30000000000000004",
        "-0",
        "1,5",
        "2024-1-1",
        "2024/01/01",
        "2024-01-01\t",
        "😀",
        "nan",
        "2024-01",
        "2024",
    ),
    *(
        "1e-320",
        "5e-324",
        "1.7e308",
        "-1.7e308",
        "4611686018427387904",
        "-4611686018427387905",
        "2024-01-01T00:00+00:00:01",
    ),
]
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "Pacific/Apia",
    "Africa/Monrovia",
    "nowhere",
    "",
    "/etc",
    "..",
    "\0",
    "é",
]
FORMATS = [
    "%d/%m/%Y",
    "%Y-%m-%d",
    "%Y%m%d",
    "%Y-%m-%dT%H:%M%z",
    "%H",
    "%",
    "%Q",
    "",
    "%j",
    "%s",
    "%Y-%m-%d %Z",
    "é%z",
    "%d%d",
]
ENCODINGS = [
    *("utf-8", "latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252", "utf-32", "utf-7", "cp037", "ascii", "big5"),
    *(
        "idna",
        "punycode",
        "unicode_escape",
        "shift_jis",
        "iso2022_jp",
        "hz",
        "UTF8",
        "u8",
        "gb18030",
        "raw_unicode_escape",
    ),
]
SEPARATORS = [",", ";", "\t", "|", ":", " ", '"', "\n", "é", "a", "'", "\0", "\r", "."]


def try_one(seed: int, folder: Path) -> str:
    """Make the tables of a seed and read them. Return "read" or "refused"."""
    chance = random.Random(seed)
    kind = chance.choices([_try_series, _try_edges, _try_nodes], [6, 2, 2])[0]
    try:
        kind(chance, folder)
    except TdegnnError as error:
        _check_message(error)
        return "refused"
    return "read"


def _check_message(error: TdegnnError) -> None:
    for text in (str(error), error.as_options()):
        assert "Traceback" not in text
        assert len(text) < 10_000, len(text)


def _try_series(chance: random.Random, folder: Path) -> None:
    csv_format = _odd_format(chance)
    path = folder / _odd_file_name(chance)
    rows, is_long = _series_rows(chance)
    path.write_bytes(_as_bytes(chance, rows, csv_format))
    options: dict[str, Any] = {"time_zone": None, "time_format": None}
    if chance.random() < 0.15:
        options["time_zone"] = chance.choice(ZONES)
    if chance.random() < 0.1:
        options["time_format"] = chance.choice(FORMATS)
    if is_long and chance.random() < 0.2:
        options |= {
            "node": chance.choice(["node", "", "x", "value"]),
            "value": chance.choice([(), "value", ("a", "value")]),
        }
    if chance.random() < 0.1:
        options["time"] = chance.choice(["time", "node", "", "\0"])
    panel = read_panel(path, csv_format=csv_format, **options)
    _use(chance, panel, folder)


def _use(chance: random.Random, panel: Panel, folder: Path) -> None:
    """Do with a panel what is quick, and write and read it."""
    assert all(isinstance(note, str) for note in panel.notes)
    assert repr(panel)
    if panel.num_steps > 1:
        panel.future_times(chance.randint(1, 5))
    layout = chance.choice(["long", "wide"]) if panel.num_channels == 1 else "long"
    try:
        panel_to_frame(panel, layout)
    except TdegnnError:
        return  # a name that such a table cannot have
    known: dict[str, Any] = {"time": "time", "time_zone": panel.time_zone}
    if layout == "long":
        known |= {"node": "node", "value": panel.channels[: panel.num_targets]}
        known["exogenous"] = panel.channels[panel.num_targets :]
    ending = chance.choice([".csv", ".parquet"])
    written = folder / f"written{ending}"
    write_series(panel, written, layout)
    if panel.time_zone is not None and panel.time_zone.startswith("UTC"):
        known["time_zone"] = None  # a fixed offset has no name
    try:
        back = read_panel(written, **known)
    except InputError as error:
        raise AssertionError(f"{panel!r} was written and then refused: {error}") from error
    assert back.nodes == panel.nodes
    assert (back.values == panel.values).sum() == (panel.values == panel.values).sum()
    if panel.num_steps > 2:
        assert list(back.times) == list(panel.times)


def _try_edges(chance: random.Random, folder: Path) -> None:
    csv_format = _odd_format(chance)
    path = folder / _odd_file_name(chance)
    nodes = _some_names(chance, chance.randint(1, 6), is_clean=True)
    if chance.random() < 0.6:
        names = nodes if chance.random() < 0.8 else NAMES
        header = chance.choice(
            [["source", "target"], ["source", "target", "weight"], ["from", "to", "km"], ["a", "b", "c"]]
        )
        rows = [header] + [_edge(chance, names, len(header)) for _ in range(chance.randint(0, 8))]
    else:
        has_names = chance.random() < 0.5
        rows = [["", *nodes]] if has_names else []
        for node in nodes:
            cells = [chance.choice(["0", "1", "0.5", chance.choice(NUMBERS)]) for _ in nodes]
            rows.append([node, *cells] if has_names else cells)
    path.write_bytes(_as_bytes(chance, rows or [[""]], csv_format))
    graph, notes = read_graph(path, nodes, csv_format=csv_format)
    assert all(isinstance(note, str) for note in notes)
    write_edges(graph, nodes, folder / "written.csv")
    if graph.num_edges:
        back, _ = read_graph(folder / "written.csv", nodes, direction=graph.direction)
        assert back.num_edges <= graph.num_edges


def _edge(chance: random.Random, names: Sequence[str], num_cells: int) -> Row:
    cells = [chance.choice(names), chance.choice(names), chance.choice(["1", "0.5", chance.choice(NUMBERS)])]
    return cells[:num_cells] if chance.random() < 0.97 else cells[: chance.randint(0, 3)]


def _try_nodes(chance: random.Random, folder: Path) -> None:
    csv_format = _odd_format(chance)
    features, labels, edges = (folder / f"{name}.csv" for name in ("features", "labels", "edges"))
    nodes = _some_names(chance, chance.randint(1, 6), is_clean=chance.random() < 0.7)
    columns = _some_names(chance, chance.randint(1, 3), is_clean=True)
    rows = [["node", *columns]] + [[node, *(_number(chance) for _ in columns)] for node in nodes]
    features.write_bytes(_as_bytes(chance, rows, csv_format))
    texts = ["a", "b", "a", "b", "", "1", "=1", "'", "nan"]
    rows = [["node", "label"]] + [[node, chance.choice(texts)] for node in nodes]
    if chance.random() < 0.3:
        rows = [[*row, chance.choice(["train", "test", "validation", "", "x"])] for row in rows]
        rows[0][-1] = chance.choice(["subset", "split", "x"])
    labels.write_bytes(_as_bytes(chance, rows, csv_format))
    edges.write_bytes(_as_bytes(chance, [["source", "target"], [nodes[0], nodes[-1]]], csv_format))
    reading: list[Callable[[], Any]] = [
        lambda: read_node_tables(features, edges, csv_format=csv_format),
        lambda: read_labels(labels, nodes, csv_format),
        lambda: read_coordinates(features, nodes, csv_format),
        lambda: read_node_features(features, Panel.from_array([[1.0] * len(nodes)], nodes=nodes), csv_format),
    ]
    chance.choice(reading)()


def _series_rows(chance: random.Random) -> tuple[list[Row], bool]:
    times = _some_times(chance, chance.randint(0, 12))
    nodes = _some_names(chance, chance.randint(1, 6), is_clean=chance.random() < 0.6)
    is_long = chance.random() < 0.5
    if is_long:
        channels = chance.choice([["value"], ["value"], ["a", "value"], ["y", "=x"], []])
        rows = [[node, time, *(_number(chance) for _ in channels)] for time in times for node in nodes]
        if chance.random() < 0.3:
            chance.shuffle(rows)
        return [
            [chance.choice(["node", "node", "id", "x"]), chance.choice(["time", "time", "date", "t"]), *channels],
            *rows,
        ], True
    rows = [[chance.choice(["time", "date", "", "t", "A"]), *nodes]]
    return rows + [[time, *(_number(chance) for _ in nodes)] for time in times], False


def _some_names(chance: random.Random, count: int, *, is_clean: bool) -> list[str]:
    names = [chance.choice(NAMES if chance.random() < 0.4 else ["A", "B", "C", "D", "=E", "F 1"]) for _ in range(count)]
    if is_clean:
        return list(dict.fromkeys(name.strip() or "N" for name in names))
    return [*names, "nul\0"] if chance.random() < 0.05 else names


def _number(chance: random.Random) -> str:
    return chance.choice(NUMBERS) if chance.random() < 0.006 else f"{chance.uniform(-9, 9):.3g}"


def _some_times(chance: random.Random, count: int) -> Row:
    starts: list[Callable[[int], str]] = [
        lambda step: f"2024-01-{step + 1:02}",
        lambda step: f"2024-03-31 {step:02}:00",
        lambda step: f"2024-{step + 1:02}-01",
        lambda step: f"{2000 + step}",
        lambda step: str(step - 5),
        lambda step: f"{0.1 * step:.1f}",
        lambda step: f"2024-01-{step + 1:02}T00:00+01:00",
        lambda step: f"{step + 1}.12.2024",
        lambda step: f"2024-10-27 {step // 4:02}:{step % 4 * 15:02}",
        lambda step: f"202401{step + 1:02}",
        lambda step: str(-(10**9) + 86400 * step),
        lambda step: str(1e17 * step),
        lambda step: f"00{step:02}-01-01",
        lambda step: f"1/{step + 1}/2024 12:00",
    ]
    written = chance.choice(starts)
    times = [written(step) for step in range(count)]
    if chance.random() < 0.1:
        times = [chance.choice(TIMES) for _ in times]
    for position in range(len(times)):
        if chance.random() < 0.02:
            times[position] = chance.choice(TIMES)
    if times and chance.random() < 0.1:
        times.pop(chance.randrange(len(times)))
    if chance.random() < 0.1:
        chance.shuffle(times)
    return times


def _odd_format(chance: random.Random) -> CsvFormat:
    if chance.random() < 0.6:
        return CsvFormat()
    separator = chance.choice([None, None, ",", ";", "\t", chance.choice(SEPARATORS)])
    decimal = chance.choice([".", ".", ".", ","])
    encoding = chance.choice(["utf-8", "utf-8", chance.choice(ENCODINGS)])
    return CsvFormat(separator, decimal, encoding)


def _odd_file_name(chance: random.Random) -> str:
    plain = chance.choice(["cases.csv", "cases.csv", "a.txt", "cases.csv.gz", "cases.bz2", "=x.csv", "a\nb.csv"])
    return os.fsdecode(b"caf\xe9.csv") if chance.random() < 0.1 else plain


def _as_bytes(chance: random.Random, rows: list[Row], csv_format: CsvFormat) -> bytes:
    """Return the table as a file, perhaps with other characters between cells and rows, or damaged."""
    separator = csv_format.separator or chance.choice([",", ",", ",", ";", "\t"])
    line_break = chance.choice(["\n", "\n", "\n", "\r\n", "\r", "\n\n"])
    is_quoted = chance.random() < 0.8
    lines = [separator.join(_quoted(cell, separator) if is_quoted else cell for cell in row) for row in rows]
    if chance.random() < 0.1:
        lines.insert(
            chance.randint(0, len(lines)), chance.choice(["", " ", '"', "#", separator, "a,b", "\0", "\ufeff"])
        )
    text = line_break.join(lines) + (line_break if chance.random() < 0.7 else "")
    encoding = csv_format.encoding if chance.random() < 0.93 else chance.choice(ENCODINGS)
    content = _encoded(text, encoding)
    if chance.random() < 0.1:
        content = codecs.BOM_UTF8 + content
    for _ in range(chance.choice([0] * 25 + [1, 2, 5])):
        place = chance.randrange(len(content) + 1)
        content = (
            content[:place] + chance.choice([b"", chance.randbytes(1), b"\0", b'"', b"\xff"]) + content[place + 1 :]
        )
    return content if chance.random() < 0.98 else content[: chance.randrange(len(content) + 1)]


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "replace")
    except UnicodeError:
        return text.encode("utf-8", "replace")


def _quoted(cell: str, separator: str) -> str:
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if any(c in cell for c in (separator, '"', "\n", "\r")) else cell
