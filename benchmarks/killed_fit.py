"""Kill `tdegnn fit` again and again: when does it show itself, and does it end with the same forecast?

Two tables, as CSV files: 2,000 nodes and 3,000 hours, and 100 nodes and 500 hours. Each is fitted to the end, and once
more: that is killed (SIGKILL) in its first seconds, then several times later, each time a share of the first fit's time
after it was resumed. The large table is fitted as the command does without a word, whose time and memory are measured;
the small one with few optimizer steps. The fit of the large table is killed for the first time when there are a run
folder and a line of progress. Output goes to files; where a fit was killed is printed.

`python -m benchmarks killed_fit` takes half an hour on two busy cores, `killed_fit.small` a few minutes of it, and
`killed_fit.large` the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv

# Nodes and hours.
LARGE, SMALL = (2000, 3000), (100, 500)
DEGREE, DAY = 8, 24
# Options of the fits: none for the large table, and few optimizer steps for the small one.
USUAL, QUICK = (), ("--steps", "40")
# Seconds and megabytes that the whole command may take on the large table, on two cores.
MOST_SECONDS, MOST_MEGABYTES = 900.0, 4000.0
# When a resumed fit is killed, as a share of the time of a whole one. Later and later, because a trial of networks that
# was killed begins again; the last time, networks have been tried, and little is left.
KILLED_AT = (0.15, 0.35, 0.6, 0.25)
# Seconds that a fit has to show itself, and after which another one is killed. It imports or reads then.
PROMISED, AT_FIRST = 5.0, 4.0
# Seconds that are waited for the first line at most.
LONGEST = 60.0
# Run folders of the fit that nobody kills, and of the other one.
WHOLE, PARTS = "whole", "parts"


def measure() -> Iterator[tuple[str, float, str, float]]:
    yield from measure_large()
    yield from measure_small()


def measure_large() -> Iterator[tuple[str, float, str, float]]:
    with _tables(*LARGE) as folder:
        first = _Fit(folder, PARTS, USUAL)
        first.kill_when_it_shows()
        yield f"run folder of {_size(LARGE)} from a CSV file", first.folder_after, "s", PROMISED
        yield "its first line of progress", first.line_after, "s", PROMISED
        whole = _Fit(folder, WHOLE, USUAL).wait()
        yield f"a default fit of {_size(LARGE)}, the whole command", whole.seconds, "s", MOST_SECONDS
        yield "its peak memory", whole.megabytes, "MB", MOST_MEGABYTES
        yield _compare_forecasts(folder, LARGE, USUAL, whole, 1, ())


def measure_small() -> Iterator[tuple[str, float, str, float]]:
    with _tables(*SMALL) as folder:
        whole = _Fit(folder, WHOLE, QUICK).wait()
        yield _compare_forecasts(folder, SMALL, QUICK, whole, 0, (AT_FIRST,))


class _Whole(NamedTuple):
    """What a whole fit took."""

    seconds: float
    cpu_seconds: float
    megabytes: float


def _compare_forecasts(
    folder: Path,
    size: tuple[int, int],
    options: tuple[str, ...],
    whole: _Whole,
    num_kills: int,
    moments: tuple[float, ...],
) -> tuple[str, float, str, float]:
    """Fit the tables in a folder in parts, and return how many rows of the forecast differ from those of a whole fit.

    Args:
        folder: Where the tables are.
        size: Their nodes and hours.
        options: Options of the fits.
        whole: What the whole fit took.
        num_kills: How often the fit in parts has been killed before.
        moments: Seconds after which it is killed, before it is killed at shares of the time of the whole fit.
    """
    print(f"  {_size(size)}: a whole fit took {whole.seconds:.0f} s, {whole.cpu_seconds:.0f} s of a CPU", flush=True)
    moments = (*moments, *(share * whole.seconds for share in KILLED_AT))
    num_kills += sum(_Fit(folder, PARTS, options).kill_after(moment) for moment in moments)
    _Fit(folder, PARTS, options).wait()
    forecasts = [_forecast(folder, run) for run in (WHOLE, PARTS)]
    differences = sum(left != right for left, right in zip(*forecasts, strict=True))
    return f"rows that differ in the forecast of {_size(size)} after {num_kills} kills", float(differences), "", 0.0


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]:,} nodes x {size[1]:,} steps"


@contextmanager
def _tables(num_nodes: int, num_steps: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        _write_tables(Path(name), num_nodes, num_steps)
        yield Path(name)


def _write_tables(folder: Path, num_nodes: int, num_steps: int) -> None:
    draw = np.random.default_rng(0)
    values = np.cumsum(0.01 * draw.standard_normal((num_steps, num_nodes)), axis=0)
    values += np.sin(2 * np.pi * np.arange(num_steps) / DAY)[:, None] * draw.random(num_nodes)
    values = (values + 0.3 * draw.standard_normal(values.shape)).round(3)
    times = pd.date_range("2020-01-01", periods=num_steps, freq="h").strftime("%Y-%m-%d %H:%M")
    columns = {"time": times.to_numpy(), **{f"n{node}": values[:, node] for node in range(num_nodes)}}
    pyarrow.csv.write_csv(pyarrow.table(columns), folder / "series.csv")
    ends = draw.integers(0, num_nodes, (DEGREE * num_nodes, 2))
    lines = [f"n{source},n{target}" for source, target in ends[ends[:, 0] != ends[:, 1]]]
    (folder / "edges.csv").write_text("\n".join(["source,target", *dict.fromkeys(lines)]) + "\n")


class _Fit:
    """A process that fits, begun or resumed."""

    def __init__(self, folder: Path, run: str, options: tuple[str, ...]) -> None:
        self._run, self._began = folder / run, time.monotonic()
        command = [sys.executable, "-m", "tdegnn", "fit", "series.csv", "--edges", "edges.csv", "--horizon", "12"]
        command += [*options, "--out", run, "--resume", "--device", "cpu"]
        self._errors = (folder / f"{run}.txt").open("w+b")
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=self._errors)
        self.folder_after = self.line_after = float("inf")

    def wait(self) -> _Whole:
        """Return the seconds until its end, and the most memory that it had."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode != 0:
            raise RuntimeError(self._said())
        # In units of 1,024 bytes, on macOS in bytes.
        num_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return _Whole(time.monotonic() - self._began, usage.ru_utime + usage.ru_stime, num_bytes / 1e6)

    def kill_when_it_shows(self) -> None:
        """Kill it as soon as it has a folder and has printed a line."""
        while self._process.poll() is None and max(self.folder_after, self.line_after) > LONGEST:
            self._watch(time.monotonic() - self._began + 0.02)
        self.kill_after(0.0)

    def kill_after(self, seconds: float) -> bool:
        """Kill it. Return whether it was still running."""
        self._watch(seconds)
        self._process.send_signal(signal.SIGKILL)
        is_killed = self._process.wait() != 0
        lines = self._said().splitlines()
        where = f"its last line was {lines[-1]!r}" if lines else "it had said nothing"
        how = "killed" if is_killed else "at its end before it was killed,"
        print(f"  {how} after {time.monotonic() - self._began:.1f} s: {where}", flush=True)
        return is_killed

    def _watch(self, seconds: float) -> None:
        while self._process.poll() is None and time.monotonic() - self._began < seconds:
            now = time.monotonic() - self._began
            if self._run.is_dir():
                self.folder_after = min(self.folder_after, now)
            if self._said():
                self.line_after = min(self.line_after, now)
            time.sleep(0.01)

    def _said(self) -> str:
        return Path(self._errors.name).read_text()


def _forecast(folder: Path, run: str) -> list[str]:
    file = folder / f"{run}.csv"
    command = [sys.executable, "-m", "tdegnn", "predict", run, "--out", file.name, "--quiet"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return file.read_text().splitlines()
