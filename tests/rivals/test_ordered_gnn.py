from functools import partial

import pytest
import torch
from torch.nn.functional import layer_norm

from tdegnn import InputError
from tdegnn.rivals.nodes.ordered_gnn import OrderedNetwork
from tests.dense_matrices import scaled
from tests.rivals.checkers import HIDDEN, check_node_network, make
from tests.rivals.dense_checkers import check_equation

SETTINGS = dict(num_input_layers=2, num_chunks=4, is_gate_shared=True)


def normed(state, norm):
    return layer_norm(state, (HIDDEN,), norm.weight, norm.bias)


def dense(network, received, features):
    mean = scaled(received, -1.0, 0.0)
    state = features
    for linear, norm in zip([network.first_map, *network.other_maps], network.input_norms, strict=True):
        state = normed(torch.relu(linear(state)), norm)
    layers, gate = network.operator, 0.0
    for number, norm in enumerate(layers.norms):
        received_state = mean @ state
        linear = layers.gates[number % len(layers.gates)]
        shares = torch.softmax(linear(torch.cat([state, received_state], dim=1)), dim=1)
        rising = torch.stack([shares[:, : chunk + 1].sum(dim=1) for chunk in range(layers.num_chunks)], dim=1)
        gate = gate + (1 - gate) * rising
        wide = gate.repeat_interleave(HIDDEN // layers.num_chunks, dim=1)
        state = normed(wide * state + (1 - wide) * received_state, norm)
    return network.readout(state)


DENSE = {"OrderedGNN": dense}


@pytest.mark.parametrize("settings", [dict(), SETTINGS])
def test_it_is_its_equation(settings):
    check_equation(OrderedNetwork, dense, **settings)


@pytest.mark.slow
def test_it_keeps_the_contract_with_all_settings():
    check_node_network(partial(OrderedNetwork, **SETTINGS))


def test_there_are_at_most_64_chunks_unless_asked():
    assert make(OrderedNetwork, hidden_channels=128).operator.num_chunks == 64
    assert make(OrderedNetwork).operator.num_chunks == HIDDEN
    with pytest.raises(InputError, match="Expected hidden_channels to be a multiple of the 3 chunks, got 8"):
        make(OrderedNetwork, num_chunks=3)
