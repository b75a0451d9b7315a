import torch

from tdegnn import PhysicalNetwork
from tdegnn.data.simulators.physics import simulate_wave
from tdegnn.data.windows import one_step_windows


def test_a_fresh_network_of_zero_rate_is_naive():
    network = PhysicalNetwork.of_order(3, channels=1, hidden_channels=8, step_size=0.1).double()
    torch.nn.init.zeros_(network.operator.readout.weight)
    simulation = simulate_wave(num_trajectories=2)
    windows = one_step_windows(simulation.states, 3)
    torch.testing.assert_close(network(windows.history, simulation.graph), windows.history[0])
    assert network.order == 3


def test_a_network_with_the_true_parts_predicts_the_wave():
    """c = [2, -1] and s = -h L F, up to the error of the leapfrog scheme."""
    simulation = simulate_wave(num_trajectories=2, step_size=0.01)
    network = PhysicalNetwork.of_order(2, 1, 2, step_size=0.01).double()
    with torch.no_grad():
        network.coefficients.raw.copy_(torch.tensor([[2.0, -1.0]]))
        for parameter in network.operator.state_map.parameters():
            parameter.zero_()
        network.operator.difference_map.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network.operator.readout.weight.copy_(torch.tensor([[0.01, -0.01]]))
    windows = one_step_windows(simulation.states, 2)
    torch.testing.assert_close(network(windows.history, simulation.graph), windows.target, atol=1e-8, rtol=0)
