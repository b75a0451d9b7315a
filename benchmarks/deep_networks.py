"""Measure what segments of layers cost and save: time and memory of a training step of deep networks for nodes.

The graph is drawn, and stays the same. Numbers of layers grow: without segments memory grows with them, with segments
about as their root. Memory is that of the tensors of a step at its peak (`benchmarks/memory.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import torch

from benchmarks.memory import peak_bytes
from tdegnn.core.segments import SegmentLength
from tdegnn.data.simulators.labeled_graphs import LabeledGraph, simulate_labels
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.node_training import Classification, NodeSubsets, TaskTraining

NUM_NODES, NUM_CLASSES, CHANNELS = 100_000, 8, 32
DEPTHS = (16, 64, 128)
# Less than the plain steps that come before a recorded one.
NUM_STEPS = 2


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    drawn = simulate_labels(NUM_NODES, NUM_CLASSES, seed=0, neighbors="own", degree=6, num_features=32)
    for num_layers in DEPTHS:
        name = f"{num_layers} layers"
        whole_memory, whole_time = _measure_steps(drawn, num_layers, None)
        memory, seconds = _measure_steps(drawn, num_layers, "auto")
        yield f"{name}: memory of a step", whole_memory, "MB"
        yield f"{name}: memory of a step in segments", memory, "MB"
        yield f"{name}: time of a step", whole_time, "s"
        yield f"{name}: time of a step in segments", seconds, "s"
        if num_layers > DEPTHS[0]:
            yield f"{name}: memory, in segments / whole", memory / whole_memory, "", 1 / 3
        yield f"{name}: time, in segments / whole", seconds / whole_time, "", 1.6


def _measure_steps(drawn: LabeledGraph, num_layers: int, segment_length: SegmentLength) -> tuple[float, float]:
    """Return the memory of a training step in MB, and its time in seconds."""
    training = make_training(drawn, num_layers, segment_length)
    memory = peak_bytes(training.step, torch.device("cpu")) / 1e6
    times = []
    for _ in range(NUM_STEPS):
        started = time.perf_counter()
        training.step()
        times.append(time.perf_counter() - started)
    return memory, median(times)


def make_training(drawn: LabeledGraph, num_layers: int, segment_length: SegmentLength) -> TaskTraining:
    """Return a training of a learned vector c of order 2, with dropout, on the whole graph."""
    config = NodeConfig(hidden_channels=CHANNELS, num_layers=num_layers, order=2, step_size=0.1)
    num_nodes, num_features = drawn.features.shape
    num_classes = int(drawn.labels.max()) + 1
    network = config.build_network(num_features, num_classes, 0, num_nodes, segment_length)
    parts = np.random.default_rng(0).integers(0, 3, num_nodes)
    subsets = NodeSubsets(*((parts == part)[None] for part in range(3)))
    inputs = torch.as_tensor(drawn.features, dtype=torch.float32), drawn.graph
    return TaskTraining([network], [config.descent], inputs, Classification(torch.as_tensor(drawn.labels)), subsets)
