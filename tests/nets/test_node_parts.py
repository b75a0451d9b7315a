"""The parts of a node network besides c, s and the initial states: input maps, state norms, readouts and skips."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch

from tdegnn import DiffusionOperator, DirectCoefficients, Graph, InputError, Part, integrate
from tdegnn.nets.input_maps import INPUT_MAPS
from tdegnn.nets.node_parts import NodeSkip
from tdegnn.nets.readouts import READOUTS
from tdegnn.nets.state_norms import STATE_NORMS
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.nodes.settings import NodeConfig
from tdegnn.sparse import SparseMatrix
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent
from tdegnn.training.node_training import NodeTraining
from tdegnn.training_nodes import TrainingNodes
from tests.node_datasets import make_dataset

GRAPH = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], 6)
SIZES = {"channels": 8, "num_layers": 3, "num_outputs": 4, "num_features": 5}


class PriorSkip(NodeSkip):
    """Adds the shares of the training nodes' targets, scaled."""

    def __init__(self, num_nodes, num_outputs):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.register_buffer("scores", torch.zeros(num_nodes, num_outputs))

    def see_training_nodes(self, nodes):
        assert not nodes.targets[~nodes.mask].any()
        shares = nodes.targets[nodes.mask].mean(axis=0)
        self.scores.copy_(torch.as_tensor(shares).expand_as(self.scores))

    def forward(self, graph):
        return self.scale * self.scores


def network(**parts):
    torch.manual_seed(0)
    operator = DiffusionOperator(8, 3, 0.3)
    return StationaryNetwork(5, 4, 8, 3, DirectCoefficients(2), operator, step_size=0.3, **parts).double().eval()


def states_of(model, features, norm=lambda state: state):
    """The states after each layer, layer by layer."""
    history = model.initial_states(model.embedding(features))
    c = model.coefficients(history, 0)
    states = []
    for number in range(3):
        rate, _ = model.operator(history[0], GRAPH, number)
        state = norm(c[0] * history[0] + c[1] * history[1] + 0.3 * rate)
        history = (state, history[0])
        states.append(state)
    return states


@pytest.mark.parametrize("name", READOUTS.names)
def test_a_readout_reads_the_states_after_each_layer(name):
    model = network(readout=READOUTS.make(name, **SIZES))
    features = torch.randn(6, 5, dtype=torch.float64)
    states = states_of(model, features)
    last = states[-1]
    read = {
        "last": lambda: last,
        "max": lambda: torch.stack(states).amax(dim=0),
        "concatenation": lambda: torch.cat(states, dim=-1),
        "relu": last.relu,
        "perceptron": lambda: torch.tanh(last.relu() + model.readout.hidden(last.relu().tanh())),
        "two-layer": lambda: model.readout.hidden(last).relu(),
        "modulus": lambda: torch.complex(*last.chunk(2, dim=-1)).abs(),
    }
    if name == "complex":
        torch.testing.assert_close(model(features, GRAPH), complex_outputs(model.readout, last))
        return
    expected = read[name]() @ model.readout.weight.T + model.readout.bias
    torch.testing.assert_close(model(features, GRAPH), expected)
    assert {"readout.weight", "readout.bias"} <= set(model.state_dict())


def complex_outputs(readout, state, drop=lambda values: values):
    def linear(layer, values):
        parts = [torch.complex(*each.chunk(2)) for each in (layer.weight, layer.bias)]
        return values @ parts[0].T + parts[1]

    values = torch.complex(*state.chunk(2, dim=-1))
    if readout.hidden is not None:
        values = linear(readout.hidden, values)
        values = torch.complex(*(torch.nn.functional.leaky_relu(part) for part in (values.real, values.imag)))
        values = drop(values)
    return linear(readout, values).abs()


def test_readouts_of_published_systems_with_settings():
    features = torch.randn(6, 5, dtype=torch.float64)
    model = network(readout=READOUTS.make(Part("complex", num_layers=2), **SIZES))
    last = states_of(model, features)[-1]
    torch.testing.assert_close(model(features, GRAPH), complex_outputs(model.readout, last))
    model = network(readout=READOUTS.make(Part("perceptron", rectified=False), **SIZES))
    last, readout = states_of(model, features)[-1], model.readout
    hidden = (last + readout.hidden(last.tanh())).tanh()
    torch.testing.assert_close(model(features, GRAPH), hidden @ readout.weight.T + readout.bias)
    with pytest.raises(InputError, match="a readout of 1 or 2 layers, got 3"):
        READOUTS.make(Part("complex", num_layers=3), **SIZES)


def test_input_maps_of_published_systems():
    features = torch.randn(6, 5, dtype=torch.float64)
    elu = INPUT_MAPS.make("elu", **SIZES).double()
    first = features @ elu.weight.T + elu.bias
    torch.testing.assert_close(elu(features), elu.second(torch.nn.functional.elu(first)))
    residual = INPUT_MAPS.make("residual", **SIZES).double()
    state = features @ residual.weight.T + residual.bias
    for layer in residual.residuals:
        state = state + layer(state.relu())
    torch.testing.assert_close(residual(features), state)


