"""No operator makes a tensor that is larger than its equation needs: not (nodes x nodes), not (edges x channels).

A step is measured on a graph with many more entries than nodes, forward and backward. States, some of them side by
side, and a few numbers per entry, such as the scores of heads or the blocks of a sheaf, are what an equation needs. The
exceptions are listed with their reason, and held to what it says.
"""

import numpy as np
import pytest
import torch
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


def largest_of_step(name, direction):
    torch.manual_seed(0)
    operator, graph = OPERATORS.make(name, **SIZES), graph_of(direction)
    state = torch.randn(NODES, CHANNELS, requires_grad=True)
    with LargestTensor() as largest:
        rate = operator(state, graph, 0, context_like(operator, state))[0]
        torch.autograd.grad(rate.square().sum(), [state, *operator.parameters()], allow_unused=True)
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


def test_exceptions_are_operators():
    assert {name for name, _ in ON_EDGES} | {*ON_PAIRS} <= {*OPERATORS.names}


def test_vectors_of_large_graphs_are_fewer_than_nodes(monkeypatch):
    """Beyond the limit of `flode`, its vectors are as many as `USUAL_RANK`, not as there are nodes."""
    monkeypatch.setattr("tdegnn.operators.flode.MOST_DENSE_NODES", NODES - 1)
    monkeypatch.setattr("tdegnn.operators.flode.USUAL_RANK", 32)
    largest, _ = largest_of_step("flode", "out")
    assert largest.size <= NODES * (32 + 64)
