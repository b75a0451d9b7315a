from functools import partial

import pytest
import torch

from tdegnn import Graph, InputError
from tdegnn.operators.graff import GraffOperator
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, check_members, random_history, weighted_graph
from tests.dense_matrices import scaled


def dense_rate(operator, received, first, state, layer):
    if operator.mixing == "diagonal":
        mixing = torch.diag_embed(operator.diagonal)
    else:
        off = 1 - torch.eye(CHANNELS, dtype=torch.float64)
        symmetric = (operator.off_diagonal * off + (operator.off_diagonal * off).T) / 2
        rows = operator.dominance * symmetric.abs().sum(dim=0) + operator.diagonal
        mixing = symmetric + rows * torch.eye(CHANNELS, dtype=torch.float64)
    rate = scaled(received) @ state @ mixing
    if operator.own_terms:
        rate = rate - state @ torch.diag(operator.decay) + operator.source * first.detach()
    if operator.standardized:
        rate = torch.nn.BatchNorm1d(CHANNELS, affine=False, track_running_stats=False)(rate)
    return rate.clamp(min=0) if operator.activation else rate


DENSE = {"graff": dense_rate, "graff-diagonal": dense_rate}


@pytest.mark.parametrize("mixing", ["diagonal", "diagonally-dominant"])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_rate_is_the_equation(mixing, activation):
    check_equation(lambda: GraffOperator(CHANNELS, mixing=mixing, activation=activation), dense_rate)


@pytest.mark.parametrize("activation", [None, "relu"])
def test_rate_of_two_datasets_is_the_equation(activation):
    make = partial(GraffOperator, CHANNELS, activation=activation, own_terms=False, standardized=True)
    check_equation(make, dense_rate)
    check_members(make)
    assert {name for name, _ in make().named_parameters()} == {"diagonal", "off_diagonal", "dominance"}


def test_linear_flow_descends_its_energy():
    """Without a source, the rate is minus half the gradient of an energy, since W is symmetric."""
    operator, graph = GraffOperator(CHANNELS).double(), weighted_graph()
    state = random_history(1)[0].requires_grad_()
    assert torch.equal(operator.mixing_matrix(), operator.mixing_matrix().T)
    rate = operator(state, graph, 0)[0]
    energy = -(state * rate).sum()
    torch.testing.assert_close(-torch.autograd.grad(energy, state)[0] / 2, rate)


def test_a_graph_without_edges_leaves_decay_and_source():
    operator, (state, first) = GraffOperator(CHANNELS).double(), random_history(2)
    torch.nn.init.constant_(operator.source, 0.5)
    _, context = operator(first, Graph([[], []], NUM_NODES), 0)
    rate, kept = operator(state, Graph([[], []], NUM_NODES), 1, context)
    assert kept is context
    torch.testing.assert_close(rate, -state * operator.decay + 0.5 * first)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(mixing="full"), "mixing to be one of diagonal, diagonally-dominant, got 'full'"),
        (dict(activation="tanh"), "activation to be 'relu' or None, got 'tanh'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        GraffOperator(CHANNELS, **settings)
