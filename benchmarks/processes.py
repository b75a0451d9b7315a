"""Two processes of one thread each against one, started as `torchrun` starts them: on series, and on partitions.

Series: a panel of 400 nodes and 2,000 hours, 64 windows of 24 hours per step. Partitions: a drawn graph of 40,000 nodes
and 400,000 edges, cut by METIS as usual, with two batches per step. The networks are of the usual size. Both
contestants make the same steps and validations, with the same numbers. Times are those of steps and of validations,
without starting and reading; an epoch ends with one validation. Two processes that share a validation are also compared
with the same two if each of them computes all of it, in turns, so that other work on the machine affects both. The
goal, at least 1.6 times the throughput of steps, is meant for two idle cores: it is stated as the time of two processes
relative to that of one, at most 1 / 1.6.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

NODES, HOURS, WINDOW, HORIZON, WINDOWS_PER_STEP = 400, 2000, 24, 12, 64
GRAPH_NODES, GRAPH_EDGES, FEATURES, CLASSES = 40_000, 400_000, 32, 8
BATCHES_PER_STEP = 2
WARM_UP, STEPS, VALIDATIONS, ROUNDS = 5, 15, 3, 3
GOAL = 1.6


class Contest(NamedTuple):
    """What is trained.

    Attributes:
        what: What a step works on.
        suffix: What its ratios are called, after the words that all contests share.
        validated: What a validation looks at.
        start: Returns the training of one of the processes, before its first step.
    """

    what: str
    suffix: str
    validated: str
    start: Callable[[Any], Any]


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    for name, contest in CONTESTS.items():
        seconds: dict[int, list[list[float]]] = {1: [], 2: []}
        # In turns, so that other work on the machine affects both.
        for _ in range(ROUNDS):
            for size, taken in seconds.items():
                taken.append(_run(name, size))
        best = [[min(each) for each in zip(*taken, strict=True)] for taken in seconds.values()]
        (one, one_validation, steps, *_), (two, two_validation, _, shared, own) = best
        yield f"a step on {contest.what}, one process of one thread", 1e3 * one, "ms"
        yield f"a step on {contest.what}, two processes of one thread each", 1e3 * two, "ms"
        yield f"throughput of two processes / one{contest.suffix}", one / two, "x"
        yield f"time of two processes / one{contest.suffix}", two / one, "x", 1 / GOAL
        epoch, shared_epoch = steps * one + one_validation, steps * two + two_validation
        yield (
            f"throughput of two processes / one, an epoch with a validation{contest.suffix}",
            epoch / shared_epoch,
            "x",
        )
        yield f"time of a validation by two processes / one{contest.suffix}", two_validation / one_validation, "x"
        in_turns = f"one of all {contest.validated} in each of two processes, in turns"
        yield f"time of a shared validation / {in_turns}", shared / own, "x"


def _run(name: str, size: int) -> list[float]:
    """Return seconds of a step and of a validation, steps per epoch, and, in turns, of a validation shared and not."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    command = [*launcher, "-m", "benchmarks.processes", name]
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _train(name: str) -> None:
    """Train, in one of the processes. The first one prints what `_run` returns."""
    import torch

    from tdegnn.training.processes import ALONE, join_processes

    processes = join_processes()
    torch.set_num_threads(1)
    training = CONTESTS[name].start(processes)
    training.validate()
    for _ in range(WARM_UP):
        training.step()

    def seconds_of(work: Callable[[], object], count: int) -> float:
        processes.barrier()
        began = time.perf_counter()
        for _ in range(count):
            work()
        processes.barrier()
        return (time.perf_counter() - began) / count

    seconds = [seconds_of(training.step, STEPS), seconds_of(training.validate, VALIDATIONS)]
    own = CONTESTS[name].start(ALONE)
    own.validate()
    turns = [[seconds_of(each.validate, 1) for each in (training, own)] for _ in range(VALIDATIONS)]
    in_turns = [min(each) for each in zip(*turns, strict=True)]
    if processes.is_first:
        print(json.dumps([*seconds, training.steps_an_epoch, *in_turns]))


def _start_on_series(processes: Any) -> Any:
    from tdegnn import Forecaster, Graph, Panel
    from tdegnn.forecasting.frames import FrameMaker
    from tdegnn.forecasting.series_training import SeriesTraining

    draw = np.random.default_rng(0)
    graph = Graph(draw.integers(0, NODES, (2, 8 * NODES)), NODES)
    panel = Panel.from_array(draw.standard_normal((HOURS, NODES)).cumsum(axis=0), graph=graph)
    maker = FrameMaker.fit(panel, WINDOW, HORIZON)
    windows = maker.windows(panel).predicting(range(HOURS))
    config = Forecaster(horizon=HORIZON).network_config(2, maker.sizes(NODES))
    return SeriesTraining(
        [config.build(maker.sizes(NODES), 0)],
        [config.descent],
        graph,
        windows,
        windows.every(64),
        batch_size=WINDOWS_PER_STEP,
        processes=processes,
    )


def _start_on_partitions(processes: Any) -> Any:
    import torch

    from tdegnn import Graph, Part
    from tdegnn.batches.partitions import Partitions
    from tdegnn.nodes.batch_training import BatchTraining
    from tdegnn.nodes.settings import NodeConfig
    from tdegnn.training.devices import choose_placement
    from tdegnn.training.node_rows import NodeRows
    from tdegnn.training.node_training import Classification, NodeSubsets

    draw = np.random.default_rng(0)
    sources = draw.integers(0, GRAPH_NODES, GRAPH_EDGES)
    near = (sources + draw.integers(-50, 51, GRAPH_EDGES)) % GRAPH_NODES
    targets = np.where(draw.random(GRAPH_EDGES) < 0.02, draw.integers(0, GRAPH_NODES, GRAPH_EDGES), near)
    graph = Graph(np.stack([sources, targets]), GRAPH_NODES)
    labels = np.arange(GRAPH_NODES) * CLASSES // GRAPH_NODES
    features = draw.standard_normal((GRAPH_NODES, FEATURES)) + np.eye(CLASSES, FEATURES)[labels]
    subsets = NodeSubsets(*(np.arange(GRAPH_NODES)[None] % 3 == part for part in range(3)))
    config = NodeConfig(operator=Part("near-identity", batch_norm=True), num_layers=2, order=2)
    placement = choose_placement("cpu")
    batches = Partitions(batches_per_step=BATCHES_PER_STEP)
    return BatchTraining(
        [config.build_network(FEATURES, CLASSES, 0)],
        [config.descent],
        NodeRows(features.astype(np.float32), placement),
        graph,
        batches.plan(graph, np.flatnonzero(subsets.training[0]), 0),
        Classification(torch.as_tensor(labels)),
        subsets,
        placement,
        batches_per_step=batches.batches_per_step,
        processes=processes,
    )


CONTESTS = {
    "series": Contest(f"{WINDOWS_PER_STEP} windows x {NODES} nodes", "", "windows", _start_on_series),
    "partitions": Contest(
        f"{BATCHES_PER_STEP} batches of partitions, {GRAPH_NODES:,} nodes",
        ", partitions",
        "nodes",
        _start_on_partitions,
    ),
}

if __name__ == "__main__":
    _train(sys.argv[1])
