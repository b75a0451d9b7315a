"""Measure `Forecaster(horizon=12)` on a large panel, and how many forecasts a second it makes on a small one.

The large panel has 2,000 nodes and 3,000 hours. A separate process with two CPU threads fits it with the default
settings, and the system reports the peak memory of that process, imports included. Before the training, the window is
chosen and the linear skip is solved; these two are also measured alone, on one thread, and on a long panel of 300 nodes
and 50,000 hours, with windows of up to 512 steps, which take longest. The long panel is also fitted in a process of its
own, on one thread, in a time budget of five minutes. The small panel has the size of a week of traffic: 207 nodes,
2,016 steps of 5 minutes.
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
import torch
from tdegnn import Forecaster, Graph, Panel
from tdegnn.data.times.seasons import seasons_of
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.held_out import choose_window, split_for_forecast
from tdegnn.forecasting.linear_skip import LinearSkip, fits_by_node, start_at_ridge

HORIZON = 12

def memory(kind):
    # getrusage would not do: a child process inherits the peak of its parent.
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines[kind].split()[0]) * 1024 / 1e6

def make_panel(num_nodes, num_steps, freq, day):
    draw = np.random.default_rng(0)
    values = np.cumsum(0.01 * draw.standard_normal((num_steps, num_nodes)), axis=0)
    values += np.sin(2 * np.pi * np.arange(num_steps) / day)[:, None] * draw.random(num_nodes)
    values += 0.3 * draw.standard_normal(values.shape)
    graph = Graph(draw.integers(0, num_nodes, (2, 8 * num_nodes)), num_nodes)
    times = pd.date_range("2020-01-01", periods=num_steps, freq=freq)
    return Panel.from_array(values, times=times, graph=graph)

class Skipped(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.skip = LinearSkip(sizes, is_by_node=fits_by_node(sizes))

def prepare(panel):
    seasons = seasons_of(panel.times)
    window = choose_window(panel, HORIZON, seasons)
    split = split_for_forecast(panel.num_steps, window, HORIZON)
    maker = FrameMaker.fit(panel[: split.training.stop], window, HORIZON, seasons=seasons)
    windows = maker.windows(panel)
    parts = [windows.predicting(steps) for steps in (split.training, split.validation)]
    start_at_ridge([Skipped(maker.sizes(panel.num_nodes))], *parts, panel.graph, maker.target_scales)

def measure(work, panel):
    before, started = memory("VmRSS"), time.perf_counter()
    work(panel)
    return {"seconds": time.perf_counter() - started, "extra": memory("VmHWM") - before, "peak": memory("VmHWM")}

def predict(panel):
    model = Forecaster(horizon=HORIZON, num_steps=10).fit(panel)
    started = time.perf_counter()
    for _ in range(20):
        model.predict(panel=panel)
    return {"seconds": (time.perf_counter() - started) / 20}

task, *sizes = json.loads(sys.argv[1])
panel = make_panel(*sizes)
if task == "predict":
    print(json.dumps(predict(panel)))
else:
    fits = {"fit": Forecaster(horizon=HORIZON).fit, "five minutes": Forecaster(horizon=HORIZON, time_budget="5min").fit}
    print(json.dumps(measure({"prepare": prepare, **fits}[task], panel)))
"""
WIDE, LONG, WEEK = (2000, 3000, "h", 24), (300, 50_000, "h", 24), (207, 2016, "5min", 288)


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    for name, sizes in {"2,000 nodes x 3,000 steps": WIDE, "300 nodes x 50,000 steps": LONG}.items():
        numbers = _in_a_process(1, "prepare", *sizes)
        yield f"window and skip of {name}, one thread", numbers["seconds"], "s", 60.0
        yield "its memory, beside the panel", numbers["extra"], "MB", 2000.0
    numbers = _in_a_process(2, "fit", *WIDE)
    yield "fit of 2,000 nodes x 3,000 steps, two threads", numbers["seconds"], "s", 900.0
    yield "its peak memory, imports included", numbers["peak"], "MB", 4000.0
    numbers = _in_a_process(1, "five minutes", *LONG)
    yield "fit of 300 nodes x 50,000 steps in a budget of 300 s, one thread", numbers["seconds"], "s", 360.0
    yield "peak memory of that fit, imports included", numbers["peak"], "MB", 4000.0
    yield "a forecast of 207 nodes x 12 steps, two threads", _in_a_process(2, "predict", *WEEK)["seconds"], "s", 0.1


def _in_a_process(num_threads: int, *task: Any) -> dict[str, float]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(num_threads))
    result = subprocess.run(
        [sys.executable, "-c", FIT, json.dumps(task)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads | {"CUDA_VISIBLE_DEVICES": ""},
    )
    numbers: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return numbers
