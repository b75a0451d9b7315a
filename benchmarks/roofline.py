"""How near the terms of the equation come to the bandwidth of the device, and what memory a step takes, term by term.

The bandwidth is that of a copy of a large tensor: bytes read and written per second. In turns with it, at several sizes
(20 messages per node, 64 channels): the sparse product, the weighted sum over a history of four and attention over it,
each forward and backward, and whole training steps. For each: the bytes that its equation must move (`byte_counts.py`)
per second, and their share of the bandwidth. The goal, at least 65 % for the product at 20 million messages, is for
CUDA devices. It is stated as the bandwidth divided by what is achieved, at most 1 / 0.65.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.byte_counts import Sizes, attention_bytes, memory_terms, product_bytes, step_bytes, sum_bytes
from benchmarks.memory import peak_bytes
from benchmarks.node_steps import CHANNELS, FEATURES, LAYERS, SYSTEMS, Nodes, make_network, our_step
from benchmarks.timing import interleaved_medians
from tdegnn.core.combination import attend, weighted_sum
from tdegnn.messages import messages_in
from tdegnn.sparse import SparseMatrix

# Edges of the graphs, each of which carries two messages, and bytes of the tensor that is copied.
EDGES = {"cpu": (50_000, 500_000, 2_500_000), "cuda": (500_000, 2_500_000, 10_000_000)}
COPIED = {"cpu": 2**28, "cuda": 2**32}
REPETITIONS = {"cpu": 7, "cuda": 30}
# Steps of whole networks are measured on this graph.
STEP_EDGES = {"cpu": 500_000, "cuda": 10_000_000}
EDGES_PER_NODE, ORDER = 10, LAYERS
COPY, GOAL = "copy", 0.65
# Messages of 16 bits, and what is measured of them on CUDA devices.
SHORT, SHORT_PRODUCT = torch.bfloat16, "product of 16-bit messages, forward"


class Term(NamedTuple):
    """A computation, and the bytes that it must move."""

    run: Callable[[], object]
    num_bytes: int


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for num_edges in EDGES[device.type]:
        nodes = Nodes.draw(num_edges // EDGES_PER_NODE, num_edges, device)
        where = f"{nodes.num_messages:,} messages"
        achieved = measure_terms(dict(_product_terms(nodes)) | dict(_history_terms(nodes)), device)
        bandwidth = achieved.pop(COPY)
        yield f"{where}: bandwidth of a copy", bandwidth / 1e9, "GB/s"
        for name, speed in achieved.items():
            yield f"{where}: {name}", speed / 1e9, "GB/s"
            yield f"{where}: {name}, share of the bandwidth", 100 * speed / bandwidth, "%"
            if device.type == "cuda" and num_edges == max(EDGES["cuda"]) and name.startswith("sparse product"):
                yield f"{where}: {name}, bandwidth / achieved", bandwidth / speed, "x", 1 / GOAL
        if num_edges == STEP_EDGES[device.type]:
            yield from _measure_steps(nodes)


def matrix_of(nodes: Nodes) -> SparseMatrix:
    """Return the matrix by which the layers of our network multiply."""
    matrix = nodes.graph._matrix("_relaxed", nodes.features)
    assert isinstance(matrix, SparseMatrix)  # a graph of up to 64 nodes has a dense one
    return matrix


def measure_terms(terms: dict[str, Term], device: torch.device) -> dict[str, float]:
    """Return the bytes per second of each term, and of a copy in turns with them."""
    source = torch.ones(COPIED[device.type] // 4, device=device)
    target = torch.zeros_like(source)
    all_terms = {COPY: Term(lambda: target.copy_(source), 2 * COPIED[device.type])} | terms

    def finish(run: Callable[[], object]) -> None:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()

    runs = {name: lambda run=term.run: finish(run) for name, term in all_terms.items()}
    seconds = interleaved_medians(runs, repetitions=REPETITIONS[device.type], warm_up=2)
    return {name: term.num_bytes / seconds[name] for name, term in all_terms.items()}


def _product_terms(nodes: Nodes) -> Iterator[tuple[str, Term]]:
    matrix = matrix_of(nodes)
    state = torch.randn(nodes.graph.num_nodes, CHANNELS, device=nodes.features.device, requires_grad=True)
    product, gradient = matrix @ state, torch.randn_like(state)
    count = product_bytes(matrix, CHANNELS)
    yield "sparse product, forward", Term(lambda: matrix @ state, count)
    # The transposed matrix has as many entries.
    yield "sparse product, backward", Term(lambda: _differentiate(product, [state], gradient), count)
    if state.is_cuda:  # a processor rounds messages too, but gains nothing by it
        yield SHORT_PRODUCT, Term(lambda: _multiply_short(matrix, state), product_bytes(matrix, CHANNELS, SHORT))


def _multiply_short(matrix: SparseMatrix, state: Tensor) -> Tensor:
    with messages_in(SHORT):
        return matrix @ state


def _history_terms(nodes: Nodes) -> Iterator[tuple[str, Term]]:
    device, sizes = nodes.features.device, _sizes(nodes, ORDER)
    shape = (nodes.graph.num_nodes, CHANNELS)
    history = tuple(torch.randn(shape, device=device, requires_grad=True) for _ in range(ORDER))
    gradient = torch.randn(shape, device=device)
    c = torch.full((ORDER,), 1 / ORDER, device=device, requires_grad=True)
    score = torch.eye(CHANNELS + 1, device=device, requires_grad=True)
    for name, weights, combine, (forward, backward) in (
        ("weighted sum", c, lambda: weighted_sum(c, history), sum_bytes(sizes)),
        ("attention", score, lambda: attend(score, history)[0], attention_bytes(sizes)),
    ):
        combined, inputs = combine(), [weights, *history]
        yield f"{name}, forward", Term(combine, forward)
        yield (
            f"{name}, backward",
            Term(lambda combined=combined, inputs=inputs: _differentiate(combined, inputs, gradient), backward),
        )


def _differentiate(output: Tensor, inputs: list[Tensor], gradient: Tensor) -> None:
    torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def _measure_steps(nodes: Nodes) -> Iterator[tuple[str, float, str]]:
    device, matrix, where = nodes.features.device, matrix_of(nodes), f"{nodes.num_messages:,} messages"
    networks = {rule: make_network(system) for rule, system in SYSTEMS.items()}
    sizes = {
        rule: _sizes(nodes, network.coefficients.order, is_attending=rule == "attention")
        for rule, network in networks.items()
    }
    steps = {rule: Term(our_step(system, nodes), step_bytes(matrix, sizes[rule])) for rule, system in SYSTEMS.items()}
    short = {
        rule: Term(our_step(system, nodes, SHORT), step_bytes(matrix, sizes[rule], SHORT))
        for rule, system in SYSTEMS.items()
        if device.type == "cuda"
    }
    achieved = measure_terms(steps | {f"{rule}, 16-bit messages": term for rule, term in short.items()}, device)
    for rule, (_, needed) in short.items():
        yield (
            f"{where}: a training step, {rule}, 16-bit messages",
            1e3 * needed / achieved[f"{rule}, 16-bit messages"],
            "ms",
        )
        yield f"{where}: least traffic of a step, {rule}, 16-bit messages", needed / 1e9, "GB"
    for rule, (step, needed) in steps.items():
        yield f"{where}: a training step, {rule}", 1e3 * needed / achieved[rule], "ms"
        yield f"{where}: least traffic of a step, {rule}", needed / 1e9, "GB"
        yield f"{where}: a training step, {rule}, share of the bandwidth", 100 * achieved[rule] / achieved[COPY], "%"
        num_weights = sum(parameter.numel() for parameter in networks[rule].parameters())
        terms = memory_terms(matrix, sizes[rule], FEATURES, num_weights)
        for term, num_bytes in terms.items():
            yield f"{where}: memory of a step, {rule}, {term}", num_bytes / 1e6, "MB"
        # Weights and moments are there before the step; their gradients are made in it.
        lasting = terms["features"] + terms["graph"] + 3 * 4 * num_weights
        peak = lasting + peak_bytes(step, device)
        yield f"{where}: memory of a step, {rule}, measured peak", peak / 1e6, "MB"
        yield f"{where}: memory of a step, {rule}, sum of terms / measured peak", sum(terms.values()) / peak, "x"


def _sizes(nodes: Nodes, order: int, *, is_attending: bool = False) -> Sizes:
    return Sizes(nodes.graph.num_nodes, CHANNELS, LAYERS, order, is_attending)
