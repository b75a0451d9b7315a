import weakref
from functools import partial

import pytest
import torch
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv
from torch_geometric.nn.models import LINKX

from tdegnn import Graph, InputError
from tdegnn.adjacency import convolution_matrix
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tests.dense_matrices import batch_norm, convolution
from tests.rivals.checkers import (
    HIDDEN,
    NUM_FEATURES,
    NUM_NODES,
    NUM_OUTPUTS,
    check_members,
    check_node_network,
    make,
    small_graph,
    sparse_features,
)
from tests.rivals.dense_checkers import check_equation

DIRECTIONS = ["out", "in", "both"]
BUILDERS = NODE_NETWORKS | {"GAT": partial(NODE_NETWORKS["GAT"], num_heads=2)}
WEIGHTED = Graph([[0, 1, 2, 2], [1, 2, 0, 2]], 4, [0.5, 2.0, 3.0, 4.0], "out", keep_self_loops=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
def test_every_network_keeps_the_contract(name):
    check_node_network(BUILDERS[name], sees_features_of_others=name not in {"MLP", "LINKX"})


@pytest.mark.parametrize("name", BUILDERS)
def test_every_network_runs_where_its_weights_are(name, device):
    graph, features = small_graph(), sparse_features()
    network = make(BUILDERS[name], outer_dropout=0.5, hidden_dropout=0.5).train()
    expected = network(features, graph)
    answer = make(BUILDERS[name], outer_dropout=0.5, hidden_dropout=0.5).to(device)(
        features.to(device, torch.float64), graph
    )
    assert answer.device.type == device.type
    torch.testing.assert_close(answer.cpu(), expected)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("GCNII", [dict(alpha=0.1, theta=1.5), dict(alpha=0.5, theta=0.5)]), ("FAGCN", [dict(eps=0.1), dict(eps=0.9)])],
)
def test_members_may_differ_in_what_only_they_know(name, settings):
    check_members(NODE_NETWORKS[name], settings)


def mlp(network, received, features):
    state = features @ network.first.weight.T + network.first.bias
    for linear in network.others:
        state = torch.relu(state) @ linear.weight.T + linear.bias
    return state


def gcn(network, received, features):
    state, P = features, convolution(received)
    for layer in network.convolutions:
        state = P @ state @ layer.lin.weight.T + layer.bias
        if layer is not network.convolutions[-1]:
            state = torch.relu(state)
    return state


def gat(network, received, features):
    """Head by head; edges have no weights here."""
    is_received = (received != 0) | torch.eye(len(received), dtype=torch.bool)
    state = features
    for layer in network.convolutions:
        heads = []
        for head, weight in enumerate(layer.lin.weight.split(layer.out_channels)):
            mapped = state @ weight.T
            senders, receivers = mapped @ layer.att_src[0, head], mapped @ layer.att_dst[0, head]
            scores = torch.nn.functional.leaky_relu(receivers[:, None] + senders[None, :], 0.2)
            heads.append(torch.softmax(scores.masked_fill(~is_received, -torch.inf), dim=1) @ mapped)
        state = (torch.cat(heads, dim=1) if layer.concat else sum(heads) / len(heads)) + layer.bias
        if layer is not network.convolutions[-1]:
            state = torch.nn.functional.elu(state)
    return state


def gcnii(network, received, features):
    P, identity = convolution(received), torch.eye(HIDDEN, dtype=torch.float64)
    first = state = torch.relu(features @ network.embedding.weight.T + network.embedding.bias)
    for depth, linear in enumerate(network.operator, start=1):
        beta = torch.log(network.theta.double() / depth + 1)
        mixed = (1 - network.alpha) * P @ state + network.alpha * first
        state = torch.relu(mixed @ ((1 - beta) * identity + beta * linear.weight.T))
    return state @ network.readout.weight.T + network.readout.bias


def linkx(network, received, features):
    def mapped(linear, values):
        return values @ linear.weight.T + linear.bias

    parts = []
    for values, first, others in (
        (received, network.adjacency_map, network.deeper_adjacency_maps),
        (features, network.feature_map, network.deeper_feature_maps),
    ):
        state = mapped(first, values)
        for layer in others:
            state = mapped(layer.linear, batch_norm(layer.norm, torch.relu(state)))
        parts.append(state)
    state = torch.relu(mapped(network.joint_map, torch.cat(parts, dim=1)) + sum(parts))
    for linear, norm in zip(network.hidden_maps, network.norms, strict=True):
        state = batch_norm(norm, torch.relu(mapped(linear, state)))
    return mapped(network.readout, state)


