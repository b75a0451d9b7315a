"""Tables that are not as they should be, and what a user sees of each.

What is seen is written in docs/when_a_table_is_wrong.md, a row a case: a test runs every case through the command
line and compares. `python -m tests.data.broken_inputs` writes the page anew; read it before you commit it.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

PAGE = Path(__file__).parents[2] / "docs" / "when_a_table_is_wrong.md"

INTRODUCTION = """# When a table is not as it should be

`tdegnn data check SERIES --edges EDGES` reads your files and tells what is in them. For a mistake it prints one line:
what was expected, what was found and where, and what to do. The exit code is 2, and no file of yours is changed. In
Python, `read_panel` raises an `InputError` with the same words, with arguments instead of options; notes are in
`panel.notes`.

`tests/data/test_broken_inputs.py` compares this page with the output of the program.
"""

WIDE = "time,A,B,C\n" + "".join(f"2024-01-{day:02},{day},{2 * day % 7},{day % 5}\n" for day in range(1, 21))
LONG = "node,time,value\n" + "".join(
    f"{node},2024-01-{day:02},{day % 6 + shift}\n" for day in range(1, 21) for shift, node in enumerate("ABC")
)
EDGES = "source,target\nA,B\nB,C\n"
Content = str | bytes | Callable[[Path], None] | None


@dataclass(frozen=True)
class Case:
    """Files as they are, and what is said on the command line."""

    title: str
    series: Content = WIDE
    edges: Content = None
    options: tuple[str, ...] = field(default=())
    more: dict[str, str] = field(default_factory=dict)
    series_name: str = "cases.csv"
    edges_name: str = "borders.csv"

    def write(self, folder: Path) -> list[str]:
        """Write the files; return the arguments of the command."""
        arguments = ["data", "check", self.series_name]
        _put(folder / self.series_name, self.series)
        if self.edges is not None:
            _put(folder / self.edges_name, self.edges)
            arguments += ["--edges", self.edges_name]
        for name, content in self.more.items():
            _put(folder / name, content)
        # The tables are short.
        return [*arguments, "--horizon", "1", *self.options]


def _put(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _changed(old: str, new: str, text: str = WIDE) -> str:
    assert old in text
    return text.replace(old, new)


def _hourly_without_zone(day: str) -> str:
    """Three days of hours as the clocks of Berlin show them, around a change."""
    hours = pd.date_range(day, periods=72, freq="h", tz="Europe/Berlin").tz_localize(None)
    return "time,A,B\n" + "".join(f"{hour},{position % 5},{position % 3}\n" for position, hour in enumerate(hours))


def _parquet(**columns: object) -> Callable[[Path], None]:
    return lambda path: pd.DataFrame(columns).to_parquet(path)


def _beyond_calendar(path: Path) -> None:
    times = pa.array([2**62 + step for step in range(3)], pa.timestamp("us"))
    pyarrow.parquet.write_table(pa.table({"time": times, "A": [1.0, 2.0, 3.0]}), path)


def _no_permission(path: Path) -> None:
    path.write_text(WIDE)
    path.chmod(0)


PLACES = ("--coordinates", "places.csv", "--neighbors", "1")
DAYS = [f"2024-01-{day:02}" for day in range(1, 21)]
REFUSED = [
    # files
    Case("no such file", series=None),
    Case("a folder", series=Path.mkdir, series_name="cases"),
    Case("no permission", series=_no_permission),
    Case("empty file", series=""),
    Case("header only", series="time,A,B\n"),
    Case("a spreadsheet", series=b"PK\x03\x04 spreadsheet", series_name="cases.xlsx"),
    Case("UTF-16", series=WIDE.encode("utf-16")),
    Case("Latin-1", series=_changed("time,A", "time,Zürich").encode("latin-1")),
    Case("another encoding than given", options=("--encoding", "utf-16")),
    Case("an encoding that is none of text", options=("--encoding", "zip")),
    Case("bytes that are not text", series=b"\x00\x01\x02\x03" * 40),
    Case("damaged Parquet file", series=b"PAR1 cut off", series_name="cases.parquet"),
    # columns
    Case("wrong separator", series=_changed(",", ":")),
    Case("another separator than given", options=("--separator", ";")),
    Case("ragged row", series=_changed("2024-01-05,5,3,0", "2024-01-05,5,3")),
    Case("a comma too many", series=_changed("2024-01-05,5,3,0", "2024-01-05,5,3,0,")),
    Case("same column twice", series=_changed("time,A,B,C", "time,A,B,A")),
    Case("column without a name", series=_changed("time,A,B,C", "time,A,,C")),
    Case("no such column", series=LONG, options=("--value", "sales")),
    Case("long table, unknown column of nodes", series=_changed("node,", "county,", LONG)),
    Case("long table without a column of times", series=_changed("time", "when", LONG)),
    Case("long table without values", series="node,time\nA,2024-01-01\n"),
    # numbers
    Case("text in numbers", series=_changed("2024-01-05,5,", "2024-01-05,five,")),
    Case("decimal commas", series=_changed(",", ";").replace(";5;", ";5,5;")),
    Case("thousands separators", series=_changed("2024-01-05,5,", '2024-01-05,"1,500",')),
    Case("infinite value", series=_changed("2024-01-05,5,", "2024-01-05,inf,")),
    Case("huge value", series=_changed("2024-01-05,5,", "2024-01-05,1e300,")),
    Case("nothing observed at all", series="time,A,B\n" + "".join(f"{day},,\n" for day in DAYS)),
    Case(
        "Parquet with text for numbers",
        series=_parquet(time=pd.to_datetime(DAYS), A=["x"] * 20),
        series_name="cases.parquet",
    ),
    # nodes
    Case("row without a node", series=_changed("B,2024-01-03", ",2024-01-03", LONG)),
    Case("node and time swapped", series=LONG, options=("--node", "time", "--time", "node")),
    Case(
        "Parquet with numbers for names",
        series=_parquet(node=[0.5, 1.5] * 10, time=pd.to_datetime(DAYS), value=range(20)),
        series_name="cases.parquet",
    ),
    # times
    Case("row without a time", series=_changed("2024-01-05,", ",")),
    Case("text in times", series=_changed("2024-01-05,", "yesterday,")),
    Case("a date that does not exist", series=_changed("2024-01-05,", "2024-02-31,")),
    Case("a number among dates", series=_changed("2024-01-05,", "-1,")),
    Case("dates that no calendar has", series=_beyond_calendar, series_name="cases.parquet"),
    Case("day or month first?", series="time,A\n" + "".join(f"{n:02}/01/2024,{n}\n" for n in range(1, 13))),
    Case("dates in two ways", series=_changed("2024-01-05,", "05.01.2024,")),
    Case("times in another format than given", options=("--time-format", "%d/%m/%Y")),
    Case("duplicate timestamp, wide", series=_changed("2024-01-05,", "2024-01-04,")),
    Case("duplicate timestamp, long", series=_changed("B,2024-01-03", "B,2024-01-02", LONG)),
    Case("irregular steps", series=_changed("2024-01-05,", "2024-01-05 07:00,")),
    Case("mistyped year", series=_changed("2024-01-20,", "2042-01-20,")),
    Case("mixed time zones", series="time,A\n2024-01-01T10:00+01:00,1\n2024-01-01T10:00+02:00,2\n"),
    Case("zone on some times only", series="time,A\n2024-01-01T10:00+01:00,1\n2024-01-01T11:00,2\n"),
    Case("no such time zone", options=("--time-zone", "Europe/Berln")),
    Case("time zone for numbers", series="time,A\n1,1\n2,2\n", options=("--time-zone", "UTC")),
    Case("the hour that occurs twice", series=_hourly_without_zone("2024-10-26")),
    Case(
        "an hour that the clocks skip",
        series="time,A\n2024-03-31 01:00,1\n2024-03-31 02:00,2\n",
        options=("--time-zone", "Europe/Berlin"),
    ),
    Case("series shorter than the window", options=("--window", "24")),
    Case("too few steps to split", options=("--window", "15")),
    # edges
    Case("node in edges but not in series", edges=_changed("B,C", "B,D", EDGES)),
    Case("node spelled otherwise", series=_changed("A,B,C", "Paris,Rome,Bonn"), edges="source,target\nParis,Rom\n"),
    Case("positions for names", edges="source,target\n0,1\n1,2\n"),
    Case("1-based indices", series=_changed("A,B,C", "0,1,2"), edges="source,target\n1,2\n2,3\n"),
    Case("edge without a target", edges=_changed("B,C", "B,", EDGES)),
    Case("negative weight", edges="source,target,weight\nA,B,1\nB,C,-2\n"),
    Case("NaN weight", edges="source,target,weight\nA,B,1\nB,C,nan\n"),
    Case("text for a weight", edges="source,target,weight\nA,B,strong\n"),
    Case("distances for weights", edges="source,target,distance\nA,B,12.5\n"),
    Case("edges with one column", edges="source\nA\n"),
    Case("matrix that is not square", edges=",A,B,C\nA,0,1,0\nB,1,0,1\n"),
    Case("matrix with a negative weight", edges=",A,B,C\nA,0,-1,0\nB,1,0,1\nC,0,1,0\n"),
    Case("matrix of another size", edges=lambda path: np.save(path, np.ones((4, 4))), edges_name="borders.npy"),
    Case("edges file with pickled objects", edges=lambda path: np.save(path, np.array([{}])), edges_name="b.npy"),
    Case("empty edges file", edges=""),
    Case("edges and coordinates", edges=EDGES, options=PLACES, more={"places.csv": "node,x,y\nA,1,2\n"}),
    # edges that change
    Case("edges at a time between two steps", edges="source,target,time\nA,B,2024-01-01\nB,C,2024-01-03 12:00\n"),
    Case("no edges at the first step", edges="source,target,time\nA,B,2024-01-02\nB,C,2024-01-03\n"),
    Case("times of edges of another kind", edges="source,target,time\nA,B,1\nB,C,2\n"),
    Case("edge without a time", edges="source,target,time\nA,B,2024-01-01\nB,C,\n"),
    Case("no such column of times of edges", edges=EDGES, options=("--edge-time", "since")),
    # coordinates in place of edges
    Case("node without coordinates", options=PLACES, more={"places.csv": "node,x,y\nA,1,2\nB,3,4\n"}),
    Case("coordinates missing", options=PLACES, more={"places.csv": "node,x,y\nA,1,2\nB,,4\nC,1,1\n"}),
    Case(
        "latitude and longitude swapped",
        options=PLACES,
        more={"places.csv": "node,lat,lon\nA,151.2,-33.9\nB,144.9,-37.8\nC,153.0,-27.5\n"},
    ),
    Case(
        "one node has no neighbors",
        series="time,A\n1,1\n2,3\n",
        options=PLACES,
        more={"places.csv": "node,x\nA,1\n"},
    ),
]
USED = [
    Case("BOM", series=b"\xef\xbb\xbf" + WIDE.encode()),
    Case("unsorted times", series="time,A,B,C\n" + "".join(reversed(WIDE.splitlines(keepends=True)[1:]))),
    Case("gap", series=_changed("2024-01-05,5,3,0\n", "")),
    Case("a missing value", series=_changed("2024-01-05,5,", "2024-01-05,,")),
    Case(
        "business days",
        series="time,A,B\n"
        + "".join(
            f"{day:%Y-%m-%d},{day.day % 4},{day.day % 3}\n" for day in pd.date_range("2024-01-01", periods=20, freq="B")
        ),
    ),
    Case("the hour that the clocks skip", series=_hourly_without_zone("2024-03-30")),
    Case("tiny values", series="time,A,B\n" + "".join(f"{day},{n % 5}e-200,{n % 3}\n" for n, day in enumerate(DAYS))),
    Case("constant node", series="time,A,B\n" + "".join(f"{day},5,{n % 3}\n" for n, day in enumerate(DAYS))),
    Case("node never observed", series="time,A,B\n" + "".join(f"{day},,{n % 3}\n" for n, day in enumerate(DAYS))),
    Case("one node", series="time,A\n" + "".join(f"{day},{n % 3}\n" for n, day in enumerate(DAYS))),
    Case("self-loop", edges=EDGES + "A,A\n"),
    Case("duplicate edges", edges=EDGES + "A,B\n"),
    Case("duplicate weighted edges", edges="source,target,weight\nA,B,1\nB,C,2\nA,B,3\n"),
    Case("node in series but not in edges", edges="source,target\nA,B\n"),
    Case("edges that change", edges="source,target,date\nA,B,2023-12-01\nB,C,2023-12-01\nA,B,2024-01-09\n"),
    Case("edges after the last step", edges="source,target,time\nA,B,2024-01-01\nB,C,2024-01-01\nA,C,2025-01-01\n"),
]


def run(case: Case, folder: Path) -> tuple[int, str]:
    """Run the command on a case; return its exit code and what it says: the error, or the notes."""
    from tdegnn.cli import main

    arguments = case.write(folder)
    out, err = io.StringIO(), io.StringIO()
    # To root nothing is forbidden: there, what the system would answer is put in its place.
    forbidden = mock.patch("os.access", lambda path, mode: Path(path).stat().st_mode & 0o400 > 0)
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), forbidden:
        try:
            main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    notes = [line for line in out.getvalue().splitlines() if line.startswith("Note: ")]
    return code, err.getvalue() or "\n".join(notes)


def read_page() -> dict[str, str]:
    """What the page says for each case."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: row[1].strip("`").replace("` `", "\n") for row in rows if len(row) == 2}


def write_page() -> None:
    """Write the page from what the command says."""
    lines = [INTRODUCTION]
    for heading, cases in (("## What is refused", REFUSED), ("## What is used, with a note", USED)):
        lines += [heading, "", "| the table | what you see |", "|---|---|"]
        for case in cases:
            with tempfile.TemporaryDirectory() as folder:
                seen = run(case, Path(folder))[1].strip()
            cell = " ".join(f"`{line}`" for line in seen.splitlines()) or "nothing: it is read as it should be"
            lines.append(f"| {case.title} | {cell} |")
        lines.append("")
    PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    write_page()
