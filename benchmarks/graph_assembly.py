"""Measure how fast a list of edges becomes a graph with its first propagation matrix, and in how much memory.

Sources are drawn evenly. Targets are too, or some nodes have far more of them than others (a power law). Each graph is
made in a process of its own: checks, the compressed rows of A, those of A' (both directions), degrees and values of the
propagation matrix, and the first product, each timed, with the CPU time of all threads beside it. The system reports
the peak memory of that process. Memory is counted beside the imports and the list of edges, in integers of 64 bits.

`python -m benchmarks graph_assembly` makes graphs of 10 million edges with 1 and with 2 threads. `python -m
benchmarks.graph_assembly 2_400_000 61_000_000 [THREADS] [random | power] [out | in | both]` makes one of any size, and
prints JSON. By default there are as many threads as cores. Goals are for 61 million edges: 12 s on 16 cores, and three
times the memory of the list of edges.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# As many edges per node as the large graph has.
NUM_NODES, NUM_EDGES = 400_000, 10_000_000
THREADS = (1, 2)
KINDS = ("random", "power")
CHUNK = 2**22
GOAL_SECONDS, GOAL_EDGES, GOAL_MEMORY = 12.0, 61_000_000, 3.0


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    for kind in KINDS:
        for number in THREADS:
            found = _in_a_process(NUM_NODES, NUM_EDGES, number, kind)
            of_what = f"{NUM_EDGES:,} edges, {kind} targets, {number} thread{'s' if number > 1 else ''}"
            for phase, seconds in found["seconds"].items():
                yield f"{of_what}: {phase}", seconds, "s"
            yield f"{of_what}: CPU time of all", found["cpu_seconds_in_all"], "s"
            yield f"{of_what}: peak, as multiple of the edges", found["memory_ratio"], "", GOAL_MEMORY


def _in_a_process(num_nodes: int, num_edges: int, num_threads: int, kind: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.graph_assembly", *map(str, (num_nodes, num_edges, num_threads)), kind]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    numbers: dict[str, Any] = json.loads(result.stdout)
    return numbers


def draw_edges(num_nodes: int, num_edges: int, kind: str) -> np.ndarray:
    """Return drawn edges, in integers of 64 bits."""
    edges = np.empty((2, num_edges), dtype=np.int64)
    draw = np.random.default_rng(0)
    for first in range(0, num_edges, CHUNK):
        part = slice(first, min(first + CHUNK, num_edges))
        count = part.stop - part.start
        edges[0, part] = draw.integers(0, num_nodes, count)
        edges[1, part] = num_nodes * draw.random(count) ** (1 if kind == "random" else 4)
    return edges


def _memory(kind: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[kind].split()[0]) * 1024 / 1e6


def run(
    num_nodes: int, num_edges: int, num_threads: int | None = None, kind: str = "random", direction: Any = "both"
) -> dict[str, Any]:
    """Make a graph and its propagation matrix, and multiply with it once."""
    import torch

    from tdegnn import Graph, graph, set_memory_limit

    torch.set_num_threads(num_threads or os.cpu_count() or 1)
    set_memory_limit("1TB")
    edges = draw_edges(num_nodes, num_edges, kind)
    state = torch.ones(num_nodes, 1)
    state @ torch.ones(1, 1)  # torch starts its own threads
    before = _memory("VmRSS")
    found: dict[str, Any] = {"seconds": {}, "cpu_seconds": {}, "peak_mb": {}}
    timed = partial(_time, found, before)
    timed("checks", lambda: graph._check_num_nodes(num_nodes, *edges, is_weighted=False))
    made = timed("compressed rows, with checks", lambda: Graph(edges, num_nodes, direction=direction))
    timed("both directions", lambda: made._received_by_row)
    timed("degrees and values", lambda: made._matrix("_relaxed", state))
    timed("first product", lambda: made.diffuse(state, 0.1))
    phases = [phase for phase in found["seconds"] if phase not in ("checks", "first product")]
    edges_mb, extra = edges.nbytes / 1e6, _memory("VmHWM") - before
    found |= {
        "nodes": num_nodes,
        "edges": num_edges,
        "messages": made._received_by_row.nnz,
        "threads": torch.get_num_threads(),
        "kind": kind,
        "direction": direction,
        "seconds_in_all": sum(found["seconds"][phase] for phase in phases),
        "cpu_seconds_in_all": sum(found["cpu_seconds"][phase] for phase in phases),
        "edges_mb": edges_mb,
        "extra_mb": extra,
        "memory_ratio": extra / edges_mb,
        "memory_ratio_with_the_edges": 1 + extra / edges_mb,
        "goal_seconds_on_16_cores": GOAL_SECONDS * num_edges / GOAL_EDGES,
        "goal_memory_ratio": GOAL_MEMORY,
    }
    return found


def _time(found: dict[str, Any], before: float, phase: str, work: Callable[[], Any]) -> Any:
    started, started_cpu = time.perf_counter(), time.process_time()
    result = work()
    found["seconds"][phase] = time.perf_counter() - started
    found["cpu_seconds"][phase] = time.process_time() - started_cpu
    found["peak_mb"][phase] = _memory("VmHWM") - before
    return result


if __name__ == "__main__":
    nodes, all_edges, *others = sys.argv[1:]
    threads = int(others[0]) if others else None
    print(json.dumps(run(int(nodes), int(all_edges), threads, *others[1:]), indent=1))
