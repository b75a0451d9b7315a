import pytest
import torch

from tdegnn import FixedCoefficients, Graph, InputError, integrate
from tdegnn.core.mixed import MixedCoefficients
from tdegnn.operators.pde_gcn import PDEGCNOperator
from tests.core.checkers import CHANNELS, NUM_NODES, check_equation, random_history, weighted_graph


def dense_rate(operator, received, first, state, layer):
    """The sum over edges, one after the other."""
    degrees = received.sum(dim=1) + 1
    kernel, rate = operator.weight[layer], torch.zeros_like(state)
    for i, j in received.nonzero().tolist():
        weight = received[i, j] / (degrees[i] * degrees[j]).sqrt()
        flow = weight * torch.relu(weight * (state[i] - state[j]) @ kernel.T) @ kernel
        change = torch.zeros_like(state)
        change[i], change[j] = -flow, flow
        rate = rate + change
    return rate


DENSE = {"pde-gcn": dense_rate}


def test_rate_is_the_sum_over_edges():
    check_equation(lambda: PDEGCNOperator(CHANNELS, 2), dense_rate)


def test_maps_start_at_the_identity_with_little_noise():
    noise = PDEGCNOperator(CHANNELS, 2).weight - torch.eye(CHANNELS)
    assert 0 < noise.abs().max() <= 1.001e-3


@pytest.mark.parametrize("direction", ["out", "both"])
def test_diffusion_does_not_gain_energy(direction):
    operator, graph, (state,) = PDEGCNOperator(CHANNELS, 4).double(), weighted_graph(direction), random_history(1)
    torch.nn.init.normal_(operator.weight, std=0.3)
    rate = operator(state, graph, 0)[0]
    assert (state * rate).sum() < 0
    torch.testing.assert_close(rate[-1], torch.zeros(CHANNELS, dtype=torch.float64))  # the isolated node
    torch.testing.assert_close(rate.sum(dim=0), torch.zeros(CHANNELS, dtype=torch.float64))
    later = integrate((state,), graph, FixedCoefficients([1.0]), operator, num_layers=4, step_size=0.2).state
    assert later.norm() < state.norm()


def test_relu_acts_along_one_way_edges_only():
    operator, state = PDEGCNOperator(1, 1).double(), torch.tensor([[2.0], [0.0]], dtype=torch.float64)
    torch.nn.init.ones_(operator.weight)
    assert operator(state, Graph([[0], [1]], direction="in"), 0)[0].abs().sum() == 0
    assert operator(state, Graph([[0], [1]], direction="out"), 0)[0].abs().sum() > 0
    both = operator(state, Graph([[0, 1], [1, 0]], direction="out"), 0)[0]
    torch.testing.assert_close(operator(state, Graph([[0], [1]]), 0)[0], both)


def test_a_graph_without_edges_changes_nothing():
    operator, (state,) = PDEGCNOperator(CHANNELS, 1).double(), random_history(1)
    assert operator(state, Graph([[], []], NUM_NODES), 0)[0].abs().sum() == 0


def test_hyperbolic_update_with_a_squared_step_is_the_published_leapfrog():
    """`x[l+1] = 2 x[l] - x[l-1] - h^2 y`, with y = G^T K^T relu(K G x): our h is the square of theirs."""
    step_size, num_layers = 0.7, 3
    operator, graph = PDEGCNOperator(CHANNELS, num_layers).double(), weighted_graph("out")
    torch.nn.init.normal_(operator.weight, std=0.5)
    now, old = history = random_history(2)
    received = torch.as_tensor(graph.received.toarray())
    for layer in range(num_layers):
        change = -dense_rate(operator, received, None, now, layer)
        now, old = 2 * now - old - step_size**2 * change, now
    rule = FixedCoefficients([2.0, -1.0])
    ours = integrate(history, graph, rule, operator, num_layers=num_layers, step_size=step_size**2).state
    torch.testing.assert_close(ours, now)


def test_mixed_update_is_the_published_one():
    """With its own factor of the rate, `1 / d`, in place of h."""
    step_size, weight = 0.7, 0.3
    operator, graph, history = PDEGCNOperator(CHANNELS, 1).double(), weighted_graph(), random_history(2)
    divisor = weight / step_size**2 + (1 - weight) / step_size
    now, before = history
    change = -operator(now, graph, 0)[0]
    factor = 2 * weight / step_size**2 + (1 - weight) / step_size
    published = (factor * now - weight / step_size**2 * before - change) / divisor
    rule = MixedCoefficients().double()
    mix = torch.tensor(weight / (weight + (1 - weight) * step_size), dtype=torch.float64)
    torch.nn.init.constant_(rule.raw, mix.logit().item())
    ours = integrate(history, graph, rule, operator, num_layers=1, step_size=1 / divisor).state
    torch.testing.assert_close(ours, published)


def test_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="a layer from 0 to 0, for which this part was made, got layer 1"):
        PDEGCNOperator(CHANNELS, 1).double()(random_history(1)[0], weighted_graph(), 1)
    with pytest.raises(InputError, match="num_layers to be at least 1, got 0"):
        PDEGCNOperator(CHANNELS, 0)
