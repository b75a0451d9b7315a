import pytest
import scipy.sparse
import torch

from tdegnn import (
    AttentionCoefficients,
    DiffusionOperator,
    DirectCoefficients,
    FixedCoefficients,
    Graph,
    InputError,
    StableCoefficients,
)
from tdegnn.nets.stationary import (
    INITIAL_STATES,
    InitialStates,
    MappedStates,
    NewestUnmapped,
    StationaryNetwork,
)
from tdegnn.sparse import SparseMatrix

GRAPH = Graph([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], 6)


def network(coefficients, channels=8, layers=3, features=5, outputs=4, **options):
    operator = DiffusionOperator(channels, layers, options.get("step_size", 0.1))
    return StationaryNetwork(features, outputs, channels, layers, coefficients, operator, **options)


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


def test_parameters_are_those_of_the_paper_on_cora():
    rules = [FixedCoefficients([1.0]), DirectCoefficients(8), AttentionCoefficients(8, 64)]
    counts = [count(network(rule, channels=64, layers=8, features=1433, outputs=7)) for rule in rules]
    assert counts == [124_999, 157_775, 166_087]


@pytest.mark.parametrize("rule", [FixedCoefficients([1.0]), DirectCoefficients(3), AttentionCoefficients(3, 8)])
def test_sparse_features_give_what_dense_ones_give(rule):
    features = torch.randn(6, 5) * (torch.rand(6, 5) < 0.5)
    sparse = SparseMatrix.from_scipy(scipy.sparse.csr_array(features.numpy())).to(torch.device("cpu"), torch.float32)
    model = network(rule).eval()
    torch.testing.assert_close(model(sparse, GRAPH), model(features, GRAPH))


def test_it_is_algorithm_one_of_the_paper():
    """A plain transcription, with direct coefficients."""
    model = network(DirectCoefficients(3), step_size=0.3).eval().double()
    features = torch.randn(6, 5, dtype=torch.float64)
    with torch.no_grad():
        model.coefficients.raw.copy_(torch.tensor([[1.5, -0.8, 0.4]]))
        embedded = torch.relu(features @ model.embedding.weight.T + model.embedding.bias)
        states = [embedded @ state_map for state_map in model.initial_states.maps]
        c = model.coefficients.raw[0] / model.coefficients.raw.sum()
        for layer in range(3):
            spatial = torch.relu((states[0] - 0.3 * GRAPH.laplacian(states[0])) @ model.operator.weight[layer])
            newest = sum(weight * state for weight, state in zip(c, states, strict=True)) + 0.3 * spatial
            states = [newest, *states[:-1]]
        expected = states[0] @ model.readout.weight.T + model.readout.bias
        torch.testing.assert_close(model(features, GRAPH), expected, atol=1e-12, rtol=1e-12)


def test_a_newest_state_without_a_map_contains_the_network_with_euler():
    """With c = [1, 0, 0], where the learned network starts, it is DE-GNN."""
    torch.manual_seed(0)
    euler = network(FixedCoefficients([1.0]))
    learned = network(DirectCoefficients(3), initial_states=NewestUnmapped(3, 8))
    shared = {
        key: value for key, value in euler.state_dict().items() if not key.startswith(("initial", "coefficients"))
    }
    learned.load_state_dict(learned.state_dict() | shared)
    features = torch.randn(6, 5)
    torch.testing.assert_close(learned.eval()(features, GRAPH), euler.eval()(features, GRAPH))


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", INITIAL_STATES.names)
def test_initial_states_are_as_many_as_the_order(name, order):
    states = INITIAL_STATES.make(name, order=order, channels=8)
    embedded = torch.randn(6, 8)
    history = states(embedded)
    assert [state.shape for state in history] == [embedded.shape] * order
    # One state needs no map.
    assert (history[0] is embedded) == (order == 1 or name == "newest-unmapped")
    assert list(states.state_dict()) == ["maps"]
    assert f"order={order}, channels=8" in repr(states)
    model = network(DirectCoefficients(order), initial_states=states).eval()
    assert model.integrate(torch.randn(6, 5), GRAPH).state.shape == (6, 8)


def test_initial_states_of_ones_own_work():
    class Shrinking(InitialStates):
        def forward(self, embedded):
            return tuple(embedded / 2**age for age in range(self.order))

    states = INITIAL_STATES.make(Shrinking, order=2, channels=8)
    model = network(FixedCoefficients([0.0, 1.0]), initial_states=states, layers=1, step_size=0.0).eval()
    features = torch.randn(6, 5)
    expected = torch.relu(model.embedding(features)) / 2
    torch.testing.assert_close(model.integrate(features, GRAPH).state, expected)


def test_dropout_is_there_in_training_only_and_follows_seed_and_step():
    features = torch.randn(6, 5)
    model = network(DirectCoefficients(3), outer_dropout=0.5, hidden_dropout=0.5, seed=3)
    first = model(features, GRAPH)
    assert not torch.allclose(model(features, GRAPH), first)
    model.step.zero_()
    torch.testing.assert_close(model(features, GRAPH), first)
    model.eval()
    torch.testing.assert_close(model(features, GRAPH), model(features, GRAPH))
    assert model.integrate(features, GRAPH).coefficients.shape == (3, 3)


def test_buffers_that_differ_between_members_are_no_weights():
    names = set(network(DirectCoefficients(3)).state_dict())
    assert names == {"embedding.weight", "embedding.bias", "initial_states.maps", "coefficients.raw", "operator.weight",
                     "readout.weight", "readout.bias"}  # fmt: skip


def test_reset_draws_everything_anew():
    model = network(DirectCoefficients(3))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        model.coefficients.raw.fill_(0.5)
    model.reset_parameters()
    after = model.state_dict()
    assert torch.equal(after["coefficients.raw"], before["coefficients.raw"])
    assert not torch.equal(after["initial_states.maps"], before["initial_states.maps"])
    assert MappedStates(1, 8)(torch.ones(2, 8))[0].shape == (2, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outer_dropout": 1.0}, "outer_dropout to be at least 0 and below 1, got 1.0"),
        ({"hidden_dropout": -0.1}, "hidden_dropout to be at least 0 and below 1, got -0.1"),
        ({"layers": 0}, "num_layers to be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        network(FixedCoefficients([1.0]), **options)


def test_a_network_takes_its_parts_as_they_are():
    rule = StableCoefficients.from_coefficients([1.97, -0.97])
    operator = DiffusionOperator(8, 3, 0.3)
    before = operator.weight.clone()
    made = StationaryNetwork(5, 2, 8, 3, rule, operator)
    assert torch.equal(operator.weight, before)
    c = made.integrate(torch.randn(6, 5), GRAPH).coefficients
    torch.testing.assert_close(c, torch.tensor([[1.97, -0.97]] * 3), rtol=0, atol=1e-6)


def test_features_in_other_digits_are_explained():
    with pytest.raises(InputError, match="features in torch.float32, as the weights are, got torch.float64"):
        network(DirectCoefficients(3))(torch.randn(6, 5).double(), GRAPH)
    with pytest.raises(InputError, match="features of shape .6, 5."):
        network(DirectCoefficients(3)).integrate(torch.randn(6, 4), GRAPH)
