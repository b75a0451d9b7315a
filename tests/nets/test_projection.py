import pytest
import torch

from tdegnn import DirectCoefficients, HiddenDiffusionOperator, InputError, PhysicalNetwork, StableCoefficients
from tdegnn.data.simulators.physics import simulate_pendulum, simulate_wave
from tdegnn.data.windows import backward_difference, one_step_windows
from tdegnn.nets.projection import LinearPredictor, LinearTerms, Projection, as_linear, solve_weights
from tdegnn.nets.rollout import PinnedPredictor
from tdegnn.rivals.next_state import GraphLSTM, NaivePredictor

WAVE = simulate_wave(num_trajectories=4, num_steps=30)


def physical(order, channels=1):
    torch.manual_seed(0)
    return PhysicalNetwork.of_order(order, channels, 8, WAVE.step_size).double()


def lstm(order, channels=1):
    torch.manual_seed(0)
    return GraphLSTM(order, channels, 8).double()


@pytest.mark.parametrize("make", [physical, lstm])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_sum_of_terms_is_the_prediction(make, order, channels):
    model = make(order, channels)
    states = WAVE.states.expand(-1, -1, -1, channels) * torch.arange(1.0, channels + 1)
    windows = one_step_windows(states, order)
    sum_of = model.linear_terms(windows.history, WAVE.graph)
    weights = torch.randn(sum_of.terms.shape[-1], dtype=torch.float64)
    model.assign_linear(weights)
    torch.testing.assert_close(model(windows.history, WAVE.graph), sum_of.predict(weights))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_weights_of_zero_are_the_plain_stencil(order):
    windows = one_step_windows(WAVE.states, order)
    offset = physical(order).linear_terms(windows.history, WAVE.graph).offset
    torch.testing.assert_close(windows.target - offset, backward_difference(windows))


@pytest.mark.parametrize("make", [physical, lstm])
def test_only_other_parameters_are_left_to_descend(make):
    model = make(2)
    others = {id(parameter) for parameter in model.other_parameters()}
    solved = [name for name, parameter in model.named_parameters() if id(parameter) not in others]
    assert isinstance(model, LinearPredictor)
    assert {name.rpartition(".")[0] for name in solved} in ({"coefficients", "operator.readout"}, {"readout"})


def test_gradient_is_that_of_the_solved_loss():
    """The envelope theorem, against differences of the loss, each with weights of its own."""
    model, windows = physical(2), one_step_windows(WAVE.states, 2)
    loss = Projection(model, *windows, WAVE.graph, ridge=1e-3)
    loss().backward()
    bias = model.operator.state_map.bias
    for unit in range(3):
        nearby = []
        for change in (1e-6, -2e-6):
            bias.data[unit] += change
            nearby.append(float(loss().detach()))
        bias.data[unit] += 1e-6
        assert float(bias.grad[unit]) == pytest.approx((nearby[0] - nearby[1]) / 2e-6, rel=1e-4, abs=1e-8)


def test_ridge_does_not_depend_on_the_scale_of_hidden_channels():
    model, windows = physical(2), one_step_windows(WAVE.states, 2)
    loss = Projection(model, *windows, WAVE.graph, ridge=1e-2)
    before = float(loss().detach())
    with torch.no_grad():
        for parameter in model.other_parameters():
            parameter.mul_(100)
    assert float(loss().detach()) == pytest.approx(before, rel=1e-9)


def test_solution_takes_terms_that_repeat_each_other_or_vanish():
    column = torch.linspace(-1, 1, 20, dtype=torch.float64)
    terms = torch.stack([column, column, torch.zeros_like(column)], dim=-1)[:, None, None]
    sum_of = LinearTerms(torch.zeros(20, 1, 1, dtype=torch.float64), terms, torch.tensor([False, False, False]))
    weights = solve_weights(sum_of, 3 * column[:, None, None], ridge=0.0)
    torch.testing.assert_close(weights, torch.tensor([1.5, 1.5, 0.0], dtype=torch.float64))


def test_plain_stencil_is_a_floor_on_the_training_windows():
    simulation = simulate_pendulum()
    for order in range(1, 6):
        windows = one_step_windows(simulation.states, order)
        model = PhysicalNetwork.of_order(order, 1, 4, simulation.step_size).double()
        pinned = PinnedPredictor(model, torch.tensor([True, False]))
        assert float(Projection(pinned, *windows, simulation.graph, ridge=1e-8)().detach()) <= 1.0


def test_pinned_nodes_have_no_terms():
    simulation = simulate_pendulum(50)
    windows = one_step_windows(simulation.states, 2)
    pinned = PinnedPredictor(physical(2), torch.tensor([True, False]))
    offset, terms, _ = pinned.linear_terms(windows.history, simulation.graph)
    assert not terms[..., 0, :, :].any()
    torch.testing.assert_close(offset[..., 0, :], windows.history[0][..., 0, :])


def test_parts_that_cannot_be_solved_are_named():
    network = PhysicalNetwork(StableCoefficients(3), HiddenDiffusionOperator(1, 4), 0.1).double()
    with pytest.raises(InputError, match="got StableCoefficients and HiddenDiffusionOperator. Use another optimizer"):
        network.other_parameters()
    with pytest.raises(InputError, match="linear in some of its weights, .*got NaivePredictor"):
        as_linear(NaivePredictor())


def test_a_vector_that_direct_coefficients_cannot_hold_is_refused():
    network = PhysicalNetwork(DirectCoefficients(9), HiddenDiffusionOperator(1, 4), 0.1).double()
    with pytest.raises(InputError, match="Expected a history of at most 6 states"):
        network.linear_terms(tuple(torch.zeros(9, 2, 1).double()), WAVE.graph)
