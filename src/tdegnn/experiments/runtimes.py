"""The paper's table of runtimes and parameters: a training step and an inference on Cora, k = 64, L = o = 8.

Milliseconds depend on the machine; the ratios between systems, measured in turn within one run, depend on it less. The
paper's are of an RTX 3090. The number of weights is the same everywhere.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tdegnn.core.rules import System
from tdegnn.data.nodes import NodeDataset
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import Placement
from tdegnn.training.node_training import NodeTraining

RUNTIME_SYSTEMS: tuple[System, ...] = ("DE-GNN", "TDE-GNN_D", "TDE-GNN_A")
NUM_WARM_UP = 5


@dataclass(frozen=True)
class Runtime:
    """The cost of a system.

    Attributes:
        system: Its name.
        num_parameters: Number of weights.
        training_ms: Median milliseconds per training step.
        inference_ms: Median milliseconds per inference on all nodes.
        num_repetitions: Number of measurements of each.
    """

    system: str
    num_parameters: int
    training_ms: float
    inference_ms: float
    num_repetitions: int

    def to_record(self) -> dict[str, Any]:
        """Return a result line."""
        return {"experiment": "runtimes", "dataset": "cora", "protocol": "paper configuration", **asdict(self)}


def measure_runtimes(dataset: NodeDataset, placement: Placement, num_repetitions: int = 30) -> list[Runtime]:
    """Time the three systems in the paper's configuration, in turn, so that noise affects all of them alike."""
    trainings = {}
    for system in RUNTIME_SYSTEMS:
        config = NodeConfig(system)
        trainings[system] = NodeTraining([config.build(dataset, seed=0)], [config.descent], dataset, [0], placement)
    seconds: dict[tuple[str, str], list[float]] = {}
    for repetition in range(NUM_WARM_UP + num_repetitions):
        for system, training in trainings.items():
            for name, run in (("training", training.step), ("inference", training.validate)):
                taken = _time(run, placement.device)
                if repetition >= NUM_WARM_UP:
                    seconds.setdefault((system, name), []).append(taken)
    return [
        Runtime(
            system,
            training.members.num_parameters,
            1e3 * statistics.median(seconds[system, "training"]),
            1e3 * statistics.median(seconds[system, "inference"]),
            num_repetitions,
        )
        for system, training in trainings.items()
    ]


def _time(run: Callable[[], object], device: torch.device) -> float:
    started = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