def test_features_are_scaled_to_unit_length_over_all_nodes():
    features = torch.tensor([[3.0, 0.5, 0.0], [4.0, 0.5, 0.0]], dtype=torch.float64)
    unit = INPUT_MAPS.make("unit-columns", num_features=3, channels=2).double()
    torch.testing.assert_close(unit(features), features @ unit.weight.T + unit.bias)
    graph = Graph([[0], [1]], 2)
    targets, mask = np.eye(2), np.array([True, False])
    for given in (features.numpy(), scipy.sparse.csr_array(features.numpy())):
        unit.see_training_nodes(TrainingNodes(given, graph, targets, mask))
        # Lengths are 5, below 1 and 0: only the first feature is scaled.
        scaled = features / torch.tensor([5.0, 1.0, 1.0], dtype=torch.float64)
        torch.testing.assert_close(unit(features), scaled @ unit.weight.T + unit.bias)
    again = INPUT_MAPS.make("unit-columns", num_features=3, channels=2).double()
    again.load_state_dict(unit.state_dict())
    assert torch.equal(again(features), unit(features))


def test_parts_drop_between_their_layers_if_asked():
    def halve(values):
        return values / 2

    features = torch.randn(6, 5, dtype=torch.float64)
    residual = INPUT_MAPS.make(Part("residual", dropped=True), **SIZES).double()
    state = halve(features @ residual.weight.T + residual.bias)
    for layer in residual.residuals:
        state = halve(state + layer(state.relu()))
    torch.testing.assert_close(residual.embed(features, halve), state)
    readout = READOUTS.make(Part("perceptron", dropped=True), **SIZES).double()
    hidden = halve(halve(state) + readout.hidden(halve(state).tanh()))
    torch.testing.assert_close(readout.read(state, halve), halve(hidden.tanh() @ readout.weight.T + readout.bias))
    readout = READOUTS.make(Part("complex", num_layers=2, dropped=True), **SIZES).double()
    torch.testing.assert_close(readout.read(state, halve), complex_outputs(readout, state, halve))
    for family, name in ((INPUT_MAPS, "residual"), (READOUTS, "perceptron"), (READOUTS, Part("complex", num_layers=2))):
        part, given = family.make(name, **SIZES).double(), features if family is INPUT_MAPS else state
        answer = part.embed(given, halve) if family is INPUT_MAPS else part.read(given, halve)
        assert torch.equal(answer, part(given))


def test_dropout_between_layers_is_for_training_only():
    features = torch.randn(6, 5, dtype=torch.float64)
    parts = dict(
        input_map=INPUT_MAPS.make(Part("residual", dropped=True), **SIZES),
        readout=READOUTS.make(Part("perceptron", dropped=True), **SIZES),
    )
    model = network(**parts, readout_dropout=0.9).train()
    assert (model(features, GRAPH) == 0).any()  # outputs are dropped too
    assert torch.equal(model.eval()(features, GRAPH), model(features, GRAPH))
    assert not (model(features, GRAPH) == 0).any()


@pytest.mark.parametrize("name", STATE_NORMS.names)
def test_a_norm_is_applied_to_every_new_state_and_the_history_keeps_it(name):
    model = network(state_norm=STATE_NORMS.make(name, **SIZES))
    norms = {
        "unit-length": lambda state: state / state.norm(dim=-1, keepdim=True),
        "layer-norm": lambda state: torch.nn.functional.layer_norm(state, (8,)),
    }
    features = torch.randn(6, 5, dtype=torch.float64)
    states = states_of(model, features, norms[name])
    torch.testing.assert_close(model.integrate(features, GRAPH).history, (states[2], states[1]))


def test_a_state_of_zeros_has_no_direction_and_a_gradient():
    unit = STATE_NORMS.make("unit-length")
    state = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    unit(state).sum().backward()
    assert not unit(state).any()
    assert state.grad.isfinite().all()


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_an_input_map_has_relu_after_each_layer(num_layers, layer_norm):
    given = Part("perceptron", num_layers=num_layers, layer_norm=layer_norm)
    perceptron = INPUT_MAPS.make(given, **SIZES).double()
    features = torch.randn(6, 5, dtype=torch.float64)
    expected = features
    for linear in perceptron.linears:
        expected = torch.relu(linear(expected))
        expected = torch.nn.functional.layer_norm(expected, (8,)) if layer_norm else expected
    torch.testing.assert_close(perceptron(features), expected)
    sparse = SparseMatrix.from_scipy(scipy.sparse.csr_array(features.numpy()))
    torch.testing.assert_close(perceptron(sparse.to(torch.device("cpu"), torch.float64)), expected)
    if (num_layers, layer_norm) == (1, False):
        linear = INPUT_MAPS.make("linear", **SIZES).double()
        linear.load_state_dict(perceptron.linears[0].state_dict())
        torch.testing.assert_close(linear(features), expected)


