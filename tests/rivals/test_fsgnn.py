from functools import partial

import pytest
import torch

from tdegnn.rivals.nodes.fsgnn import FeatureSelectionNetwork
from tests.dense_matrices import convolution, scaled_by_rows
from tests.rivals.checkers import HIDDEN, check_node_network, make
from tests.rivals.dense_checkers import check_equation


def dense(network, received, features):
    hops = [features]
    for matrix in (scaled_by_rows(received), convolution(received)):
        hops += [torch.linalg.matrix_power(matrix, hop) @ features for hop in range(1, network.num_layers + 1)]
    shares = torch.softmax(network.operator.weights, dim=0)
    weights, biases = network.maps.weight.split(HIDDEN), network.maps.bias.split(HIDDEN)
    joined = []
    for share, hop, weight, bias in zip(shares, hops, weights, biases, strict=True):
        mapped = hop @ weight.T + bias
        joined.append(share * (mapped / mapped.norm(dim=1, keepdim=True) if network.is_unit_length else mapped))
    return network.readout(torch.relu(torch.cat(joined, dim=1)))


DENSE = {"FSGNN": dense}


@pytest.mark.parametrize("is_unit_length", [True, False])
def test_it_is_its_equation(is_unit_length):
    check_equation(FeatureSelectionNetwork, dense, is_unit_length=is_unit_length)


@pytest.mark.slow
def test_it_keeps_the_contract_without_unit_length():
    check_node_network(partial(FeatureSelectionNetwork, is_unit_length=False))


def test_all_hops_start_alike():
    network = make(FeatureSelectionNetwork, num_layers=2)
    assert torch.equal(network.operator.weights.detach(), torch.ones(5, dtype=torch.float64))