def fagcn(network, received, features):
    pattern = (received != 0).double()
    degrees = pattern.sum(dim=1).clamp(min=1)
    first = state = torch.relu(features @ network.embedding.weight.T + network.embedding.bias)
    for layer in network.operator:
        attention = torch.tanh(state @ layer.att_r.weight.T + (state @ layer.att_l.weight.T).T)
        state = network.eps * first + pattern * attention / torch.sqrt(degrees[:, None] * degrees[None, :]) @ state
    return state @ network.readout.weight.T + network.readout.bias


DENSE = {"MLP": mlp, "GCN": gcn, "GAT": gat, "GCNII": gcnii, "LINKX": linkx, "FAGCN": fagcn}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("GAT", dict(num_heads=2)),
        ("GCNII", dict(alpha=0.3, theta=1.5)),
        ("LINKX", dict(num_input_layers=3)),
        ("FAGCN", dict(eps=0.4)),
    ],
)
def test_networks_with_settings_are_their_equations(name, settings):
    check_equation(NODE_NETWORKS[name], DENSE[name], **settings)


@pytest.mark.parametrize("graph", [small_graph("out"), small_graph("both"), WEIGHTED], ids=["out", "both", "weighted"])
def test_the_convolution_is_that_of_pyg(graph):
    edges, weights = graph.messages
    state = torch.randn(graph.num_nodes, 4, dtype=torch.float64)
    pyg = GCNConv(4, 6).double()
    ours = convolution_matrix(graph, state) @ (state @ pyg.lin.weight.T) + pyg.bias
    torch.testing.assert_close(ours, pyg(state, edges, weights))


def test_the_convolution_is_built_once_and_goes_with_its_graph():
    graph, state = small_graph(), torch.zeros(1)
    assert convolution_matrix(graph, state) is convolution_matrix(graph, state)
    reference = weakref.ref(graph)
    del graph
    assert reference() is None


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gcnii_is_that_of_pyg(direction):
    alpha, theta = 0.3, 1.5
    graph, features = small_graph(direction), sparse_features()
    edges, weights = graph.messages
    network = make(NODE_NETWORKS["GCNII"], alpha=alpha, theta=theta, num_layers=4).eval()
    first = state = torch.relu(network.embedding(features.to_dense()))
    for depth, linear in enumerate(network.operator, start=1):
        layer = GCN2Conv(HIDDEN, alpha, theta, depth).double()
        layer.weight1.data = linear.weight.T.detach()
        state = torch.relu(layer(state, first, edges, weights))
    torch.testing.assert_close(network(features, graph), network.readout(state))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gat_is_that_of_pyg(direction):
    graph, features = small_graph(direction), sparse_features()
    network = make(BUILDERS["GAT"]).eval()
    state = features.to_dense()
    for layer in network.convolutions:
        pyg = GATConv(layer.in_channels, layer.out_channels, 2, concat=layer.concat).double()
        pyg.load_state_dict(layer.state_dict())
        state = pyg(state, graph.messages[0])
        if layer is not network.convolutions[-1]:
            state = torch.nn.functional.elu(state)
    torch.testing.assert_close(network(features, graph), state)


@pytest.mark.parametrize("num_input_layers", [1, 2, 3])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_linkx_is_that_of_pyg(direction, num_input_layers):
    graph, features = small_graph(direction), sparse_features()
    network = make(NODE_NETWORKS["LINKX"], num_input_layers=num_input_layers).train()
    for _ in range(3):
        network(features, graph)  # batch norm has seen something
    layers = dict(num_layers=3, num_edge_layers=num_input_layers, num_node_layers=num_input_layers)
    pyg = LINKX(NUM_NODES, NUM_FEATURES, HIDDEN, NUM_OUTPUTS, **layers).double().eval()
    left, right = network.joint_map.weight.chunk(2, dim=1)
    parts = {
        "edge_lin": dict(weight=network.adjacency_map.weight.T, bias=network.adjacency_map.bias),
        "node_mlp.lins.0": network.feature_map.state_dict(),
        "cat_lin1": dict(weight=left, bias=network.joint_map.bias),
        "cat_lin2": dict(weight=right, bias=torch.zeros(HIDDEN)),
        "final_mlp.lins.2": network.readout.state_dict(),
    }
    for index, (linear, norm) in enumerate(zip(network.hidden_maps, network.norms, strict=True)):
        parts |= {f"final_mlp.lins.{index}": linear.state_dict(), f"final_mlp.norms.{index}.module": norm.state_dict()}
    for index, layer in enumerate(network.deeper_feature_maps):
        norm, linear = f"node_mlp.norms.{index}.module", f"node_mlp.lins.{index + 1}"
        parts |= {norm: layer.norm.state_dict(), linear: layer.linear.state_dict()}
    for index, layer in enumerate(network.deeper_adjacency_maps):
        norm = "edge_norm" if index == 0 else f"edge_mlp.norms.{index - 1}.module"
        parts |= {norm: layer.norm.state_dict(), f"edge_mlp.lins.{index}": layer.linear.state_dict()}
    pyg.load_state_dict({f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()})
    torch.testing.assert_close(network.eval()(features, graph), pyg(features.to_dense(), graph.messages[0]))


