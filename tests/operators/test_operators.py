import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GraphConv, Sequential, SimpleConv

from tdegnn import ConvOperator, DiffusionOperator, Graph, HiddenDiffusionOperator, InputError, NearIdentityDiffusion
from tests.core.checkers import CHANNELS, NUM_NODES, check_operator, random_history, small_graph

OPERATORS = {
    "diffusion": lambda: DiffusionOperator(CHANNELS, 2, step_size=0.3),
    "diffusion with batch norm": lambda: DiffusionOperator(CHANNELS, 2, step_size=0.3, batch_norm=True),
    "near identity": lambda: NearIdentityDiffusion(CHANNELS, 2, step_size=0.3),
    "hidden diffusion": lambda: HiddenDiffusionOperator(CHANNELS, 16),
    "GCN": lambda: ConvOperator(GCNConv(CHANNELS, CHANNELS)),
    "GCN by layer": lambda: ConvOperator([GCNConv(CHANNELS, CHANNELS) for _ in range(2)]),
    "GAT, which knows no batches": lambda: ConvOperator(GATConv(CHANNELS, CHANNELS)),
}


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_operator_keeps_the_contract(make, device):
    operator = make()
    check_operator(operator, device)
    operator.reset_parameters()
    assert operator(random_history(1, dtype=torch.float64, device=device)[0], small_graph(), 0)[0].isfinite().all()


def test_near_identity_starts_as_plain_diffusion_and_decays_to_it():
    operator, graph, state = NearIdentityDiffusion(CHANNELS, 2, step_size=0.3), small_graph(), random_history(1)[0]
    plain = torch.relu(graph.diffuse(state, 0.3))
    torch.testing.assert_close(operator.double()(state, graph, 1)[0], plain)
    torch.nn.init.normal_(operator.weight)
    identity = torch.eye(CHANNELS, dtype=torch.float64)
    expected = torch.relu(graph.diffuse(state, 0.3) @ (identity + operator.weight[1]))
    torch.testing.assert_close(operator(state, graph, 1)[0], expected)
    decay = torch.optim.SGD(operator.parameters(), lr=0.1, weight_decay=1.0)
    for _ in range(200):
        operator.weight.grad = torch.zeros_like(operator.weight)
        decay.step()
    torch.testing.assert_close(operator(state, graph, 1)[0], plain)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_conv_receives_along_the_direction(direction):
    graph = small_graph(direction)
    state = random_history(1)[0]
    total, _ = ConvOperator(SimpleConv(aggr="sum"))(state, graph, 0)
    adjacency = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.float64)
    adjacency[tuple(graph.edge_index)] = 1.0
    received = {"out": adjacency, "in": adjacency.T, "both": torch.maximum(adjacency, adjacency.T)}[direction]
    torch.testing.assert_close(total, received @ state)


def test_conv_takes_weights_along():
    graph = Graph([[0, 1], [1, 2]], 3, [2.0, 5.0], "in")
    conv = GraphConv(1, 1).double()
    rate, _ = ConvOperator(conv)(torch.tensor([[1.0], [10.0], [0.0]], dtype=torch.float64), graph, 0)
    edges = torch.tensor([[0, 1], [1, 2]])
    expected = conv(torch.tensor([[1.0], [10.0], [0.0]], dtype=torch.float64), edges, torch.tensor([2.0, 5.0]).double())
    torch.testing.assert_close(rate, expected)


def test_conv_is_not_confused_by_another_graph():
    operator = ConvOperator(SimpleConv(aggr="sum"))
    state = torch.ones(3, 1)
    assert operator(state, Graph([[0], [1]], 3), 0)[0].flatten().tolist() == [1.0, 1.0, 0.0]
    assert operator(state, Graph([[1], [2]], 3), 0)[0].flatten().tolist() == [0.0, 1.0, 1.0]


def test_conv_may_be_a_pyg_sequence():
    layers = [(GCNConv(CHANNELS, CHANNELS), "x, edge_index -> x"), torch.nn.ReLU()]
    rate, _ = ConvOperator(Sequential("x, edge_index", layers))(
        random_history(1, dtype=torch.float32)[0], small_graph(), 0
    )
    assert (rate >= 0).all()


def test_hidden_diffusion_can_write_the_heat_equation_for_one_channel():
    """`-L F = relu(-L F) - relu(L F)`: two hidden channels are enough."""
    operator = HiddenDiffusionOperator(1, 2).double()
    with torch.no_grad():
        operator.state_map.weight.zero_()
        operator.state_map.bias.zero_()
        operator.difference_map.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        operator.readout.weight.copy_(torch.tensor([[1.0, -1.0]]))
    state = random_history(1)[0][:, :1]
    torch.testing.assert_close(operator(state, small_graph(), 0)[0], -small_graph().laplacian(state))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DiffusionOperator(0, 1, 0.1), "channels to be at least 1, got 0"),
        (lambda: DiffusionOperator(4, 0, 0.1), "num_layers to be at least 1, got 0"),
        (lambda: HiddenDiffusionOperator(1, 0), "hidden_channels to be at least 1, got 0"),
        (lambda: ConvOperator([]), "at least one convolution"),
        (
            lambda: DiffusionOperator(4, 2, 0.1)(random_history(1, dtype=torch.float32)[0], small_graph(), 2),
            "got layer 2",
        ),
        (
            lambda: ConvOperator(GATConv(4, 4))(torch.zeros(2, 4), Graph([[0], [1]], edge_weight=[1.0]), 0),
            "edge_weight argument for a weighted graph",
        ),
        (
            lambda: ConvOperator(GCNConv(4, 5))(torch.zeros(2, 4), Graph([[0], [1]]), 0),
            "keep 4 channels, got 5",
        ),
    ],
)
def test_wrong_use_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_a_graph_first_seen_in_inference_mode_can_be_trained_on(make):
    operator, graph = make(), small_graph()
    with torch.inference_mode():
        operator(random_history(1, dtype=torch.float32)[0], graph, 0)
    state = random_history(1, dtype=torch.float32)[0].requires_grad_()
    operator(state, graph, 0)[0].sum().backward()
    assert state.grad is not None


def test_conv_that_needs_weights_gets_ones_from_an_unweighted_graph():
    layers = [(GraphConv(CHANNELS, CHANNELS), "x, edge_index, edge_weight -> x")]
    conv = Sequential("x, edge_index, edge_weight", layers)
    state, graph = random_history(1, dtype=torch.float32)[0], small_graph()
    edges, _ = graph.messages
    expected = conv(state, edges, torch.ones(edges.shape[1]))
    torch.testing.assert_close(ConvOperator(conv)(state, graph, 0)[0], expected)
