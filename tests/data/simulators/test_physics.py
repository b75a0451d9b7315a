import inspect

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.integrate import solve_ivp

import tdegnn
from tdegnn import Graph, InputError, simulate_heat, simulate_pendulum, simulate_third_order, simulate_wave
from tdegnn.data.simulators.physics import random_graph


def laplacian_of(graph):
    return graph.laplacian(torch.eye(graph.num_nodes, dtype=torch.float64)).numpy()


def test_pendulum_is_the_solution_of_its_equation_to_second_order_in_the_step():
    def right_hand_side(time, phase):
        return [phase[1], -np.sin((1 - 0.04 * np.sin(time)) * phase[0])]

    errors = []
    for step_size in (0.1, 0.05):
        times = np.arange(int(20 / step_size)) * step_size
        exact = solve_ivp(right_hand_side, (0, 20), [1.0, 0.0], t_eval=times, rtol=1e-10, atol=1e-12).y[0]
        angles = simulate_pendulum(len(times), step_size).states[0, :, 1, 0].numpy()
        errors.append(np.abs(angles - exact).max())
    assert errors[0] < 0.02
    assert errors[1] < errors[0] / 3.5


def test_pendulum_in_coordinates_stays_on_the_circle():
    states = simulate_pendulum(features="coordinates").states
    assert states.shape == (1, 1000, 2, 2)
    assert (states[:, :, 0] == 0).all()
    torch.testing.assert_close(states[:, :, 1].norm(dim=-1), torch.ones(1, 1000, dtype=torch.float64))


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_wave_of_one_mode_is_the_closed_form(damping):
    simulation = simulate_wave(damping=damping, num_trajectories=3)
    values, modes = np.linalg.eigh(laplacian_of(simulation.graph))
    amplitudes = simulation.states[..., 0].numpy() @ modes
    times = np.arange(amplitudes.shape[1]) * simulation.step_size
    for mode in range(1, len(values)):
        frequency = np.sqrt(complex(values[mode] - damping**2 / 4))
        start = amplitudes[:, 0, mode]
        # The initial velocity is not observed: it follows from the second observation.
        decay = np.exp(-damping / 2 * times)
        cosine, sine = np.cos(frequency * times).real, (np.sin(frequency * times) / frequency).real
        slope = (amplitudes[:, 1, mode] / decay[1] - start * cosine[1]) / sine[1]
        np.testing.assert_allclose(
            amplitudes[:, :, mode], decay * (np.outer(start, cosine) + np.outer(slope, sine)), atol=1e-9
        )


def test_heat_of_one_mode_decays_exponentially():
    simulation = simulate_heat(num_trajectories=3)
    values, modes = np.linalg.eigh(laplacian_of(simulation.graph))
    amplitudes = simulation.states[..., 0].numpy() @ modes
    times = np.arange(amplitudes.shape[1]) * simulation.step_size
    expected = amplitudes[:, :1] * np.exp(-np.outer(times, values))
    np.testing.assert_allclose(amplitudes, expected, atol=1e-10)


def test_third_order_system_is_the_solution_of_its_equation():
    graph = random_graph(seed=5)
    simulation = simulate_third_order(graph, num_trajectories=1, seed=7)
    laplacian, n = laplacian_of(graph), graph.num_nodes

    def right_hand_side(_, phase):
        state, first, second = phase.reshape(3, n)
        return np.concatenate([first, second, -laplacian @ state - 2 * first - second])

    phase = np.random.default_rng(7).standard_normal(3 * n)
    times = np.arange(100) * 0.1
    solution = solve_ivp(right_hand_side, (0, 10), phase, t_eval=times, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(simulation.states[0, :, :, 0].numpy(), solution.y[:n].T, atol=1e-6)


@pytest.mark.parametrize("simulate", [simulate_heat, simulate_wave, simulate_third_order])
def test_seed_decides_everything(simulate):
    first, same, other = simulate(seed=1), simulate(seed=1), simulate(seed=2)
    assert torch.equal(first.states, same.states)
    assert not torch.equal(first.states, other.states)


def test_orders_and_names_are_known():
    systems = [
        simulate_heat(),
        simulate_wave(),
        simulate_wave(damping=0.3),
        simulate_third_order(),
        simulate_pendulum(),
    ]
    assert [system.dynamics_order for system in systems] == [1, 2, 2, 3, 2]
    assert systems[2].name == "damped wave"


def test_a_graph_may_be_given():
    graph = Graph([[0, 1], [1, 2]], direction="out")
    assert simulate_wave(graph).states.shape == (24, 60, 3, 1)


@pytest.mark.parametrize("simulate", [simulate_heat, simulate_wave, simulate_third_order])
def test_a_graph_may_come_from_elsewhere(simulate):
    path = networkx.path_graph(5)
    expected = simulate(Graph.from_networkx(path)).states
    dense = networkx.to_numpy_array(path)
    for graph in (path, dense, scipy.sparse.csr_array(dense), Graph.from_networkx(path).to_pyg()):
        torch.testing.assert_close(simulate(graph).states, expected)


def test_every_simulator_with_a_graph_refuses_what_is_none():
    # Every public name, so that the next simulator is asked, too.
    simulators = [getattr(tdegnn, name) for name in tdegnn.__all__ if name.startswith("simulate_")]
    with_graph = [each for each in simulators if "graph" in inspect.signature(each).parameters]
    assert {*simulators} - {*with_graph} == {simulate_pendulum}
    for simulate in with_graph:
        for given, came in (("edges.csv", "str"), ([[0, 1], [1, 0]], "list")):
            with pytest.raises(
                InputError, match=f"^Expected graph to be a Graph, a networkx graph, PyG data or .* got {came}. For"
            ):
                simulate(given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_pendulum(num_steps=1), "num_steps to be at least 2, got 1"),
        (lambda: simulate_pendulum(step_size=0.0), "step_size to be positive, got 0.0"),
        (lambda: simulate_heat(num_trajectories=0), "num_trajectories to be at least 1, got 0"),
        (lambda: simulate_wave(damping=-0.1), "damping to be at least 0, got -0.1"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
