from functools import partial

import pytest
import torch

from tdegnn import InputError
from tdegnn.rivals.nodes.acm import AdaptiveChannelNetwork
from tests.core.checkers import small_graph
from tests.dense_matrices import with_loops
from tests.rivals.checkers import check_members, check_relabeling, make
from tests.rivals.dense_checkers import check_equation


def dense(network, received, features):
    looped = with_loops(received)
    low = looped / looped.sum(dim=1, keepdim=True)
    filters = [low, torch.eye(len(low), dtype=torch.float64) - low, torch.eye(len(low), dtype=torch.float64)]
    state = features
    for number, layer in enumerate(network.layers):
        state = torch.relu(state) if number else state
        mapped = (state @ layer.weight).chunk(3, dim=1)
        if layer.relu_first:
            parts = [matrix @ torch.relu(each) for matrix, each in zip(filters, mapped, strict=True)]
        else:
            parts = [torch.relu(matrix @ each) for matrix, each in zip(filters, mapped, strict=True)]
        if layer.num_nodes is not None:
            parts.append(torch.relu(received @ layer.row_weight))
        scores = [torch.sigmoid(part @ vector) for part, vector in zip(parts, layer.part_vectors, strict=True)]
        weights = torch.softmax(torch.stack(scores, dim=1) @ layer.part_mixing / len(parts), dim=1)
        mixed = sum(weight[:, None] * part for weight, part in zip(weights.T, parts, strict=True))
        state = 3 * mixed if len(parts) == 3 else mixed
    return state


DENSE = {"ACMII": dense}


@pytest.mark.parametrize("relu_first", [True, False])
@pytest.mark.parametrize("with_rows", [True, False])
def test_it_is_its_equation(relu_first, with_rows):
    check_equation(AdaptiveChannelNetwork, dense, relu_first=relu_first, with_rows=with_rows)


@pytest.mark.parametrize("relu_first", [True, False])
def test_rows_move_with_the_nodes(relu_first):
    check_relabeling(partial(AdaptiveChannelNetwork, relu_first=relu_first, with_rows=True))


@pytest.mark.slow
def test_members_get_what_they_get_alone():
    check_members(AdaptiveChannelNetwork, [dict(with_rows=True), dict(with_rows=True, hidden_dropout=0.3)])


def test_rows_are_those_of_one_graph():
    network = make(AdaptiveChannelNetwork, num_nodes=9, with_rows=True)
    with pytest.raises(InputError, match="a graph of 9 nodes, .* got 7"):
        network(torch.ones(7, network.num_features, dtype=network.layers[0].weight.dtype), small_graph())
