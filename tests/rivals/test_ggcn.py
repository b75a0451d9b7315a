import pytest
import torch
from torch.nn import functional

from tdegnn import Graph, InputError
from tdegnn.operators.signed_messages import edge_cosines, signed_product
from tdegnn.operators.unit_length import unit_length
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.sparse import SparseMatrix
from tests.core.checkers import NUM_NODES, weighted_graph
from tests.rivals.checkers import NUM_FEATURES, check_equation, check_members, make

GGCN = NODE_NETWORKS["GGCN"]


def dense_layer(convolution, received, state):
    """Z, written down with matrices (nodes x nodes)."""
    mapped = state @ convolution.linear.weight.T + convolution.linear.bias
    loops = received.diagonal()
    degrees = received.sum(dim=1) + (loops == 0).double()
    S = received / torch.sqrt(degrees[:, None] * degrees[None, :])
    cosines = functional.cosine_similarity(mapped[:, None], mapped[None, :], dim=-1)
    ratios = torch.sqrt(degrees[None, :] / degrees[:, None]) - 1
    T = cosines * S * functional.softplus(convolution.degree_slope * ratios + convolution.degree_offset)
    T = T - torch.diag(T.diagonal())
    c = torch.softmax(convolution.mixture, dim=0)
    mixed = c[0] * torch.relu(T) @ mapped + c[1] * -torch.relu(-T) @ mapped + c[2] * mapped
    return functional.softplus(convolution.scale) * mixed


def dense_network(network, received, features):
    state = functional.elu(features @ network.embedding.weight.T + network.embedding.bias)
    Z = dense_layer(network.convolutions[0], received, features)
    for number, convolution in enumerate(network.convolutions[1:]):
        # Terms of the sum are counted from one; the first two have the weight one.
        weight = torch.log(network.eta.double() / (number + 2) ** 3 + 1) if number else 1.0
        state = state + weight * functional.elu(Z)
        Z = dense_layer(convolution, received, state)
    return Z


DENSE = {"GGCN": dense_network}


@pytest.mark.slow
def test_ggcn_is_its_equation():
    check_equation(lambda: make(GGCN, num_layers=4, eta=0.7), dense_network)


def test_a_self_loop_counts_in_the_degree_but_sends_no_message():
    graph = Graph([[0, 0, 1], [0, 1, 2]], 3, [3.0, 1.0, 2.0], "both", keep_self_loops=True)
    features = torch.randn(3, NUM_FEATURES, dtype=torch.float64)
    network = make(GGCN, num_nodes=3, eta=0.7).eval()
    expected = dense_network(network, torch.as_tensor(graph.received.toarray()), features)
    torch.testing.assert_close(network(features, graph), expected, atol=1e-9, rtol=1e-9)


def test_the_first_values_are_the_published_ones():
    (layer, *_) = make(GGCN).convolutions
    numbers = [layer.mixture.tolist(), layer.scale.item(), layer.degree_slope.item(), layer.degree_offset.item()]
    assert numbers == [[0.0, 0.0, 0.0], 2.0, 0.5, 0.0]


@pytest.mark.slow
def test_members_may_differ_in_eta():
    check_members(GGCN, [dict(eta=0.02), dict(eta=1.2)])


@pytest.mark.parametrize("eta", [-0.1, float("nan"), float("inf")])
def test_a_wrong_eta_is_refused(eta):
    with pytest.raises(InputError, match="Expected eta to be at least 0 and finite, got"):
        make(GGCN, eta=eta)


def test_signed_messages_take_batches():
    pattern = SparseMatrix.from_scipy(weighted_graph().received)
    state = torch.randn(2, NUM_NODES, 3, dtype=torch.float64)
    state[0, 0] = 0.0
    p, n = torch.tensor([0.3, 0.9], dtype=torch.float64)
    came = signed_product(pattern, edge_cosines(pattern, state), state, p, n)
    directions = unit_length(state)
    assert directions[0, 0].tolist() == [0.0, 0.0, 0.0]
    values = (directions @ directions.mT) * (pattern.to_dense() != 0)
    torch.testing.assert_close(came, (p * values.clamp(min=0) + n * values.clamp(max=0)) @ state)
