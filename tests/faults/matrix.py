"""All faults: what is tried, how often, and the table of what survived."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.faults import full_disk, kills, races
from tests.faults.fuzz import NAMES, count_inputs, find_fuzzers, read_corpus, try_seeds
from tests.faults.nursery import ROOT
from tests.faults.works import has_database, scratch

RESULTS, PAGE = ROOT / "results" / "faults.json", ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
PACKAGES = ("torch", "numpy", "scipy", "pandas", "pyarrow", "optuna", "filelock", "safetensors")
KILLED, INTERRUPTED, FULL = "killed", "interrupted (Ctrl-C)", "disk full"
RACED, FUZZED = "at the same time", "random or damaged"
# How often each is tried, and how often in a short run.
KILLS = {
    "fit": (30, 2),
    "classify": (30, 2),
    "reproduce": (25, 1),
    "save": (30, 2),
    "predict, csv": (15, 1),
    "predict, parquet": (15, 1),
    "download": (25, 2),
    "sweep, journal": (30, 2),
    "sweep, sqlite": (15, 1),
    "sweep, PostgreSQL": (15, 1),
}
NUM_INTERRUPTS, NUM_SHORT_INTERRUPTS = 10, 1
DISKS = {"run folder": (60, 3), "journal": (60, 3), "sqlite": (12, 1)}
NUM_RACES, NUM_SHORT_RACES = 8, 1
INPUTS: dict[str, tuple[str, int | None]] = {
    "array_fuzz": ("NumPy, SciPy and Parquet files", 6000),
    "table_fuzz": ("tables", 20_000),
    "vector_fuzz": ("vectors on the command line", 5000),
    "folder_damage": ("run folders with damaged, lost or exchanged files", 2000),
    "folder_flips": ("run folders with a flipped bit", 10_000),
    "folder_edits": ("run folders with an edited entry in a JSON file", None),  # all there are
}
NUM_SHORT_INPUTS = 100
MOST_FAILURES = 5


@dataclass
class Row:
    """A line of the table.

    Attributes:
        fault: What happened.
        what: To what it happened.
        num_tried: How often it was tried.
        num_survived: How often nothing was lost, wrong or said in a traceback.
        seconds: How long it took.
        seed: The first seed.
        failures: The first few failures.
        note: Why it was not tried.
    """

    fault: str
    what: str
    num_tried: int = 0
    num_survived: int = 0
    seconds: float = 0.0
    seed: int = 0
    failures: list[str] = field(default_factory=list)
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return f"{self.fault}: {self.what}: {self.note}"
        return f"{self.fault}: {self.what}: {self.num_survived:,} of {self.num_tried:,}, {self.seconds:.0f} s"


def run_rows(seed: int, *, is_short: bool, only: str | None = None) -> Iterator[Row]:
    """Try everything, or what has `only` in its name, and yield a row for each kind."""
    for make in _plan(seed, is_short=is_short):
        fault, what = make.args[:2]
        if only is None or only in (fault, what):
            yield make()


def row_names() -> list[tuple[str, str]]:
    """Return fault and kind of all rows, in the order of the table."""
    return [(make.args[0], make.args[1]) for make in _plan(0, is_short=True)]


def _plan(seed: int, *, is_short: bool) -> Iterator[partial[Row]]:
    for kind, counts in KILLS.items():
        if kind == "sweep, PostgreSQL" and not has_database():
            yield partial(Row, KILLED, kind, note="not tried: pgserver is not installed")
            continue
        yield partial(_repeat, KILLED, kind, partial(kills.kill_and_compare, kind), counts[is_short], seed)
    for kind in kills.INTERRUPTED:
        num_interrupts = NUM_SHORT_INTERRUPTS if is_short else NUM_INTERRUPTS
        interrupt = partial(kills.interrupt_and_compare, kind)
        yield partial(_repeat, INTERRUPTED, kind, interrupt, num_interrupts, seed)
    for kind, counts in DISKS.items():
        yield partial(_repeat, FULL, kind, partial(full_disk.fill_and_compare, kind), counts[is_short], seed)
    for kind in races.RACES:
        num_races = NUM_SHORT_RACES if is_short else NUM_RACES
        yield partial(_repeat, RACED, kind, partial(races.race, kind), num_races, seed)
    for name in NAMES:
        what, num_inputs = INPUTS[name]
        if name not in find_fuzzers():
            yield partial(Row, FUZZED, what, note=f"not tried: {name}.py is missing")
            continue
        yield partial(_fuzz, FUZZED, what, name, NUM_SHORT_INPUTS if is_short else num_inputs, seed)


def _repeat(fault: str, what: str, try_one: Callable[[int, Path], str], num_tries: int, seed: int) -> Row:
    row, begun = Row(fault, what, seed=seed), time.monotonic()
    for number in range(seed, seed + num_tries):
        row.num_tried += 1
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            try:
                try_one(number, Path(folder))
            except Exception as error:
                message = f"seed {number}: {type(error).__name__}: {' '.join(str(error).split())}"
                row.failures.append(_without_paths(message))
            else:
                row.num_survived += 1
    del row.failures[MOST_FAILURES:]
    row.seconds = round(time.monotonic() - begun, 1)
    return row


def _fuzz(fault: str, what: str, name: str, num_inputs: int | None, seed: int) -> Row:
    begun = time.monotonic()
    num_inputs = count_inputs(name) if num_inputs is None else num_inputs
    tries = try_seeds(name, [*read_corpus(name), *range(seed, seed + num_inputs)])
    failures = [_without_paths(f"seed {number}: {text}") for number, text in tries.failures.items()]
    survived = tries.num_tried - len(failures)
    seconds = round(time.monotonic() - begun, 1)
    return Row(fault, what, tries.num_tried, survived, seconds, seed, failures[:MOST_FAILURES])


def _without_paths(message: str) -> str:
    for place in (scratch(), ROOT, Path(tempfile.gettempdir()), Path.home()):
        message = message.replace(str(place), "")
    return message[:300]


def describe_platform() -> dict[str, Any]:
    """Return what the results depend on: versions and the kind of machine, and nothing about this one."""
    packages = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **packages, "system": f"{platform.system()} {platform.machine()}"}


def to_record(rows: list[Row]) -> dict[str, Any]:
    """Return the content of results/faults.json."""
    return {"versions": describe_platform(), "rows": [asdict(row) for row in rows]}


def render_table(record: dict[str, Any]) -> str:
    """Return the table of docs/reliability.md."""
    lines = ["| what happened | to | tried | survived |", "|---|---|--:|--:|"]
    for row in (Row(**row) for row in record["rows"]):
        tried = f"{row.num_tried:,}" if row.num_tried else row.note
        lines.append(f"| {row.fault} | {row.what} | {tried} | {f'{row.num_survived:,}' if row.num_tried else ''} |")
    versions = record["versions"]
    made_with = ", ".join(f"{name} {versions[name]}" for name in ("torch", "numpy", "optuna"))
    lines += ["", f"Made with `make faults` on {versions['system']}, Python {versions['python']}, {made_with}."]
    return "\n".join(lines)


def put_into_page(page: str, table: str) -> str:
    """Return the page with another table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
