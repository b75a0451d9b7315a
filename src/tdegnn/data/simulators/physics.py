"""Simulate systems of known order on graphs: the pendulum of the paper, heat, waves, and a third-order system.

The systems on a graph are linear, `F^(m) + a_(m-1) F^(m-1) + ... + a_1 F' = -L F`. They are advanced exactly, by the
exponential of their companion matrix, so the observations carry no error of a numerical integrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import networkx
import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.data.graphs.edges import is_networkx_graph
from tdegnn.errors import InputError, check_count, check_finite, name_kind
from tdegnn.graph import Graph, is_pyg_data

PendulumFeatures = Literal["angle", "coordinates"]


@dataclass(frozen=True)
class Simulation:
    """Observed trajectories of a system.

    Attributes:
        name: Name of the system.
        states: The observations, in float64.
        graph: The graph of the system.
        step_size: Time between two observations.
        dynamics_order: Order of the system in time.
    """

    name: str
    states: Float[Tensor, "trajectories time nodes channels"]
    graph: Graph
    step_size: float
    dynamics_order: int


def simulate_pendulum(
    num_steps: int = 1000,
    step_size: float = 0.1,
    initial_angle: float = 1.0,
    features: PendulumFeatures = "angle",
) -> Simulation:
    """Simulate the nonlinear pendulum of the paper: a fixed pivot (node 0) and a bob (node 1), joined by an edge.

    `theta'' = -sin(w(t) theta)` with `w(t) = 1 - 0.04 sin t`, from rest, integrated by leapfrog.

    Deviation: the paper writes `theta'' = +sin(w(t) theta)`, which does not swing.

    Args:
        num_steps: Number of observations.
        step_size: Time between two observations, and step of the integrator.
        initial_angle: Angle at time 0.
        features: `"angle"` for one channel, with an equation in the angle alone, or `"coordinates"` for x and y, whose
            acceleration also depends on the velocity. Default: `"angle"`.
    """
    _check_times(num_steps, step_size)
    check_finite(initial_angle=initial_angle)
    if features not in get_args(PendulumFeatures):
        raise InputError(f"Expected features to be 'angle' or 'coordinates', got {features!r}.")
    angles = np.empty(num_steps)
    angles[0] = initial_angle
    # The pendulum starts at rest, so the first step has half of the acceleration.
    angles[1] = initial_angle + step_size**2 / 2 * _pendulum_acceleration(initial_angle, 0.0)
    for step in range(1, num_steps - 1):
        acceleration = _pendulum_acceleration(angles[step], step * step_size)
        angles[step + 1] = 2 * angles[step] - angles[step - 1] + step_size**2 * acceleration
    observe: dict[PendulumFeatures, list[Float[np.ndarray, " time"]]] = {
        "angle": [angles],
        "coordinates": [np.sin(angles), -np.cos(angles)],
    }
    bob = np.stack(observe[features], axis=1)
    states = torch.as_tensor(np.stack([np.zeros_like(bob), bob], axis=1))[None]
    return Simulation("pendulum", states, Graph([[0], [1]]), step_size, dynamics_order=2)


def _pendulum_acceleration(angle: float, time: float) -> float:
    return float(-np.sin((1 - 0.04 * np.sin(time)) * angle))


def simulate_heat(
    graph: Any = None,
    num_trajectories: int = 24,
    num_steps: int = 60,
    step_size: float = 0.1,
    seed: int = 0,
) -> Simulation:
    """Simulate the heat equation, of first order: `F' = -L F`. See `simulate_linear` for the arguments."""
    return simulate_linear("heat", (), graph, num_trajectories, num_steps, step_size, seed)


def simulate_wave(
    graph: Any = None,
    num_trajectories: int = 24,
    num_steps: int = 60,
    step_size: float = 0.1,
    seed: int = 0,
    damping: float = 0.0,
) -> Simulation:
    """Simulate coupled oscillators, of second order: `F'' + damping F' = -L F`.

    See `simulate_linear` for the other arguments.
    """
    check_finite(damping=damping)
    if damping < 0:
        raise InputError(f"Expected damping to be at least 0, got {damping}.")
    name = "damped wave" if damping else "wave"
    return simulate_linear(name, (damping,), graph, num_trajectories, num_steps, step_size, seed)


def simulate_third_order(
    graph: Any = None,
    num_trajectories: int = 24,
    num_steps: int = 100,
    step_size: float = 0.1,
    seed: int = 0,
) -> Simulation:
    """Simulate a third-order system: `F''' + F'' + 2 F' = -L F`. See `simulate_linear` for the arguments."""
    return simulate_linear("third order", (2.0, 1.0), graph, num_trajectories, num_steps, step_size, seed)


def simulate_linear(
    name: str,
    lower_derivatives: Sequence[float],
    graph: Any,
    num_trajectories: int,
    num_steps: int,
    step_size: float,
    seed: int,
) -> Simulation:
    """Simulate `F^(m) + a_(m-1) F^(m-1) + ... + a_1 F' = -L F` from random initial states and derivatives.

    Args:
        name: Name of the system.
        lower_derivatives: `a_1, ..., a_(m-1)`. Their number sets the order m.
        graph: A `Graph`, a networkx graph, PyG data or an adjacency matrix (array or SciPy). If `None`,
            `random_graph(seed=seed)`.
        num_trajectories: Number of trajectories. Initial states and derivatives are drawn from a normal distribution.
        num_steps: Number of observations per trajectory.
        step_size: Time between two observations.
        seed: Seed of the initial states and derivatives.
    """
    _check_times(num_steps, step_size)
    check_count(num_trajectories=num_trajectories)
    check_count(0, seed=seed)
    graph = random_graph(seed=seed) if graph is None else _as_graph(graph)
    order, num_nodes = len(lower_derivatives) + 1, graph.num_nodes
    identity = torch.eye(num_nodes, dtype=torch.float64)
    laplacian = graph.laplacian(identity).numpy()
    # In companion form, the phase is (F, F', ..., F^(m-1)).
    companion = np.eye(order * num_nodes, k=num_nodes)
    companion[-num_nodes:, :num_nodes] = -laplacian
    for position, weight in enumerate(lower_derivatives, start=1):
        companion[-num_nodes:, position * num_nodes : (position + 1) * num_nodes] = -weight * np.eye(num_nodes)
    advance = scipy.linalg.expm(step_size * companion)

    phase = np.random.default_rng(seed).standard_normal((num_trajectories, order * num_nodes))
    observed = np.empty((num_trajectories, num_steps, num_nodes, 1))
    for step in range(num_steps):
        observed[:, step, :, 0] = phase[:, :num_nodes]
        phase = phase @ advance.T
    return Simulation(name, torch.as_tensor(observed), graph, step_size, order)


def random_graph(num_nodes: int = 16, seed: int = 0) -> Graph:
    """Return a connected small-world graph: a ring of neighborhoods with some edges rewired."""
    check_count(5, num_nodes=num_nodes)
    return Graph.from_networkx(networkx.connected_watts_strogatz_graph(num_nodes, k=4, p=0.2, seed=seed))


def _as_graph(given: Any) -> Graph:
    """Return the graph of anything that `read_graph` takes and that says by itself which nodes there are."""
    if isinstance(given, Graph):
        return given
    if is_networkx_graph(given):
        return Graph.from_networkx(given)
    if is_pyg_data(given):
        return Graph.from_pyg(given)
    if scipy.sparse.issparse(given) or isinstance(given, np.ndarray):
        return Graph.from_scipy(given)
    raise InputError(
        "Expected graph to be a Graph, a networkx graph, PyG data or an adjacency matrix, got "
        f"{name_kind(given)}. For a list of edges, pass read_graph(edges, nodes)[0]."
    )


def _check_times(num_steps: int, step_size: float) -> None:
    check_count(2, num_steps=num_steps)
    check_finite(step_size=step_size)
    if not step_size > 0:
        raise InputError(f"Expected step_size to be positive, got {step_size}.")
