"""Measure how trainings by partitions grow with the graph: time, memory, and one graph that is larger than both.

Graphs are drawn: edges go from a node to one of the nearest numbers, one in twenty to any node. They are in files,
edges as a `StoredGraph`, features as `.npy`. Each size runs in a process of its own with two threads, and the system
reports the peak memory of that process. Slopes are those of a line through logarithms: 1 means in proportion. Small
graphs take a few milliseconds, much of it per call, and stay in the cache of the processor. So slopes depend on where
they begin, and two are shown.

`python -m benchmarks large_graphs` goes from 10 thousand to 10 million edges. The graph of 10 million nodes and 100
million edges takes 3 GB of disk and some minutes: `python -m benchmarks.large_graphs 10_000_000 100_000_000 FOLDER
[cpu | cuda]` writes it to a folder, unless it is there, and prints JSON. On a CPU it makes a few steps, then a few in
`NodeClassifier.fit` with one validation, whose peak memory counts. On a GPU it makes an epoch and a prediction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
EDGES_PER_NODE = 10
NUM_FEATURES, NUM_CLASSES, CHANNELS = 32, 8, 32
# A part has this many nodes, and a batch this many parts.
PART_SIZE, PARTS_PER_BATCH = 5_000, {"cpu": 4, "cuda": 40}
NUM_STEPS = 5
CHUNK = 2**22
BLOCK_SIZE = 2**20


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    found = []
    for num_edges in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            found.append(_in_a_process(num_edges // EDGES_PER_NODE, num_edges, folder))
    for num_edges, numbers in zip(SIZES, found, strict=True):
        yield f"{num_edges:,} edges: graph and features to files", numbers["write_seconds"], "s"
        yield f"{num_edges:,} edges: a step by partitions", numbers["step_seconds"], "s"
        yield f"{num_edges:,} edges: an epoch", numbers["epoch_seconds"], "s"
        yield f"{num_edges:,} edges: a prediction in blocks", numbers["blocks_seconds"], "s"
        yield f"{num_edges:,} edges: an epoch of the whole graph at once", numbers["whole_seconds"], "s"
        yield f"{num_edges:,} edges: memory of steps, beside the imports", numbers["extra_mb"], "MB"
        yield f"{num_edges:,} edges: the same, with a prediction in blocks", numbers["extra_with_blocks_mb"], "MB"
    entries = {
        "time of an epoch": "epoch_seconds",
        "time of a prediction in blocks": "blocks_seconds",
        "memory, steps": "extra_mb",
        "memory, with a prediction": "extra_with_blocks_mb",
    }
    for name, entry in entries.items():
        values = [each[entry] for each in found]
        yield f"slope of the {name}, from {SIZES[0]:,} edges on", slope(SIZES, values), "", 1.05
        yield f"slope of the {name}, from {SIZES[1]:,} edges on", slope(SIZES[1:], values[1:]), ""
    for first in (0, 1):
        whole = [each["whole_seconds"] for each in found[first:]]
        yield (
            f"slope of the time of the whole graph at once, from {SIZES[first]:,} edges on",
            slope(SIZES[first:], whole),
            "",
        )


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of a line through logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _in_a_process(num_nodes: int, num_edges: int, folder: str, device: str = "cpu") -> dict[str, float]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    command = [sys.executable, "-m", "benchmarks.large_graphs", str(num_nodes), str(num_edges), folder, device]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | threads)
    numbers: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return numbers


def draw_edges(path: Path, num_nodes: int, num_edges: int) -> None:
    """Write edges to a `.npy` file, most of them between near numbers."""
    edges = np.lib.format.open_memmap(path, "w+", np.int32, (2, num_edges))
    draw = np.random.default_rng(0)
    for first in range(0, num_edges, CHUNK):
        count = min(CHUNK, num_edges - first)
        sources = draw.integers(0, num_nodes, count)
        near = np.clip(sources + draw.integers(-50, 51, count), 0, num_nodes - 1)
        targets = np.where(draw.random(count) < 0.05, draw.integers(0, num_nodes, count), near)
        edges[0, first : first + count], edges[1, first : first + count] = sources, targets
    edges.flush()


def draw_features(path: Path, num_nodes: int) -> np.ndarray:
    """Write features to a `.npy` file, and return the class of each node."""
    features = np.lib.format.open_memmap(path, "w+", np.float32, (num_nodes, NUM_FEATURES))
    draw = np.random.default_rng(1)
    labels = np.arange(num_nodes) * NUM_CLASSES // num_nodes
    for first in range(0, num_nodes, CHUNK // NUM_FEATURES):
        rows = slice(first, first + CHUNK // NUM_FEATURES)
        noise = draw.standard_normal((len(labels[rows]), NUM_FEATURES), dtype=np.float32)
        features[rows] = noise + np.eye(NUM_CLASSES, NUM_FEATURES, dtype=np.float32)[labels[rows]]
    features.flush()
    return labels


def _memory(kind: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[kind].split()[0]) * 1024 / 1e6


def write_files(num_nodes: int, num_edges: int, folder: Path) -> float:
    """Draw a graph, and write it to a folder unless it is there. Return how long that took."""
    from tdegnn.data.graphs.stored_graph import StoredGraph

    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "graph" / "graph.json").exists():
        draw_edges(folder / "edges.npy", num_nodes, num_edges)
        StoredGraph.write(folder / "graph", folder / "edges.npy", num_nodes)
        np.save(folder / "labels.npy", draw_features(folder / "features.npy", num_nodes))
    return time.perf_counter() - started


def make_trainings(folder: Path, device: Any) -> tuple[Any, Any]:
    """Return a training by partitions, and a function that makes one on the whole graph."""
    import torch

    from tdegnn.batches.partitions import Ranges
    from tdegnn.data.graphs.stored_graph import StoredGraph
    from tdegnn.data.mapped_features import MappedFeatures
    from tdegnn.nodes.batch_training import BatchTraining
    from tdegnn.nodes.settings import NodeConfig
    from tdegnn.training.devices import choose_placement
    from tdegnn.training.node_rows import NodeRows
    from tdegnn.training.node_training import Classification, NodeSubsets, TaskTraining

    graph, placement = StoredGraph(folder / "graph"), choose_placement(device)
    rows = NodeRows(MappedFeatures(np.load(folder / "features.npy", mmap_mode="r")), placement)
    config = NodeConfig(hidden_channels=CHANNELS, num_layers=2, order=2)
    members = [config.build_network(NUM_FEATURES, NUM_CLASSES, 0)], [config.descent]
    parts = np.random.default_rng(2).integers(0, 3, graph.num_nodes, dtype=np.int8)
    subsets = NodeSubsets(*((parts == part)[None] for part in range(3)))
    shared = (Classification(torch.as_tensor(np.load(folder / "labels.npy"))), subsets, placement)
    num_parts = max(2, graph.num_nodes // PART_SIZE)
    batches = Ranges(num_parts=num_parts, parts_per_batch=min(PARTS_PER_BATCH[device], num_parts))
    plan = batches.plan(graph, np.flatnonzero(subsets.training[0]), 0)
    training = BatchTraining(*members, rows, graph, plan, *shared, block_size=BLOCK_SIZE)
    return training, lambda: TaskTraining(*members, (rows.take(np.arange(graph.num_nodes)), graph), *shared)


def fit(folder: Path, device: Any) -> Any:
    """Fit a classifier of the same network, as a user does: checks, a few steps, one validation, and the learned c."""
    from tdegnn import NodeClassifier, Part, StoredGraph

    graph = StoredGraph(folder / "graph")
    num_parts = max(2, graph.num_nodes // PART_SIZE)
    batches = Part("ranges", num_parts=num_parts, parts_per_batch=min(PARTS_PER_BATCH[device], num_parts))
    model = NodeClassifier(
        network="diffusion",
        hidden_channels=CHANNELS,
        num_layers=2,
        order=2,
        num_steps=NUM_STEPS,
        batches=batches,
        device=device,
    )
    features = np.load(folder / "features.npy", mmap_mode="r")
    return model.fit(features, np.load(folder / "labels.npy"), graph=graph)


def run(num_nodes: int, num_edges: int, folder: Path, device: Any) -> dict[str, float]:
    """Write a graph to files, then train and predict by partitions of consecutive nodes."""
    import torch

    import tdegnn.nodes.classifier  # its memory is not that of the graph

    assert tdegnn.nodes.classifier
    before, found = _memory("VmRSS"), {"write_seconds": write_files(num_nodes, num_edges, folder)}
    found["peak_of_writing_mb"] = _memory("VmHWM")
    training, make_whole = make_trainings(folder, device)
    # A few steps tell enough where an epoch takes long.
    is_slow = num_edges > SIZES[-1] and device == "cpu"
    training.step()  # degrees are computed once
    num_steps = NUM_STEPS if is_slow else max(NUM_STEPS, training.num_batches)
    found |= {"num_batches": training.num_batches, "step_seconds": _seconds(training.step, num_steps)}
    found["epoch_seconds"] = found["step_seconds"] * training.num_batches
    found |= {"extra_mb": _memory("VmHWM") - before, "peak_mb": _memory("VmHWM")}
    if is_slow:
        del training, make_whole
        found |= {"fit_seconds": _seconds(lambda: fit(folder, device), 1), "peak_of_fit_mb": _memory("VmHWM")}
    else:
        found |= {"blocks_seconds": _seconds(training.validate, 1), "extra_with_blocks_mb": _memory("VmHWM") - before}
    if num_edges <= SIZES[-1]:
        found["whole_seconds"] = _seconds(make_whole().step, 2)
    if device == "cuda":
        found["peak_gpu_mb"] = torch.cuda.max_memory_allocated() / 1e6
    return found


def _seconds(work: Callable[[], object], repetitions: int) -> float:
    import torch

    started = time.perf_counter()
    for _ in range(repetitions):
        work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / repetitions


if __name__ == "__main__":
    nodes, edges, place, *devices = sys.argv[1:]
    print(json.dumps(run(int(nodes), int(edges), Path(place), devices[0] if devices else "cpu")))
