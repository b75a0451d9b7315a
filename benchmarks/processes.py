"""Two processes of one thread each against one: steps of a training on series, started as `torchrun` starts them.

A panel of 400 nodes and 2,000 hours, 64 windows of 24 hours per step, is trained by a network of the usual size. Both
contestants make the same steps and validations, with the same numbers. Times are those of the steps alone, without
starting and reading. The goal, at least 1.6 times the throughput, is meant for two idle cores: it is stated as the time
of two processes relative to that of one, at most 1 / 1.6.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

NODES, HOURS, WINDOW, HORIZON, WINDOWS_PER_STEP = 400, 2000, 24, 12, 64
WARM_UP, STEPS, ROUNDS = 8, 20, 3
GOAL = 1.6


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    seconds: dict[int, list[float]] = {1: [], 2: []}
    # In turns, so that other work on the machine affects both.
    for _ in range(ROUNDS):
        for size, taken in seconds.items():
            taken.append(_run(size))
    one, two = (min(taken) for taken in seconds.values())
    what = f"a step on {WINDOWS_PER_STEP} windows x {NODES} nodes"
    yield f"{what}, one process of one thread", 1e3 * one, "ms"
    yield f"{what}, two processes of one thread each", 1e3 * two, "ms"
    yield "throughput of two processes / one", one / two, "x"
    yield "time of two processes / one", two / one, "x", 1 / GOAL


def _run(size: int) -> float:
    """Return the seconds of a step."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    command = [*launcher, "-m", "benchmarks.processes"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _train() -> None:
    """Train, in one of the processes. The first one prints the seconds of a step."""
    import torch

    from tdegnn import Forecaster, Graph, Panel
    from tdegnn.forecasting.frames import FrameMaker
    from tdegnn.forecasting.series_training import SeriesTraining
    from tdegnn.training.processes import join_processes

    draw = np.random.default_rng(0)
    graph = Graph(draw.integers(0, NODES, (2, 8 * NODES)), NODES)
    panel = Panel.from_array(draw.standard_normal((HOURS, NODES)).cumsum(axis=0), graph=graph)
    maker = FrameMaker.fit(panel, WINDOW, HORIZON)
    windows = maker.windows(panel).predicting(range(HOURS))
    config = Forecaster(horizon=HORIZON).network_config(2, maker.sizes(NODES))
    processes = join_processes()
    training = SeriesTraining(
        [config.build(maker.sizes(NODES), 0)],
        [config.descent],
        graph,
        windows,
        windows.every(64),
        batch_size=WINDOWS_PER_STEP,
        processes=processes,
    )
    torch.set_num_threads(1)
    for _ in range(WARM_UP):
        training.step()
    processes.barrier()
    began = time.perf_counter()
    for _ in range(STEPS):
        training.step()
    processes.barrier()
    if processes.is_first:
        print(json.dumps((time.perf_counter() - began) / STEPS))


if __name__ == "__main__":
    _train()