def test_linkx_looks_at_the_weights_of_those_a_node_receives_from():
    graph = Graph([[0, 0], [1, 2]], 4, direction="out")
    network = make(NODE_NETWORKS["LINKX"], num_nodes=4).eval()
    network(torch.ones(4, NUM_FEATURES, dtype=torch.float64), graph)[0].sum().backward()
    is_seen = network.adjacency_map.weight.grad.abs().sum(dim=0) > 0
    assert is_seen.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        ("MLP", 5 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3),
        ("GCN", 5 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3),
        # Two heads; in the last layer each has all outputs.
        ("GAT", (5 * 8 + 2 * 8 + 8) + (8 * 8 + 2 * 8 + 8) + (8 * 6 + 2 * 6 + 3)),
        ("GCNII", 5 * 8 + 8 + 3 * 8 * 8 + 8 * 3 + 3),
        ("LINKX", (12 * 8 + 8) + (5 * 8 + 8) + (16 * 8 + 8) + 2 * (8 * 8 + 8 + 2 * 8) + 8 * 3 + 3),
        ("FAGCN", 5 * 8 + 8 + 3 * 2 * 8 + 8 * 3 + 3),
        ("GPRGNN", 5 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3 + 11),
        ("H2GCN", 5 * 8 + 15 * 8 * 3),
        ("FSGNN", 7 * (5 * 8 + 8) + 7 + 7 * 8 * 3 + 3),
        ("OrderedGNN", 5 * 8 + 8 + 2 * 8 + 3 * (16 * 8 + 8 + 2 * 8) + 8 * 3 + 3),
        ("GGCN", 2 * (5 * 8 + 8) + (8 * 8 + 8) + (8 * 3 + 3) + 3 * 6),
        ("Geom-GCN", 9 * (5 * 8 + 72 * 8 + 72 * 3)),
    ],
)
def test_parameters_are_counted(name, num_parameters):
    assert sum(parameter.numel() for parameter in make(BUILDERS[name]).parameters()) == num_parameters


@pytest.mark.parametrize("name", BUILDERS)
def test_only_weights_are_saved(name):
    names = set(make(BUILDERS[name]).state_dict())
    assert not names & {"seed", "step", "outer_dropout", "hidden_dropout", "alpha", "theta", "eps", "eta"}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("MLP", dict(hidden_channels=0), "Expected hidden_channels to be at least 1, got 0"),
        ("GCN", dict(num_layers=0), "Expected num_layers to be at least 1, got 0"),
        ("GCN", dict(outer_dropout=1.0), "Expected outer_dropout to be at least 0 and below 1, got 1.0"),
        ("LINKX", dict(hidden_dropout=-0.1), "Expected hidden_dropout to be at least 0 and below 1, got -0.1"),
        ("LINKX", dict(num_nodes=0), "Expected num_nodes to be at least 1, got 0"),
        ("GAT", dict(num_heads=3), "Expected hidden_channels to be a multiple of the 3 heads, got 8"),
        ("GCNII", dict(alpha=1.5), "Expected alpha to be from 0 to 1, got 1.5"),
        ("GCNII", dict(theta=0.0), "Expected theta to be positive, got 0.0"),
        ("FAGCN", dict(eps=float("nan")), "Expected eps to be finite, got nan"),
        ("GPRGNN", dict(alpha=-0.1), "Expected alpha to be from 0 to 1, got -0.1"),
        ("GPRGNN", dict(num_hops=0), "Expected num_hops to be at least 1, got 0"),
        ("OrderedGNN", dict(num_input_layers=0), "Expected num_input_layers to be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(name, settings, message):
    with pytest.raises(InputError, match=message):
        make(NODE_NETWORKS[name], **settings)


@pytest.mark.parametrize("name", BUILDERS)
def test_features_that_do_not_fit_are_refused(name):
    network = make(BUILDERS[name])
    with pytest.raises(InputError, match=r"Expected features of shape \(12, 5\), .* got \(12, 4\)"):
        network(torch.zeros(NUM_NODES, 4, dtype=torch.float64), small_graph())


def test_linkx_refuses_another_graph():
    with pytest.raises(InputError, match="Expected a graph of 12 nodes, each with weights of its own, got 4"):
        make(NODE_NETWORKS["LINKX"])(torch.zeros(4, NUM_FEATURES, dtype=torch.float64), WEIGHTED)