def test_wrong_parts_are_explained():
    with pytest.raises(InputError, match="input map of 1 to 3 layers, got 4"):
        INPUT_MAPS.make(Part("perceptron", num_layers=4), **SIZES)
    with pytest.raises(InputError, match="readout to be one of last, max, .*, or a class"):
        NodeConfig(readout="maximum").build_network(5, 4, 0)
    with pytest.raises(InputError, match="settings of PerceptronInput among num_features, .*, got 'depth'"):
        NodeConfig(input_map=Part("perceptron", depth=2)).build_network(5, 4, 0)
    with pytest.raises(InputError, match=r"such as diffusion, near-identity, .*got PastDiffusion, which needs"):
        NodeConfig(operator="past-diffusion").build_network(5, 4, 0)
    with pytest.raises(InputError, match="readout_dropout to be at least 0 and below 1, got 1.5"):
        NodeConfig(readout_dropout=1.5).build_network(5, 4, 0)


def test_a_map_after_the_layer_that_changes_the_shape_is_refused():
    with pytest.raises(InputError, match=r"Expected after_layer to return shape \(6, 8\).*got \(6, 1\)"):
        integrate(
            torch.ones(1, 6, 8), GRAPH, DirectCoefficients(1), DiffusionOperator(8, 1, 0.1), num_layers=1,
            step_size=0.1, after_layer=lambda state: state[:, :1],
        )  # fmt: skip


def test_the_readout_may_have_a_dropout_of_its_own():
    options = {"outer_dropout": 0.5, "hidden_dropout": 0.0}
    features = torch.randn(6, 5, dtype=torch.float64)
    same, none = network(**options).train(), network(**options, readout_dropout=0.0).train()
    equal = network(**options, readout_dropout=0.5).train()
    # Without a rate of its own there is no buffer: run folders of earlier versions have none.
    assert "readout_dropout" not in dict(same.named_buffers())
    outputs = [each(features, GRAPH) for each in (same, equal, none)]
    torch.testing.assert_close(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


def test_the_scores_of_a_skip_are_added_and_each_member_sees_its_own_training_nodes():
    dataset = make_dataset()
    config = NodeConfig(hidden_channels=4, num_layers=2, order=2, skip=PriorSkip)
    plain = replace(config, skip=None).build(dataset, 0)
    with_skip = config.build(dataset, 0)
    assert with_skip.sees_training_nodes
    assert not plain.sees_training_nodes
    training = NodeTraining([with_skip] * 2, [config.descent] * 2, dataset, [0, 1])
    assert not with_skip.skip.scores.any()
    features = torch.as_tensor(dataset.features.toarray())
    for member in range(2):
        labels = dataset.labels[dataset.training_masks[member]]
        shares = torch.as_tensor(np.bincount(labels, minlength=3) / len(labels)).float()
        expected = plain.eval()(features, dataset.graph) + shares
        torch.testing.assert_close(training.members.network(member)(features, dataset.graph), expected)
    before = training.members.parameters()["skip.scale"].clone()
    training.step()
    assert (training.members.parameters()["skip.scale"] != before).all()  # it learns as the embedding does


PARTS = {
    "maximum of unit lengths": {"readout": "max", "state_norm": "unit-length"},
    "concatenation of layer norms": {"readout": "concatenation", "state_norm": "layer-norm"},
    "perceptron": {"input_map": Part("perceptron", num_layers=2, layer_norm=True)},
    "skip": {"skip": PriorSkip, "readout_dropout": 0.2},
    "adamw by loss": {"optimizer": "adamw", "select_by": "loss", "self_loops": True, "direction": "both"},
}


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_members_with_any_part_get_what_they_get_alone(parts):
    dataset = make_dataset()
    configs = [
        NodeConfig(hidden_channels=4, num_layers=2, order=2, step_size=h, outer_dropout=drop, num_steps=9,
                   embedding=GroupDescent(rate, 0.01), **parts)
        for h, drop, rate in ((0.3, 0.2, 0.01), (0.8, 0.5, 0.03))
    ]  # fmt: skip
    assert configs[0].shape == configs[1].shape
    dataset = configs[0].prepare(dataset)

    def train(chosen):
        networks = [configs[member].build(dataset, member) for member in chosen]
        training = NodeTraining(
            networks, [configs[member].descent for member in chosen], dataset, chosen, select_by=configs[0].select_by
        )
        fit(training, num_steps=9, validate_every=3)
        return training

    together = train([0, 1])
    for member in (0, 1):
        alone = train([member])
        torch.testing.assert_close(together.members.weights[member], alone.members.weights[0], atol=2e-5, rtol=1e-4)
        for name, buffer in alone.members.buffers.items():
            torch.testing.assert_close(together.members.buffers[name][member], buffer[0])
        assert together.test_accuracy[member] == alone.test_accuracy[0]
