"""Notes on what may be missing if no order explains enough."""

import numpy as np
import pytest

from tdegnn.analysis.order_search import find_order
from tdegnn.data.simulators.physics import random_graph


def simulate_coupling(coupling, seed=0, num_trajectories=24, num_steps=60, step=0.1):
    """Simulate `F' = coupling(own state, neighbors' states)`, summed over neighbors and divided by their number."""
    random, graph = np.random.default_rng(seed), random_graph(16, seed)
    received = graph.received.toarray()
    weights = received / received.sum(axis=1, keepdims=True)

    def rate(state):
        return (weights * coupling(state[:, :, None], state[:, None, :])).sum(axis=-1)

    state = random.uniform(0.0, 2.5, (num_trajectories, 16))
    seen = []
    for _ in range(num_steps):
        seen.append(state)
        middle = state + step / 2 * rate(state)
        state = state + step * rate(middle)
    return np.stack(seen, axis=1)[..., None], graph


@pytest.mark.slow
@pytest.mark.parametrize(
    "coupling",
    [
        lambda own, other: 2 * other**4 / (1 + other**4) - own,
        lambda own, other: np.tanh(6 * (other - own)),
    ],
    ids=["saturation", "threshold"],
)
def test_nonlinear_coupling_is_named(coupling):
    found = find_order(*simulate_coupling(coupling), num_resamples=40)
    assert found.order is None
    assert "so a nonlinear coupling of the nodes, something not in the data, or chance is at work" in found.reason
    (note,) = (note for note in found.notes if "nearly enough" in note)
    assert note.startswith("Order 1 explains ")
    assert "Its equation may lack a term: a nonlinear coupling of the nodes (such as saturation, or sines of" in note
    assert "a state that was not observed, or a force from outside." in note
    assert 0.8 <= found.shares[1] < 0.95
