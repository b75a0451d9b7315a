"""Training steps at the size of Cora, as `NodeClassifier.fit` makes them: with dropout, and recorded.

A graph of 2,708 nodes and 5,278 random edges, 64 channels, four layers. With c = [1] the order is 1, with a learned
vector and attention it is 4. At this size the number of operations decides, not their bytes. The goal, attention at
most 1.6 times c = [1], is for CUDA devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from benchmarks.node_steps import SYSTEMS, Nodes, Step, as_trained
from benchmarks.timing import interleaved_medians

NODES, EDGES, DROPOUT = 2708, 5278, 0.5
# Steps are recorded in the first few. On a CUDA device one is too short to be timed alone.
BEFORE, REPETITIONS = 8, 15
STEPS = {"cpu": 1, "cuda": 100}
GOAL = 1.6


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    nodes, num_steps = Nodes.draw(NODES, EDGES, device), STEPS[device.type]
    steps = {rule: as_trained(system, nodes, DROPOUT) for rule, system in SYSTEMS.items()}
    many = {rule: _many(step, num_steps, device) for rule, step in steps.items()}
    seconds = interleaved_medians(many, REPETITIONS, BEFORE)
    for rule, median in seconds.items():
        yield f"size of Cora, as fit trains: a step, {rule}", 1e6 * median / num_steps, "us"
    for rule in ("learned vector", "attention"):
        goal = (GOAL,) if device.type == "cuda" and rule == "attention" else ()
        yield f"size of Cora, as fit trains: {rule} / c = [1]", seconds[rule] / seconds["c = [1]"], "x", *goal


def _many(step: Step, num_steps: int, device: torch.device) -> Callable[[], None]:
    def run() -> None:
        for _ in range(num_steps):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run
