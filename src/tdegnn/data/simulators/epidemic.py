"""Simulate an epidemic on a graph, a nonlinear system of first order in two states.

Susceptible shares S and infected shares I of each node follow `S' = w (1 - S - I) - b S (M I)` and
`I' = b S (M I) - g I`, where M mixes a node with the mean of its neighbors. Immunity wanes at the rate w, so there is a
balance, around which the shares swing. Whoever observes I alone sees no equation of any order that is linear in its
derivatives.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from tdegnn.data.simulators.physics import Simulation, random_graph
from tdegnn.errors import InputError, check_count, check_finite

# Rates b, g and w per unit of time, and the share of contacts within the same node.
INFECTION, RECOVERY, WANING = 0.8, 0.25, 0.03
CONTACTS_WITHIN = 0.8
NUM_NODES = 16
# Steps of the integrator per observation.
SUBSTEPS = 4


def simulate_epidemic(
    num_trajectories: int = 16, num_steps: int = 100, step_size: float = 0.6, spread: float = 0.5, seed: int = 0
) -> Simulation:
    """Simulate trajectories of S and I (the two channels) from random states around the balance.

    Args:
        num_trajectories: Number of trajectories.
        num_steps: Number of observations per trajectory.
        step_size: Time between two observations.
        spread: How far initial shares are from the balance, at most, relative to it.
        seed: Seed of the graph and of the initial states.
    """
    check_count(num_trajectories=num_trajectories)
    check_count(2, num_steps=num_steps)
    check_count(0, seed=seed)
    check_finite(step_size=step_size, spread=spread)
    if not step_size > 0:
        raise InputError(f"Expected step_size to be positive, got {step_size}.")
    if not 0 <= spread <= 1:
        raise InputError(f"Expected spread to be from 0 to 1, got {spread}.")
    graph = random_graph(NUM_NODES, seed)
    received = graph.received.toarray()
    mixing = CONTACTS_WITHIN * np.eye(NUM_NODES) + (1 - CONTACTS_WITHIN) * received / received.sum(
        axis=1, keepdims=True
    )
    susceptible = RECOVERY / INFECTION
    infected = WANING * (1 - susceptible) / (RECOVERY + WANING)
    deviations = np.random.default_rng(seed).uniform(-spread, spread, (2, num_trajectories, NUM_NODES))
    state = np.array([susceptible, infected])[:, None, None] * (1 + deviations)
    states = []
    for _ in range(num_steps):
        states.append(state)
        for _ in range(SUBSTEPS):
            middle = state + step_size / SUBSTEPS / 2 * _rate(state, mixing)
            state = state + step_size / SUBSTEPS * _rate(middle, mixing)
    observed = np.stack(states).transpose(2, 0, 3, 1)
    return Simulation("epidemic", torch.from_numpy(observed.copy()), graph, step_size, 1)


def _rate(
    state: Float[np.ndarray, "states trajectories nodes"], mixing: Float[np.ndarray, "nodes nodes"]
) -> Float[np.ndarray, "states trajectories nodes"]:
    susceptible, infected = state
    new = INFECTION * susceptible * (infected @ mixing.T)
    return np.stack([WANING * (1 - susceptible - infected) - new, new - RECOVERY * infected])
