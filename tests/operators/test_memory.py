"""No operator makes a tensor that is larger than its equation needs: not (nodes x nodes), not (edges x channels).

A step is measured on a graph with many more entries than nodes, forward and backward. States, some of them side by
side, and a few numbers per entry, such as the scores of heads or the blocks of a sheaf, are what an equation needs. The
exceptions are listed with their reason, and held to what it says. Many tensors may each be small enough. So the peak of
a step is bounded too, so closely that one more copy of all channels on the entries would be too much.
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from benchmarks.memory import peak_bytes
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tdegnn import Graph
from tdegnn.operators.registry import OPERATORS
from tests.core.checkers import context_like

NODES, EDGES, CHANNELS = 1000, 20_000, 16
SIZES = dict(channels=CHANNELS, hidden_channels=CHANNELS, num_layers=2, step_size=0.5, num_nodes=NODES)
STATES, NUMBERS_PER_ENTRY = 8, 8
PAIRS = NODES * NODES

# Name, direction: what it may make, in numbers per entry of the graph, and why.
ON_EDGES = {
    ("cde", "both"): "the relu of a difference needs all channels of each edge",
    ("cde", "out"): "the relu of a difference needs all channels of each edge",
    ("pde-gcn", "out"): "one way, the relu of a difference does not drop out",
}
ON_PAIRS = {
    "learned-adjacency": "G is learned for each pair of nodes",
    "together": "one of its terms is a learned adjacency",
    "flode": "up to 6,000 nodes, all singular vectors are computed",
}


class Needs(NamedTuple):
    """What a step needs at its peak, forward and backward: states, numbers per entry, and channels on entries."""

    states: float
    per_entry: float = 0
    copies_on_entries: float = 0


# Input, result, its gradient, and that of the input; what an equation has beside them is a state per term, twice where
# the gradient of a map needs it.
PEAKS = {
    "alone": Needs(4.2),
    **dict.fromkeys(("diffusion", "near-identity", "graff", "graff-diagonal"), Needs(5.2)),
    **dict.fromkeys(("hidden-diffusion", "past-diffusion", "gcn", "gcnii", "flode"), Needs(6.2)),
    **dict.fromkeys(("tuned-gcn", "gcnii*"), Needs(7.2)),
    # A term per direction, and per hop of `walks`.
    **dict.fromkeys(("dir-gnn", "directed-diffusion"), Needs(8.3)),
    "walks": Needs(12.5),
    # Three filters (a fourth one for links), their relu and their weights, which all need a gradient.
    "acm": Needs(12),
    "acm+": Needs(14.2),
    "acmii": Needs(15),
    "acmii+": Needs(17.2),
    # Four heads: scores, their exponentials, weights and gradients. At 16 channels, queries and keys of 64 channels are
    # four states each.
    **dict.fromkeys(
        ("grand", "grand-nonlinear", *(name for name in OPERATORS.names if "gread-" in name)), Needs(9, 20)
    ),
    "grand++": Needs(10, 20),
    "gat": Needs(8, 20),
    # d = 2: two maps per entry of 2, 1 and 4 numbers, and their product. Orthogonal maps are products of reflections,
    # and the gradient keeps every factor.
    "sheaf-diagonal": Needs(6, 16),
    "sheaf-general": Needs(6, 32),
    "sheaf-bundle": Needs(6, 73),
    # The relu is on the entries once, and the gradient keeps one byte per entry and channel: whether it was positive.
    "cde": Needs(14, 10, 1.55),
    "pde-gcn": Needs(5.2),
}
# An operator that is not listed.
USUAL = Needs(8)
PEAKS_ONE_WAY = {
    "pde-gcn": Needs(8.5, 0, 1.3),
    # They see both ways: twice the entries of the graph.
    **{name: PEAKS[name]._replace(per_entry=2 * PEAKS[name].per_entry) for name in PEAKS if name.startswith("sheaf-")},
}
# G, its softmax and their gradients, for each pair of nodes.
COPIES_ON_PAIRS = {"learned-adjacency": 4.2, "together": 4.2}


class LargestTensor(TorchDispatchMode):
    """The most numbers that a tensor made inside the block has."""

    def __init__(self):
        super().__init__()
        self.size, self.shape = 0, ()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            # A view of a small tensor, such as one that is expanded, takes no memory of its own.
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.device.type != "meta":
                size = leaf.untyped_storage().nbytes() // leaf.element_size()
                if size > self.size:
                    self.size, self.shape = size, tuple(leaf.shape)
        return made


def graph_of(direction):
    return Graph(np.random.default_rng(0).integers(0, NODES, (2, EDGES)), NODES, direction=direction)


def make_step(operator, graph):
    state = torch.randn(NODES, CHANNELS, requires_grad=True)

    def run():
        rate = operator(state, graph, 0, context_like(operator, state))[0]
        torch.autograd.grad(rate.square().sum(), [state, *operator.parameters()], allow_unused=True)

    return run


def largest_of_step(name, direction):
    torch.manual_seed(0)
    operator, graph = OPERATORS.make(name, **SIZES), graph_of(direction)
    with LargestTensor() as largest:
        make_step(operator, graph)()
    return largest, graph.received.nnz


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["both", "out"])
@pytest.mark.parametrize("name", OPERATORS.names)
def test_an_operator_makes_no_tensor_that_its_equation_does_not_need(name, direction):
    largest, num_entries = largest_of_step(name, direction)
    needed = max(STATES * NODES * CHANNELS, NUMBERS_PER_ENTRY * num_entries)
    assert needed < num_entries * CHANNELS < PAIRS
    if (name, direction) in ON_EDGES:
        assert needed < largest.size <= num_entries * CHANNELS, largest.shape
    elif name in ON_PAIRS:
        assert needed < largest.size <= PAIRS, largest.shape
    else:
        assert largest.size <= needed, largest.shape


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["both", "out"])
@pytest.mark.parametrize("name", OPERATORS.names)
def test_a_step_needs_no_more_memory_at_its_peak_than_its_equation(name, direction):
    operator, graph = OPERATORS.make(name, **SIZES), graph_of(direction)
    run = make_step(operator, graph)
    run()  # what is kept for the graph does not count
    peak, num_entries = peak_bytes(run, torch.device("cpu")) / 4, graph.received.nnz
    if name in COPIES_ON_PAIRS:
        most = COPIES_ON_PAIRS[name] * PAIRS
        assert peak <= most < peak + PAIRS
        return
    needs = (PEAKS_ONE_WAY if direction == "out" else {}).get(name) or PEAKS.get(name, USUAL)
    on_entries = num_entries * CHANNELS
    most = needs.states * NODES * CHANNELS + needs.per_entry * num_entries + needs.copies_on_entries * on_entries
    assert peak <= most < peak + on_entries, (peak / NODES / CHANNELS, peak / num_entries, peak / on_entries)


def test_exceptions_are_operators():
    assert {name for name, _ in ON_EDGES} | {*ON_PAIRS} <= {*OPERATORS.names}


def test_peaks_are_those_of_operators():
    assert {*PEAKS} | {*PEAKS_ONE_WAY} | {*COPIES_ON_PAIRS} <= {*OPERATORS.names}


def test_vectors_of_large_graphs_are_fewer_than_nodes(monkeypatch):
    """Beyond the limit of `flode`, its vectors are as many as `USUAL_RANK`, not as there are nodes."""
    monkeypatch.setattr("tdegnn.operators.flode.MOST_DENSE_NODES", NODES - 1)
    monkeypatch.setattr("tdegnn.operators.flode.USUAL_RANK", 32)
    largest, _ = largest_of_step("flode", "out")
    assert largest.size <= NODES * (32 + 64)
