"""Parts of a graph: nodes whose neighbors are there receive what they receive in the whole graph, for any matrix."""

import numpy as np
import pytest
import torch

from tdegnn import Graph
from tdegnn.adjacency import convolution_matrix, scaled_matrix
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part, drawing_weights
from tdegnn.subgraph import Subgraph, nodes_around

NODES, CHANNELS = 120, 8
SIZES = dict(channels=CHANNELS, hidden_channels=8, num_layers=2, step_size=0.3, num_nodes=NODES)


def make_operator(part):
    with drawing_weights(0):
        return OPERATORS.make(part, **SIZES).double().eval()


def is_local(part):
    """Whether it says how far it reaches, and sees nothing but states."""
    operator = make_operator(part)
    return operator.reach is not None and not operator.takes_past_features


LOCAL = [name for name in OPERATORS.names if is_local(name)]


def make_graph(direction="out", is_weighted=True):
    draw = np.random.default_rng(0)
    sources = draw.integers(0, NODES, 260)
    targets = (sources + draw.integers(0, 9, 260)) % NODES
    weights = draw.random(260) + 0.1 if is_weighted else None
    return Graph(np.stack([sources, targets]), NODES, weights, direction, keep_self_loops=True)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_the_whole_graph_as_a_part_is_the_whole_graph(direction):
    graph = make_graph(direction)
    part = Subgraph(graph, np.arange(NODES))
    state = torch.randn(NODES, 3, dtype=torch.float64)
    assert torch.equal(part.propagate(state), graph.propagate(state))
    assert torch.equal(part.laplacian(state), graph.laplacian(state))
    for other in ("out", "in", "both"):
        pair = (scaled_matrix(each, state, -1.0, 0.5, direction=other, self_loops=True) for each in (part, graph))
        torch.testing.assert_close(*(each.to_dense() for each in pair), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_nodes_with_all_their_neighbors_have_the_rows_of_the_whole_graph(direction):
    graph = make_graph(direction)
    inner = np.arange(30, 50)
    nodes = nodes_around(graph, inner, 1)
    part, state = Subgraph(graph, nodes), torch.randn(NODES, 3, dtype=torch.float64)
    places = np.searchsorted(nodes, inner)
    assert len(inner) < len(nodes) < NODES
    for find in (lambda graph, state: graph.propagate(state), lambda graph, state: graph.laplacian(state)):
        torch.testing.assert_close(find(part, state[nodes])[places], find(graph, state)[inner], rtol=0, atol=1e-14)
    found = convolution_matrix(part, state) @ state[nodes]
    torch.testing.assert_close(found[places], (convolution_matrix(graph, state) @ state)[inner], rtol=0, atol=1e-14)


def test_neighbors_stand_for_those_that_are_missing():
    star = Graph([[0, 0, 0, 0], [1, 2, 3, 4]], 5, [1.0, 2.0, 3.0, 4.0])
    part = Subgraph(star, np.array([0, 1, 2]))
    received = part.received.toarray()
    np.testing.assert_allclose(received[0], [0, 10 / 3, 20 / 3])
    np.testing.assert_allclose(received[1:], [[1, 0, 0], [2, 0, 0]])
    np.testing.assert_allclose(part.sums(part.received.tocsr(), 1), [10, 1, 2])


def test_nodes_around_are_found_along_and_against_edges():
    path = Graph([[0, 1, 2, 3], [1, 2, 3, 4]], 6, direction="out")
    assert [nodes_around(path, np.array([2]), hops).tolist() for hops in (0, 1, 2, 5)] == [
        [2],
        [1, 2, 3],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]


@pytest.mark.parametrize("direction", ["out", "both"])
@pytest.mark.parametrize("name", [*LOCAL, "two hops"])
def test_an_operator_reaches_as_far_as_it_says(name, direction):
    check_reach(Part("directed-diffusion", num_hops=2) if name == "two hops" else name, direction)


def check_reach(part, direction):
    """Nodes whose surroundings are there have the rates of the whole graph, in two layers."""
    graph, state = make_graph(direction, is_weighted=False), torch.randn(NODES, CHANNELS, dtype=torch.float64)
    operator, inner = make_operator(part), np.arange(30, 50)
    nodes = nodes_around(graph, inner, operator.reach)
    if operator.reach:
        assert len(inner) < len(nodes) < NODES
    subgraph = Subgraph(graph, nodes)
    first, context = operator(state, graph, 0)
    first_part, context_part = operator(state[nodes], subgraph, 0)
    second, second_part = (
        operator(state.sin(), graph, 1, context)[0],
        operator(state[nodes].sin(), subgraph, 1, context_part)[0],
    )
    for found, expected in ((first_part, first), (second_part, second)):
        torch.testing.assert_close(found[np.searchsorted(nodes, inner)], expected[inner], rtol=0, atol=1e-12)


def test_an_operator_that_reaches_further_than_it_says_is_found(monkeypatch):
    monkeypatch.setattr(OPERATORS.resolve("sheaf-general").kind, "reach", 1)
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        check_reach("sheaf-general", "out")
