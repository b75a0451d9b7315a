from functools import partial

import pytest
import torch

from tdegnn import InputError
from tdegnn.adjacency import convolution_matrix
from tdegnn.rivals.nodes.fsgnn import HOPS, FeatureSelectionNetwork
from tests.dense_matrices import convolution, scaled_by_rows
from tests.rivals.checkers import HIDDEN, check_node_network, make
from tests.rivals.dense_checkers import check_equation


def dense(network, received, features):
    hops = [features]
    for kind in network.matrices:
        matrix = (convolution if kind is convolution_matrix else scaled_by_rows)(received)
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
@pytest.mark.parametrize("hops", HOPS)
def test_it_is_its_equation(is_unit_length, hops):
    check_equation(FeatureSelectionNetwork, dense, is_unit_length=is_unit_length, hops=hops)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"is_unit_length": False}, {"hops": "without-loops"}])
def test_it_keeps_the_contract_with_other_settings(settings):
    check_node_network(partial(FeatureSelectionNetwork, **settings))


def test_unknown_hops_are_refused():
    with pytest.raises(InputError, match="Expected hops to be one of all, without-loops, with-loops, got 'none'"):
        make(FeatureSelectionNetwork, hops="none")


def test_all_hops_start_alike():
    network = make(FeatureSelectionNetwork, num_layers=2)
    assert torch.equal(network.operator.weights.detach(), torch.ones(5, dtype=torch.float64))
