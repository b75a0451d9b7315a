import numpy as np
import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, Sequential

from tdegnn import Backbone, ConvOperator, FixedCoefficients, InputError, NodeClassifier, Part, RateOf, integrate
from tdegnn.operators.diffusion import DiffusionOperator
from tdegnn.operators.rate_of import as_rate
from tdegnn.operators.registry import OPERATORS
from tdegnn.operators.unit_length import unit_length
from tests.core.checkers import CHANNELS, NUM_NODES, check_members, check_operator, random_history, small_graph

RATES = ["gcn", "tuned-gcn", "gat", "dir-gnn", "gcnii", "gcnii*", "acm", "acmii", "acm+", "acmii+"]


class Halving(Backbone):
    """A backbone of a user's own: `B(F) = w_l F / 2`."""

    equation = "w_l F / 2"
    citation = "nobody"

    def __init__(self, channels, num_layers, factor=0.5):
        super().__init__()
        self.factor = factor
        self.maps = torch.nn.ModuleList(torch.nn.Linear(channels, channels) for _ in range(num_layers))

    def forward(self, state, graph, layer, context=None):
        return self.factor * self.maps[layer](state), (context or 0) + 1


def apply_layers(backbone, state, graph, num_layers):
    context = None
    for number in range(num_layers):
        state, context = backbone(state, graph, number, context)
    return state


@pytest.mark.parametrize("name", RATES)
def test_with_c_one_and_h_one_the_step_is_the_backbone(name):
    sizes = dict(channels=CHANNELS, num_layers=3, num_nodes=NUM_NODES)
    operator, graph, (state,) = OPERATORS.make(name, **sizes).double().eval(), small_graph("out"), random_history(1)
    steps = integrate((state,), graph, FixedCoefficients([1.0]), operator, num_layers=3, step_size=1.0)
    torch.testing.assert_close(steps.state, apply_layers(operator.backbone, state, graph, 3), atol=1e-12, rtol=0)


@pytest.mark.slow
def test_any_layer_of_pyg_is_a_backbone():
    graph, (state,) = small_graph(), random_history(1, dtype=torch.float32)
    layers = [(GCNConv(CHANNELS, CHANNELS), "x, edge_index -> x"), torch.nn.ReLU()]
    for conv in (GCNConv(CHANNELS, CHANNELS), GATConv(CHANNELS, 2, heads=2), Sequential("x, edge_index", layers)):
        operator = RateOf(conv)
        expected = ConvOperator(conv)(state, graph, 0)[0] - state
        torch.testing.assert_close(operator(state, graph, 0)[0], expected)
    by_layer = RateOf([GCNConv(CHANNELS, CHANNELS) for _ in range(2)])
    steps = integrate((state,), graph, FixedCoefficients([1.0]), by_layer, num_layers=2, step_size=1.0)
    torch.testing.assert_close(steps.state, apply_layers(by_layer.backbone, state, graph, 2))
    check_operator(by_layer, torch.device("cpu"))
    assert by_layer.equation == "B(F) - F"


def test_an_operator_may_compute_the_next_state():
    inner, graph, (state,) = DiffusionOperator(CHANNELS, 2, 0.1).double(), small_graph(), random_history(1)
    torch.testing.assert_close(RateOf(inner)(state, graph, 1)[0], inner(state, graph, 1)[0] - state)


def test_a_backbone_of_ones_own_is_a_part_with_its_settings():
    part = as_rate(Halving)
    operator = OPERATORS.make(Part(part.kind, factor=0.25), channels=CHANNELS, num_layers=2, num_nodes=NUM_NODES)
    assert operator.backbone.factor == 0.25
    assert (operator.equation, operator.citation) == ("B(F) - F, B(F) = w_l F / 2", "nobody")
    check_operator(operator, torch.device("cpu"))
    check_members(lambda: RateOf(Halving(CHANNELS, 2)))
    _, context = operator(*random_history(1), small_graph(), 0, 3)
    assert context == 4
    assert OPERATORS.to_record(part) == {"class": "Halving"}
    with pytest.raises(
        InputError, match="Expected settings of Halving among channels, num_layers, factor, got 'heads'"
    ):
        OPERATORS.make(Part(part.kind, heads=2), channels=CHANNELS, num_layers=2)


def test_weights_are_drawn_anew_with_the_seed():
    operator = RateOf(Halving(CHANNELS, 2))
    drawn = []
    for _ in range(2):
        torch.manual_seed(5)
        operator.reset_parameters()
        drawn.append([parameter.detach().clone() for parameter in operator.parameters()])
    assert all(map(torch.equal, *drawn))


@pytest.mark.parametrize("name", RATES)
def test_equation_and_citation_are_those_of_the_backbone(name):
    operator = OPERATORS.make(name, channels=CHANNELS, num_layers=1, num_nodes=NUM_NODES)
    assert operator.equation == f"B(F) - F, B(F) = {operator.backbone.equation}"
    assert operator.citation == operator.backbone.citation != ""
    assert operator.is_bound_to_nodes == name.endswith("+")


@pytest.mark.slow
def test_a_classifier_with_a_backbone_answers_the_same_when_loaded(tmp_path):
    graph, features, labels = small_graph(), torch.eye(NUM_NODES).numpy(), [0, 1, 0, 1, 0, 1, 0]
    model = NodeClassifier(operator=Part("gcnii*", alpha=0.2), num_steps=3, hidden_channels=8)
    expected = model.fit(features, labels, graph=graph).predict_proba(features, graph=graph)
    model.save(tmp_path / "run")
    loaded = NodeClassifier.load(tmp_path / "run")
    assert loaded.operator == Part("gcnii*", alpha=0.2)
    np.testing.assert_array_equal(loaded.predict_proba(features, graph=graph), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RateOf(GCNConv), "Expected a PyG convolution or a sequence of them, got <class"),
        (lambda: RateOf(torch.nn.ReLU()), r"whose forward takes \(x, edge_index\)"),
        (lambda: RateOf(GCNConv(4, 5))(random_history(1, dtype=torch.float32)[0], small_graph(), 0), "got 5 from GCN"),
        (
            lambda: RateOf(Narrow())(random_history(1)[0], small_graph(), 0),
            r"shape \(7, 4\), as the state, got \(7, 1\)",
        ),
        (lambda: OPERATORS.make(Halving, channels=4), "got the class Halving"),
        (lambda: OPERATORS.make(Part("gcn", alpha=1.0), channels=4, num_layers=1), "got 'alpha'"),
    ],
)
def test_wrong_use_is_refused(call, message, as_a_user):
    with pytest.raises(InputError, match=message):
        call()


class Narrow(Backbone):
    """A backbone that loses channels: they must not be broadcast."""

    def forward(self, state, graph, layer, context=None):
        return state[..., :1], context


def test_unit_length_leaves_zeros_and_their_gradient_finite():
    state = torch.tensor([[3.0, -4.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    scaled = unit_length(state)
    torch.testing.assert_close(scaled, torch.tensor([[0.6, -0.8], [0.0, 0.0]], dtype=torch.float64))
    scaled.sum().backward()
    assert state.grad.abs().max() <= 1.0
    assert torch.autograd.gradcheck(unit_length, (torch.randn(3, 4, dtype=torch.float64, requires_grad=True),))
