import re
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GraphConv, Sequential, SimpleConv

from tdegnn import ConvOperator, DiffusionOperator, Graph, HiddenDiffusionOperator, InputError, NearIdentityDiffusion
from tdegnn.core.operator import SpatialOperator
from tdegnn.operators.past_diffusion import PastFeatures
from tdegnn.operators.registry import OPERATORS
from tdegnn.operators.with_past import WithPastFeatures
from tdegnn.parts import Part
from tests.core.checkers import (
    CHANNELS,
    NUM_NODES,
    Repulsion,
    check_members,
    check_operator,
    check_relabeling,
    context_like,
    random_history,
    small_graph,
)

SIZES = dict(channels=CHANNELS, hidden_channels=16, num_layers=2, step_size=0.3, num_nodes=NUM_NODES)


class Counting(SpatialOperator):
    """`s = -k L F`, where k counts the layers in the context."""

    def forward(self, state, graph, layer, context=None):
        count = 1 if context is None else context + 1
        return -count * graph.laplacian(state), count


MADE = {name: lambda name=name: OPERATORS.make(name, **SIZES) for name in OPERATORS.names} | {
    "diffusion with batch norm": lambda: OPERATORS.make(Part("diffusion", batch_norm=True), **SIZES),
    "own": lambda: Repulsion(CHANNELS),
    "own with past features": lambda: WithPastFeatures(Repulsion(CHANNELS), CHANNELS, 2),
    "GCN": lambda: ConvOperator(GCNConv(CHANNELS, CHANNELS)),
    "GCN by layer": lambda: ConvOperator([GCNConv(CHANNELS, CHANNELS) for _ in range(2)]),
    "GAT, which knows no batches": lambda: ConvOperator(GATConv(CHANNELS, CHANNELS)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_operator_keeps_the_contract(make, device):
    operator = make()
    check_operator(operator, device)
    operator.reset_parameters()
    (state,) = random_history(1, dtype=torch.float64, device=device)
    assert operator(state, small_graph(), 0, context_like(operator, state))[0].isfinite().all()


# Those of the registry are relabelled in test_equations.py.
@pytest.mark.parametrize("name", [name for name in MADE if name not in OPERATORS.names])
def test_relabelling_nodes_changes_nothing(name):
    check_relabeling(MADE[name](), [small_graph(direction) for direction in ("out", "in", "both")])


@pytest.mark.parametrize("name", ["diffusion", "near-identity", "hidden-diffusion"])
def test_an_operator_that_needs_no_context_hands_it_on(name):
    (state,) = random_history(1)
    assert MADE[name]().double()(state, small_graph(), 0, "kept")[1] == "kept"


@pytest.mark.slow
def test_the_operator_of_the_guide_keeps_the_contract(tmp_path, monkeypatch):
    root = Path(__file__).parents[2]
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)  # the guide saves what it trains
    guide = root / "docs" / "your_own_operator.md"
    names = {}
    exec(re.findall(r"```python\n(.*?)```", guide.read_text(), flags=re.DOTALL)[0], names)
    check_operator(names["Repulsion"](CHANNELS, 2), torch.device("cpu"))
    check_members(lambda: names["Repulsion"](CHANNELS, 2))
    check_relabeling(names["Repulsion"](CHANNELS, 2), [small_graph("out")])


@pytest.mark.parametrize("name", [name for name in MADE if not name.startswith(("GCN", "GAT"))])
def test_members_get_what_they_get_alone(name):
    check_members(MADE[name])


def test_past_features_are_added_to_the_rate_and_brought_up_to_date():
    operator, graph = WithPastFeatures(Counting(), CHANNELS, 3).double(), small_graph()
    state, features, time = random_history(3, 2)
    rate, context = operator(state, graph, 0, PastFeatures(features, time))
    torch.testing.assert_close(rate, operator.past_maps[0](features) - graph.laplacian(state))
    assert context.features is features
    later = state + rate
    rate, context = operator(later, graph, 1, context)
    updated = torch.relu(operator.updates[0](torch.cat([features, later, time], dim=-1)))
    torch.testing.assert_close(context.features, updated)
    # The operator's own context is carried along.
    torch.testing.assert_close(rate, operator.past_maps[1](updated) - 2 * graph.laplacian(later))
    assert context.own == 2
    assert context.time is time
    assert len(operator.updates) == 2


@pytest.mark.parametrize("name", ["past-diffusion", "own with past features"])
def test_past_features_must_be_given(name):
    with pytest.raises(
        InputError, match="Expected PastFeatures as the context of .*, got NoneType. Use it in a network"
    ):
        MADE[name]()(random_history(1, dtype=torch.float32)[0], small_graph(), 0)


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
        (lambda: WithPastFeatures(MADE["past-diffusion"](), 4, 2), "not take past features, got PastDiffusion"),
        (lambda: WithPastFeatures(Repulsion(4), 4, 0), "num_layers to be at least 1, got 0"),
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


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_graph_first_seen_in_inference_mode_can_be_trained_on(make):
    operator, graph = make(), small_graph()
    with torch.inference_mode():
        first = random_history(1, dtype=torch.float32)[0]
        operator(first, graph, 0, context_like(operator, first))
    state = random_history(1, dtype=torch.float32)[0].requires_grad_()
    operator(state, graph, 0, context_like(operator, state.detach()))[0].sum().backward()
    assert state.grad is not None


def test_conv_that_needs_weights_gets_ones_from_an_unweighted_graph():
    layers = [(GraphConv(CHANNELS, CHANNELS), "x, edge_index, edge_weight -> x")]
    conv = Sequential("x, edge_index, edge_weight", layers)
    state, graph = random_history(1, dtype=torch.float32)[0], small_graph()
    edges, _ = graph.messages
    expected = conv(state, edges, torch.ones(edges.shape[1]))
    torch.testing.assert_close(ConvOperator(conv)(state, graph, 0)[0], expected)
