"""Measure whether a fit keeps its time budget: `Forecaster(horizon=12, time_budget=...)`, from the call to its result.

Small and larger panels of hours, and the first 80 % of a week of traffic, with budgets that are too short for all
steps. Each fit has a process of its own with one CPU thread: several wait for each other on a busy machine, where a
step may take fifty times as long from one moment to the next. A fit that is quicker than its budget leaves steps
undone: the share should not be far below one either.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

FIT = """
import json, sys, time
import numpy as np
import pandas as pd
from tdegnn import Forecaster, Graph, Panel
from tdegnn.data.benchmarks.load import load_panel

def make_panel(num_nodes, num_steps):
    draw = np.random.default_rng(0)
    values = np.cumsum(0.01 * draw.standard_normal((num_steps, num_nodes)), axis=0)
    values += np.sin(2 * np.pi * np.arange(num_steps) / 24)[:, None] * draw.random(num_nodes)
    values += 0.3 * draw.standard_normal(values.shape)
    graph = Graph(draw.integers(0, num_nodes, (2, 8 * num_nodes)), num_nodes)
    return Panel.from_array(values, times=pd.date_range("2020-01-01", periods=num_steps, freq="h"), graph=graph)

budget, *sizes = json.loads(sys.argv[1])
if sizes:
    panel = make_panel(*sizes)
else:
    week = load_panel("la-week")
    panel = week[: int(0.8 * week.num_steps)]
started = time.perf_counter()
model = Forecaster(horizon=12, time_budget=budget, device="cpu").fit(panel)
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "steps": model.history_[-1]["step"], "network": model.network_choice_.name}))
"""
# Seconds, and numbers of nodes and steps. Without sizes: a week of traffic.
TASKS: dict[str, tuple[int, ...]] = {
    "20 nodes x 600 steps in 10 s": (10, 20, 600),
    "100 nodes x 800 steps in 20 s": (20, 100, 800),
    "100 nodes x 800 steps in 40 s": (40, 100, 800),
    "80 % of a week of traffic in 60 s": (60,),
}
GOAL = 1.2


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    for name, task in TASKS.items():
        numbers = _in_a_process(task)
        yield f"fit / budget: {name}", numbers["seconds"] / task[0], "x", GOAL
        yield f"its steps, of the network {numbers['network']}", numbers["steps"], ""


def _in_a_process(task: tuple[int, ...]) -> dict[str, Any]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    result = subprocess.run(
        [sys.executable, "-c", FIT, json.dumps(task)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads | {"CUDA_VISIBLE_DEVICES": ""},
    )
    numbers: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return numbers
