import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.operators import flode
from tdegnn.operators.flode import FlodeOperator
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history, weighted_graph
from tests.dense_matrices import scaled, with_loops


def power(received, exponent, self_loops=False):
    """U S^p V^T by another way: `L (L^T L)^((p - 1) / 2)`, through eigenvectors."""
    matrix = scaled(with_loops(received) if self_loops else received)
    squares, vectors = torch.linalg.eigh(matrix.T @ matrix)
    kept = squares > 1e-12
    powers = squares[kept] ** ((exponent - 1) / 2)
    return matrix @ vectors[:, kept] @ torch.diag(powers) @ vectors[:, kept].T


def dense_rate(operator, received, first, state, layer):
    matrix = operator.scale * power(received, operator.exponent, operator.self_loops)
    if operator.kind == "heat":
        return -matrix @ state @ torch.diag(operator.weight)
    half = CHANNELS // 2
    complex_state = torch.complex(state[:, :half], state[:, half:])
    weight = torch.diag(torch.complex(operator.weight[:half], operator.weight[half:]))
    rate = -1j * matrix.to(complex_state.dtype) @ complex_state @ weight
    return torch.cat([rate.real, rate.imag], dim=-1)


DENSE = {"flode": dense_rate}


@pytest.mark.parametrize("settings", [{}, {"kind": "heat"}, {"self_loops": True}], ids=str)
def test_rate_is_the_equation(settings):
    check_equation(lambda: FlodeOperator(CHANNELS, **settings), dense_rate)


def test_schroedinger_equation_keeps_the_size_of_a_state():
    operator, graph, (state,) = FlodeOperator(CHANNELS).double(), weighted_graph(), random_history(1)
    with torch.no_grad():
        operator.exponent.fill_(0.4)
        operator.weight.copy_(torch.tensor([1.0, 1.0, 0.0, 0.0]))
    rate = operator(state, graph, 0)[0]
    assert rate.norm() > 0.1
    assert abs((state * rate).sum()) < 1e-12


def test_heat_equation_with_exponent_one_receives_from_neighbors():
    operator, graph, (state,) = FlodeOperator(3, kind="heat").double(), weighted_graph("out"), random_history(1)
    rate = operator(state[:, :3], graph, 0)[0]
    torch.testing.assert_close(rate, -graph.propagate(state[:, :3]) * operator.weight)
    assert rate[-1].abs().max() == 0  # the isolated node


def test_largest_singular_values_are_the_same_by_both_ways(monkeypatch):
    graph, (state,) = weighted_graph("out"), random_history(1)
    operator = FlodeOperator(CHANNELS, rank=3).double()
    dense = operator(state, graph, 0)[0]
    assert not torch.allclose(dense, FlodeOperator(CHANNELS).double()(state, graph, 0)[0])
    monkeypatch.setattr(flode, "MOST_DENSE_NODES", 0)
    torch.testing.assert_close(operator(state, weighted_graph("out"), 0)[0], dense)
    monkeypatch.setattr(flode, "USUAL_RANK", 3)
    usual = FlodeOperator(CHANNELS).double()
    usual.load_state_dict(operator.state_dict())
    torch.testing.assert_close(usual(state, weighted_graph("out"), 0)[0], dense)


@pytest.mark.parametrize("most_dense", [0, 6_000])
def test_a_graph_without_edges_changes_nothing(monkeypatch, most_dense):
    monkeypatch.setattr(flode, "MOST_DENSE_NODES", most_dense)
    operator, (state,) = FlodeOperator(CHANNELS, rank=2).double(), random_history(1)
    state.requires_grad_()
    rate = operator(state, Graph([[], []], NUM_NODES), 0)[0]
    rate.sum().backward()
    assert rate.abs().max() == 0
    assert operator.exponent.grad == 0


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FlodeOperator(3), "channels to be even, since complex states are pairs of channels, got 3. Take one"),
        (lambda: FlodeOperator(4, kind="wave"), "kind to be one of schroedinger, heat, got 'wave'"),
        (lambda: FlodeOperator(4, rank=0), "rank to be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
