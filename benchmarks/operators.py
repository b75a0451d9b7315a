"""Measure the spatial operators: the time of a step next to plain diffusion, and the memory on a large graph.

A step is the rates of one layer, or of four layers one after the other, and their gradients, for state and weights, of
ten members at the size of Cora, trained together, as a training makes it: recorded as a CUDA graph if there is a CUDA
device. Some operators compute attention in the first layer only. The goal is three times plain diffusion. Memory is
what a step of one layer allocates at its peak on a graph of a million edges, in copies of one state (nodes x channels);
a copy of the channels on every edge would be twenty of them. `operators.memory` measures only this. `operators.work`
counts operations and bytes of the first layer, and `operators.profile` says which operations take its time on one
thread of a CPU, for diffusion and the operators that miss the goal in `results/operators_h200.json`.
`operators.kernels` says for the same operators which kernels take the time of the recorded step on a CUDA device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from benchmarks.memory import peak_bytes
from benchmarks.operator_kernels import profile_kernels
from benchmarks.operator_profile import in_one_thread
from benchmarks.operator_work import DENSE, KINDS, count_work
from benchmarks.timing import interleaved_medians
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError
from tdegnn.graph import Direction, Graph
from tdegnn.operators.past_diffusion import PastFeatures
from tdegnn.operators.registry import OPERATORS
from tdegnn.training.replay import Replayed

NODES, EDGES, CHANNELS, MEMBERS = 2708, 5278, 64, 10
LARGE_NODES, LARGE_EDGES = 50_000, 500_000  # each edge counts both ways
DIFFUSION, GOAL = "diffusion", 3.0
TIMES = Path(__file__).parent.parent / "results" / "operators_h200.json"
MOST_SHOWN = 5
Numbers = tuple[str, float, str] | tuple[str, float, str, float]
# Only on a graph whose edges do not go both ways do its channels come to the edges.
ONE_WAY = ("pde-gcn",)


def measure() -> Iterator[Numbers]:
    yield from _measure_speed()
    yield from measure_memory()


def _measure_speed() -> Iterator[Numbers]:
    device, names = _device(), OPERATORS.names
    for words, num_layers in {"first layer": 1, "four layers": 4}.items():
        seconds = interleaved_medians({name: Step(name, device, num_layers).record() for name in names}, repetitions=30)
        for name in names:
            yield f"{words}, {name}", 1e3 * seconds[name], "ms"
        for name in names:
            yield f"{words}, {name} / {DIFFUSION}", seconds[name] / seconds[DIFFUSION], "x", GOAL


def measure_memory() -> Iterator[Numbers]:
    device, state_bytes = _device(), LARGE_NODES * CHANNELS * 4
    for name in OPERATORS.names:
        refusal = why_not_large(name)
        if refusal is not None:
            print(f"left out: memory of {name}: {refusal}")
            continue
        for direction in ("both", "out") if name in ONE_WAY else ("both",):
            words = name if direction == "both" else f"{name}, one way"
            peak = _peak_bytes(name, device, direction) / state_bytes
            yield f"peak memory of a step at a million edges, {words}", peak, "states"


def measure_work() -> Iterator[Numbers]:
    """Yield what the first layer does: operations of each kind, and the megabytes of their tensors."""
    for name in OPERATORS.names:
        step = Step(name, torch.device("cpu"), num_layers=1)
        step.run()  # what is kept for the graph does not count
        for kind, work in count_work(step.run).items():
            yield f"{kind}, {name}", work.operations, "times"
            yield f"bytes of {kind}, {name}", work.num_bytes / 1e6, "MB"
            if kind == DENSE:
                yield f"arithmetic of {kind}, {name}", work.arithmetic / 1e9, "GFLOP"


def measure_profile() -> Iterator[Numbers]:
    """Yield the shares of the kinds of operations, and the largest shares of single ones, in the first layer."""
    for name in (DIFFUSION, *slow_operators()):
        by_kind, by_name = in_one_thread(Step(name, torch.device("cpu"), num_layers=1).run)
        for kind in KINDS:
            yield f"share of {kind}, {name}", 100 * by_kind.get(kind, 0.0), "%"
        for operation, share in list(by_name.items())[:MOST_SHOWN]:
            yield f"share of {operation}, {name}", 100 * share, "%"


def measure_kernels() -> Iterator[Numbers]:
    """Yield the time of a recorded step on a CUDA device, of its kernels by kind, of the longest, and between them."""
    device, names = _device(), (DIFFUSION, *slow_operators())
    if device.type != "cuda":
        print("left out: kernels of operators: they need a CUDA device")
        return
    steps = {name: Step(name, device, num_layers=1).record() for name in names}
    seconds = interleaved_medians(steps, repetitions=30)
    for name in names:
        kernels = profile_kernels(steps[name])
        yield f"first layer, {name}", 1e6 * seconds[name], "us"
        for kind in KINDS:
            yield f"kernels of {kind}, {name}", kernels.counts[kind], "times"
            yield f"time of {kind}, {name}", kernels.microseconds[kind], "us"
        yield f"between kernels, {name}", 1e6 * seconds[name] - kernels.total, "us"
        for kernel, microseconds in kernels.by_name.most_common(MOST_SHOWN):
            yield f"time of {kernel}, {name}", microseconds, "us"


def slow_operators() -> list[str]:
    """Return the operators that missed the goal when they were timed, in the order of the registry."""
    missed = [line["name"] for line in json.loads(TIMES.read_text())["lines"] if line["met"] is False]
    slow = {name.partition(", ")[2].removesuffix(f" / {DIFFUSION}") for name in missed}
    return [name for name in OPERATORS.names if name in slow]


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def why_not_large(name: str) -> str | None:
    """Return what an operator says that is not made for as many nodes, such as one with all pairs of them."""
    try:
        _make(name, LARGE_NODES, torch.device("meta"))
    except InputError as error:
        return str(error)
    return None


def _first_context(operator: SpatialOperator, state: Tensor) -> PastFeatures | None:
    """Return what a network passes to the first layer."""
    return PastFeatures(state.detach(), state.detach()) if operator.takes_past_features else None


def _make(name: str, num_nodes: int, device: torch.device) -> SpatialOperator:
    sizes = dict(channels=CHANNELS, num_layers=4, step_size=0.5, num_nodes=num_nodes, hidden_channels=CHANNELS)
    operator: SpatialOperator = OPERATORS.make(name, **sizes)
    return operator.to(device)


@lru_cache(maxsize=2)
def _random_graph(num_nodes: int, num_edges: int, direction: Direction = "both") -> Graph:
    # With edges that go one way, twice as many, so that as many messages are sent.
    num_drawn = num_edges if direction == "both" else 2 * num_edges
    return Graph(np.random.default_rng(0).integers(0, num_nodes, (2, num_drawn)), num_nodes, direction=direction)


class Step:
    """The rates of some layers and their gradients for all members, recorded."""

    def __init__(self, name: str, device: torch.device, num_layers: int) -> None:
        torch.manual_seed(0)
        operators = [_make(name, NODES, device) for _ in range(MEMBERS)]
        self._parameters, self._buffers = stack_module_state(operators)
        self._operator, self._graph = operators[0], _random_graph(NODES, EDGES)
        self._state = torch.randn(MEMBERS, NODES, CHANNELS, device=device, requires_grad=True)
        self._device, self._num_layers = device, num_layers
        self._replayed = Replayed(self.run, device)

    def record(self) -> Step:
        """Record the step, and return it."""
        for _ in range(6):
            self()
        return self

    def __call__(self) -> None:
        """Make a step, and wait for it."""
        self._replayed()
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def run(self) -> None:
        """Make a step that is not recorded."""

        def run_layers(parameters: dict[str, Tensor], buffers: dict[str, Tensor], state: Tensor) -> Tensor:
            context: Any = _first_context(self._operator, state)
            for layer in range(self._num_layers):
                given = (state, self._graph, layer, context)
                rate, context = functional_call(self._operator, (parameters, buffers), given)
                state = state + 0.1 * rate
            return state

        states = vmap(run_layers)(self._parameters, self._buffers, self._state)
        torch.autograd.grad(states.square().sum(), [self._state, *self._parameters.values()], allow_unused=True)


def _peak_bytes(name: str, device: torch.device, direction: Direction) -> int:
    """Return what a step on a large graph allocates at its peak."""
    run = _large_step(name, device, direction)
    run()  # what is kept for the graph does not count
    return peak_bytes(run, device)


def _large_step(name: str, device: torch.device, direction: Direction) -> Callable[[], None]:
    torch.manual_seed(0)
    operator, graph = _make(name, LARGE_NODES, device), _random_graph(LARGE_NODES, LARGE_EDGES, direction)
    state = torch.randn(LARGE_NODES, CHANNELS, device=device, requires_grad=True)

    def run() -> None:
        rate = operator(state, graph, 0, _first_context(operator, state))[0]
        torch.autograd.grad(rate.square().sum(), [state, *operator.parameters()], allow_unused=True)

    return run
