import pytest
import torch

from tdegnn.rivals.nodes.gprgnn import GeneralizedPageRankNetwork
from tdegnn.training.members import GroupDescent, GroupedAdam
from tests.dense_matrices import convolution
from tests.rivals.checkers import check_members, make
from tests.rivals.dense_checkers import check_equation


def dense(network, received, features):
    matrix = convolution(received)
    state = network.first(features)
    for linear in network.others:
        state = linear(torch.relu(state))
    weights = network.operator.weights
    return sum(weight * torch.linalg.matrix_power(matrix, hop) @ state for hop, weight in enumerate(weights))


DENSE = {"GPRGNN": dense}


def test_it_is_its_equation():
    check_equation(GeneralizedPageRankNetwork, dense, num_hops=4)


@pytest.mark.slow
def test_members_may_differ_in_alpha():
    check_members(GeneralizedPageRankNetwork, [dict(alpha=0.1), dict(alpha=0.9, hidden_dropout=0.3)])


@pytest.mark.parametrize(
    ("alpha", "start"), [(0.0, [0, 0, 0, 1]), (1.0, [1, 0, 0, 0]), (0.5, [0.5, 0.25, 0.125, 0.125])]
)
def test_weights_of_hops_start_as_published(alpha, start):
    network = make(GeneralizedPageRankNetwork, num_hops=3, alpha=alpha)
    expected = torch.tensor(start, dtype=torch.float64)
    assert torch.equal(network.operator.weights.detach(), expected)
    network.operator.weights.data += 1.0
    network.reset_parameters()
    assert torch.equal(network.operator.weights.detach(), expected)


def test_weights_of_hops_learn_in_a_group_of_their_own():
    descent = GroupedAdam(embedding=GroupDescent(0.1, 1.0), spatial=GroupDescent(0.2, 0.0))
    names = dict(make(GeneralizedPageRankNetwork).named_parameters())
    assert [name for name in names if descent.group_of(name).weight_decay == 0.0] == ["operator.weights"]
