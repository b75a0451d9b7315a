import math

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv

from tdegnn import FixedCoefficients, InputError, Part, StationaryNetwork
from tdegnn.adjacency import looped_messages
from tdegnn.operators.registry import OPERATORS
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests.core.checkers import (
    CHANNELS,
    NUM_NODES,
    check_equation,
    check_members,
    check_operator,
    random_history,
    small_graph,
    weighted_graph,
)
from tests.dense_matrices import batch_norm, convolution, scaled

SIZES = dict(channels=CHANNELS, num_layers=2)


def make(name, **settings):
    return OPERATORS.make(Part(name, **settings), **SIZES)


def affine(linear, state):
    return state @ linear.weight.T + (0 if linear.bias is None else linear.bias)


def gcn(operator, received, first, state, layer):
    return torch.relu(affine(operator.backbone.maps[layer], convolution(received) @ state)) - state


def tuned_gcn(operator, received, first, state, layer):
    backbone = operator.backbone
    mixed = affine(backbone.maps[layer], convolution(received) @ state)
    if backbone.residual_maps:
        mixed = mixed + affine(backbone.residual_maps[layer], state)
    if backbone.norms:
        mixed = batch_norm(backbone.norms[layer], mixed)
    return torch.relu(mixed) - state


def gat(operator, received, first, state, layer):
    backbone = operator.backbone
    is_received = (received != 0) | torch.eye(NUM_NODES, dtype=torch.bool)
    mapped, width = state @ backbone.maps[layer].weight.T, CHANNELS // backbone.num_heads
    heads = []
    for head in range(backbone.num_heads):
        own = mapped[:, head * width : (head + 1) * width]
        receivers, senders = (
            own @ vectors[layer, head] for vectors in (backbone.receiver_vectors, backbone.sender_vectors)
        )
        scores = functional.leaky_relu(receivers[:, None] + senders[None, :], 0.2)
        heads.append(torch.softmax(scores.masked_fill(~is_received, -torch.inf), dim=1) @ own)
    return functional.elu(torch.cat(heads, dim=1) + backbone.bias[layer]) - state


def dir_gnn(operator, received, first, state, layer):
    backbone, exponents = operator.backbone, (operator.backbone.row_exponent, operator.backbone.column_exponent)
    mixed = affine(backbone.maps[layer], scaled(received, *exponents) @ state)
    if backbone.opposite_maps:
        # The received matrix of a graph of direction "both" is symmetric.
        opposite = affine(backbone.opposite_maps[layer], scaled(received.T, *exponents) @ state)
        mixed = backbone.alpha * mixed + (1 - backbone.alpha) * opposite
    active = mixed.abs() if backbone.activation == "absolute" else mixed.clamp(min=0)
    norm = active.square().sum(dim=1, keepdim=True)
    return active / torch.where(norm > 0, norm, 1.0).sqrt() - state


def gcnii(operator, received, first, state, layer):
    backbone = operator.backbone
    gap = math.log(backbone.theta / (layer + 1) + 1)
    mixed = (1 - backbone.alpha) * convolution(received) @ state + backbone.alpha * first
    identity = torch.eye(CHANNELS, dtype=state.dtype)
    return torch.relu(mixed @ ((1 - gap) * identity + gap * backbone.maps[layer].weight.T)) - state


def gcnii_star(operator, received, first, state, layer):
    backbone = operator.backbone
    gap, convolved = math.log(backbone.theta / (layer + 1) + 1), convolution(received) @ state
    mixed = (1 - backbone.alpha) * convolved + backbone.alpha * first
    mapped = convolved @ backbone.maps[layer].weight.T + first @ backbone.first_maps[layer].weight.T
    return torch.relu((1 - gap) * mixed + gap * mapped) - state


DENSE = {
    "gcn": gcn,
    "tuned-gcn": tuned_gcn,
    "gat": gat,
    "dir-gnn": dir_gnn,
    "gcnii": gcnii,
    "gcnii*": gcnii_star,
}


