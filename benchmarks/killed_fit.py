"""Kill `tdegnn fit` on a large table again and again: when does it show itself, and does it end with the same forecast?

The table has 2,000 nodes and 3,000 hours, as a CSV file. One fit runs to its end, and its output goes to files. Another
one is killed (SIGKILL) while it reads the table, then several times later, each time a share of the first fit's time
after it was resumed, and is resumed until it ends. Fits make fewer optimizer steps than by default: all stages are the
same, and their order is. `python -m benchmarks killed_fit` takes some minutes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv

NUM_NODES, NUM_STEPS, DEGREE, DAY = 2000, 3000, 8, 24
# Optimizer steps of both trainings at most, and when a resumed fit is killed, as a share of the time of a whole one.
TRAINING_STEPS, KILLED_AT = 100, (0.3, 0.3, 0.25)
# Seconds after which the first process is killed. It reads the table then.
WHILE_READING = 5.0


def measure() -> Iterator[tuple[str, float, str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tables(folder)
        whole = _Fit(folder, "whole")
        seconds = whole.wait()
        size = f"{NUM_NODES:,} nodes x {NUM_STEPS:,} steps from a CSV file"
        yield f"run folder of {size}", whole.folder_after, "s", 5.0
        yield "its first line of progress", whole.line_after, "s", 5.0
        num_kills = 0
        for moment in (WHILE_READING, *(share * seconds for share in KILLED_AT)):
            num_kills += _Fit(folder, "parts").kill_after(moment)
        _Fit(folder, "parts").wait()
        assert num_kills == 1 + len(KILLED_AT), "a fit ended before it was killed"
        forecasts = [_forecast(folder, run) for run in ("whole", "parts")]
        differences = sum(left != right for left, right in zip(*forecasts, strict=True))
        yield f"rows of its forecast that differ after {num_kills} kills", float(differences), "", 0.0


def _write_tables(folder: Path) -> None:
    draw = np.random.default_rng(0)
    values = np.cumsum(0.01 * draw.standard_normal((NUM_STEPS, NUM_NODES)), axis=0)
    values += np.sin(2 * np.pi * np.arange(NUM_STEPS) / DAY)[:, None] * draw.random(NUM_NODES)
    values = (values + 0.3 * draw.standard_normal(values.shape)).round(3)
    times = pd.date_range("2020-01-01", periods=NUM_STEPS, freq="h").strftime("%Y-%m-%d %H:%M")
    columns = {"time": times.to_numpy(), **{f"n{node}": values[:, node] for node in range(NUM_NODES)}}
    pyarrow.csv.write_csv(pyarrow.table(columns), folder / "series.csv")
    ends = draw.integers(0, NUM_NODES, (DEGREE * NUM_NODES, 2))
    lines = [f"n{source},n{target}" for source, target in ends[ends[:, 0] != ends[:, 1]]]
    (folder / "edges.csv").write_text("\n".join(["source,target", *dict.fromkeys(lines)]) + "\n")


class _Fit:
    """A process that fits, begun or resumed."""

    def __init__(self, folder: Path, run: str) -> None:
        self._run, self._began = folder / run, time.monotonic()
        command = [sys.executable, "-m", "tdegnn", "fit", "series.csv", "--edges", "edges.csv", "--horizon", "12"]
        command += ["--steps", str(TRAINING_STEPS), "--out", run, "--resume", "--device", "cpu"]
        self._errors = (folder / f"{run}.txt").open("w+b")
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=self._errors)
        self.folder_after = self.line_after = float("inf")

    def wait(self) -> float:
        """Return the seconds until its end."""
        self._watch(float("inf"))
        if self._process.returncode != 0:
            raise RuntimeError(self._said())
        return time.monotonic() - self._began

    def kill_after(self, seconds: float) -> bool:
        """Kill it. Return whether it was still running."""
        self._watch(seconds)
        self._process.send_signal(signal.SIGKILL)
        return self._process.wait() != 0

    def _watch(self, seconds: float) -> None:
        while self._process.poll() is None and time.monotonic() - self._began < seconds:
            now = time.monotonic() - self._began
            if self._run.is_dir():
                self.folder_after = min(self.folder_after, now)
            if self._said():
                self.line_after = min(self.line_after, now)
            time.sleep(0.02)

    def _said(self) -> str:
        return Path(self._errors.name).read_text()


def _forecast(folder: Path, run: str) -> list[str]:
    file = folder / f"{run}.csv"
    command = [sys.executable, "-m", "tdegnn", "predict", run, "--out", file.name, "--quiet"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return file.read_text().splitlines()
