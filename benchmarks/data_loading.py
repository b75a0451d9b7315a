"""Measure how long a user waits for data: benchmark datasets on this machine, and a long table of two million rows.

The table holds 2,000 nodes x 1,000 steps as `id,time,value`, 96 MB of CSV. A separate process reads it, and the system
reports the peak memory of that process, imports included. Windows over the panel are views: their cost is the growth of
that process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import interleaved_medians
from tdegnn import load_nodes
from tdegnn.data.benchmarks.catalogue import find_benchmark
from tdegnn.data.benchmarks.fetch import locate

NODES, STEPS = 2000, 1000
# Longest time that a load may take, in seconds, with the files on this machine.
LIMITS = {"cora": 0.15, "pubmed": 0.7, "squirrel": 0.5}

READ = """
import json, sys, time

def memory(kind):
    # getrusage would not do: a child process inherits the peak of its parent.
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines[kind].split()[0]) * 1024 / 1e6

from tdegnn import read_panel
from tdegnn.data.windows import sliding_windows
import numpy as np

sliding_windows(np.zeros((40, 1, 1)), 24, 12)  # the memory that torch takes at its first call is not that of windows
started = time.perf_counter()
panel = read_panel(sys.argv[1])
seconds = time.perf_counter() - started
peak = memory("VmHWM")
assert panel.values.shape == (1000, 2000, 1) and panel.observed.all()
before = memory("VmRSS")
windows = sliding_windows(panel.values, 24, 12)
total = sum(float(target[-1, -1, -1]) for target in windows.targets)
print(json.dumps({"seconds": seconds, "peak": peak, "windows": memory("VmRSS") - before, "count": len(windows)}))
"""


def measure() -> Iterator[tuple[str, float, str, float]]:
    here = [name for name in LIMITS if all(locate(file) for file in find_benchmark(name).files)]
    for name in set(LIMITS) - set(here):
        print(f"left out: {name} is not on this machine (tdegnn data fetch {name}, or set TDEGNN_MIRROR)")
    contestants = {name: lambda name=name: load_nodes(name) for name in here}
    for name, seconds in interleaved_medians(contestants, repetitions=5, warm_up=1).items():
        yield f"warm load of {name}", seconds, "s", LIMITS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.csv")
        _write_long_table(path)
        runs = [_read_in_a_process(path) for _ in range(3)]
    middle = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
    yield "2,000,000 rows of CSV to a Panel", middle["seconds"], "s", 3.0
    yield "its peak memory, imports included", middle["peak"], "MB", 1000.0
    yield f"memory of its {middle['count']:,.0f} windows", middle["windows"], "MB", 2.0


def _write_long_table(path: Path) -> None:
    times = pd.date_range("2020-01-01", periods=STEPS, freq="h").strftime("%Y-%m-%d %H:%M")
    names = [f"sensor_{node}" for node in range(NODES)]
    values = np.random.default_rng(0).normal(size=STEPS * NODES)
    frame = pd.DataFrame({"id": np.tile(names, STEPS), "time": np.repeat(times, NODES), "value": values})
    frame.to_csv(path, index=False)


def _read_in_a_process(path: Path) -> dict[str, float]:
    result = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True)
    numbers: dict[str, float] = json.loads(result.stdout)
    return numbers
