import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.operators.directed_diffusion import DirectedDiffusion
from tests.core.checkers import CHANNELS, check_equation, check_members, random_history, weighted_graph
from tests.dense_matrices import scaled

SETTINGS = [
    dict(),
    dict(num_hops=3, row_exponent=-1.0, column_exponent=0.0, activation="identity"),
    dict(num_hops=2, row_exponent=-0.25, column_exponent=-0.75, activation="absolute"),
]


def directed_diffusion(operator, received, first, state, layer):
    # Along the edges as they are, whatever the direction of the graph.
    edges = torch.as_tensor(weighted_graph("out").received.toarray())
    exponents = (operator.row_exponent, operator.column_exponent)
    self_map, *maps = operator.maps[layer].weight.T.split(CHANNELS)
    total = state @ self_map + operator.maps[layer].bias
    for number in range(operator.num_hops):
        for matrix, own in ((edges, maps[: operator.num_hops]), (edges.T, maps[operator.num_hops :])):
            total = total + torch.linalg.matrix_power(scaled(matrix, *exponents), number + 1) @ state @ own[number]
    return {"relu": torch.relu, "absolute": torch.abs, "identity": lambda each: each}[operator.activation](total)


DENSE = {"directed-diffusion": directed_diffusion, "walks": directed_diffusion}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_directed_diffusion_is_its_equation(settings):
    check_equation(lambda: DirectedDiffusion(CHANNELS, 2, **settings), directed_diffusion)


def test_both_directions_of_a_symmetric_graph_are_one_product():
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    graph = Graph(edges, 4, edge_weight=[1.0, 1.0, 2.0, 2.0, 0.5, 0.5])
    operator = DirectedDiffusion(CHANNELS, 1, num_hops=2, row_exponent=-1.0, column_exponent=0.0).double()
    state = random_history(1)[0][:4]
    matrix = scaled(torch.as_tensor(graph.received.toarray()), -1.0, 0.0)
    self_map, *maps = operator.maps[0].weight.T.split(CHANNELS)
    expected = state @ self_map + operator.maps[0].bias
    for hop in range(2):
        walked = torch.linalg.matrix_power(matrix, hop + 1) @ state
        expected = expected + walked @ maps[hop] + walked @ maps[2 + hop]
    assert graph.is_symmetric
    assert not Graph(edges, 4, edge_weight=[1.0, 2.0, 2.0, 2.0, 0.5, 0.5]).is_symmetric
    torch.testing.assert_close(operator(state, graph, 0)[0], torch.relu(expected), rtol=1e-12, atol=1e-12)


def test_members_with_more_hops_get_what_they_get_alone():
    check_members(lambda: DirectedDiffusion(CHANNELS, 2, **SETTINGS[1]))


def test_out_and_in_are_told_apart_also_in_a_graph_of_both():
    operator, state = DirectedDiffusion(CHANNELS, 1).double(), random_history(1)[0][:2]
    there, back = (operator(state, Graph(edges, 2), 0)[0] for edges in ([[0], [1]], [[1], [0]]))
    assert not torch.allclose(there, back)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(num_hops=0), "num_hops to be at least 1, got 0"),
        (dict(column_exponent=float("inf")), "column_exponent to be finite"),
        (dict(activation="tanh"), "activation to be one of relu, absolute, identity, got 'tanh'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        DirectedDiffusion(CHANNELS, 2, **settings)