@pytest.mark.parametrize(
    ("part", "dense"),
    [
        (Part("gcn"), gcn),
        (Part("tuned-gcn"), tuned_gcn),
        (Part("tuned-gcn", batch_norm=False), tuned_gcn),
        (Part("tuned-gcn", residual=False), tuned_gcn),
        (Part("gat"), gat),
        (Part("gat", num_heads=2), gat),
        (Part("dir-gnn"), dir_gnn),
        (Part("dir-gnn", row_exponent=-0.25, column_exponent=-0.75, activation="absolute"), dir_gnn),
        (Part("dir-gnn", alpha=0.3), dir_gnn),
        (Part("gcnii", alpha=0.2, theta=1.5), gcnii),
        (Part("gcnii*", alpha=0.2, theta=1.5), gcnii_star),
    ],
    ids=lambda value: repr(value) if isinstance(value, Part) else value.__name__,
)
def test_backbone_is_its_equation(part, dense):
    check_equation(lambda: OPERATORS.make(part, **SIZES), dense)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_dir_gnn_may_have_a_direction_of_its_own(direction):
    received = torch.as_tensor(weighted_graph(direction).received.toarray())
    check_equation(
        lambda: make("dir-gnn", direction=direction),
        lambda operator, _, *given: dir_gnn(operator, received, *given),
        directions=("in",),
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", [Part("dir-gnn", alpha=0.3), Part("gat", num_heads=1)], ids=repr)
def test_settings_keep_the_contract(part):
    check_operator(OPERATORS.make(part, **SIZES), torch.device("cpu"))
    check_members(lambda: OPERATORS.make(part, **SIZES))


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_gcn_and_gat_are_those_of_pyg(direction):
    graph, (state,) = small_graph(direction), random_history(1)
    edges = looped_messages(graph, state)
    conv, backbone = GCNConv(CHANNELS, CHANNELS).double(), make("gcn").backbone.double()
    backbone.maps[1].load_state_dict({"weight": conv.lin.weight, "bias": conv.bias})
    torch.testing.assert_close(backbone(state, graph, 1)[0], torch.relu(conv(state, graph.messages[0])))
    conv, backbone = GATConv(CHANNELS, 2, heads=2, add_self_loops=False).double(), make("gat", num_heads=2).backbone
    backbone.double().maps[1].load_state_dict({"weight": conv.lin.weight})
    with torch.no_grad():
        backbone.sender_vectors[1], backbone.receiver_vectors[1] = conv.att_src[0], conv.att_dst[0]
    torch.testing.assert_close(backbone(state, graph, 1)[0], functional.elu(conv(state, edges)))


def test_one_layer_of_gcnii_is_that_of_pyg():
    graph, (state, first) = small_graph("out"), random_history(2)
    conv = GCN2Conv(CHANNELS, 0.2, theta=0.7, layer=2).double()
    backbone = make("gcnii", alpha=0.2, theta=0.7).backbone.double()
    backbone.maps[1].load_state_dict({"weight": conv.weight1.T})
    _, context = backbone(first, graph, 0)
    expected = torch.relu(conv(state, first, graph.messages[0]))
    torch.testing.assert_close(backbone(state, graph, 1, context)[0], expected)


def test_gcnii_as_a_rate_is_the_rival():
    graph, features, num_layers = small_graph(), torch.randn(NUM_NODES, 5), 3
    rival = NODE_NETWORKS["GCNII"](5, 2, NUM_NODES, hidden_channels=CHANNELS, num_layers=num_layers, alpha=0.3)
    operator = OPERATORS.make(Part("gcnii", alpha=0.3), channels=CHANNELS, num_layers=num_layers)
    network = StationaryNetwork(5, 2, CHANNELS, num_layers, FixedCoefficients([1.0]), operator, step_size=1.0)
    for name in ("embedding", "readout"):
        getattr(network, name).load_state_dict(getattr(rival, name).state_dict())
    operator.backbone.maps.load_state_dict(rival.operator.state_dict())
    answers = [each.double().eval()(features.double(), graph) for each in (rival, network)]
    torch.testing.assert_close(*answers, atol=1e-12, rtol=0)
    loss, gradients = [answer.sin().sum() for answer in answers], []
    for each, value in zip((rival, network), loss, strict=True):
        value.backward()
        gradients.append(each.embedding.weight.grad)
    # The first state is not detached: the embedding learns through all layers.
    torch.testing.assert_close(*gradients)


def test_members_may_differ_in_alpha_and_theta():
    settings = iter([dict(alpha=0.1, theta=0.5), dict(alpha=0.5, theta=1.5), dict(alpha=0.9, theta=1.0)])
    check_members(lambda: make("gcnii", **next(settings)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: OPERATORS.make("gat", channels=6, num_layers=1),
            "Expected channels to be a multiple of the 4 heads, got 6",
        ),
        (lambda: OPERATORS.make("gat", channels=2, num_layers=1), "Expected at least 4 channels, one per head, got 2"),
        (lambda: make("gat", num_heads=0), "num_heads to be at least 1"),
        (lambda: make("dir-gnn", activation="tanh"), "activation to be one of relu, absolute, identity, got 'tanh'"),
        (lambda: make("dir-gnn", alpha=1.5), "alpha to be from 0 to 1, got 1.5"),
        (
            lambda: make("dir-gnn", direction="up"),
            "direction of DirGnnBackbone to be null or out or in or both",
        ),
        (lambda: make("dir-gnn", row_exponent=math.nan), "row_exponent of DirGnnBackbone to be finite"),
        (lambda: make("gcnii", alpha=-0.1), "alpha to be from 0 to 1"),
        (lambda: make("gcnii*", theta=0.0), "theta to be positive, got 0.0"),
        (lambda: make("gcn")(random_history(1, dtype=torch.float32)[0], small_graph(), 2), "got layer 2"),
        (lambda: make("gcn")(torch.zeros(NUM_NODES, 3), small_graph(), 0), "Expected states of 4 channels"),
    ],
)
def test_wrong_settings_are_refused(call, message, as_a_user):
    with pytest.raises(InputError, match=message):
        call()
