import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.data.simulators.epidemic import INFECTION, RECOVERY, WANING, simulate_epidemic


def test_shares_stay_shares_and_are_those_of_the_seed():
    simulation = simulate_epidemic(num_trajectories=3, num_steps=50, seed=1)
    assert simulation.states.shape == (3, 50, 16, 2)
    assert (simulation.states > 0).all()
    assert (simulation.states.sum(dim=-1) < 1).all()
    again, other = (simulate_epidemic(num_trajectories=3, num_steps=50, seed=seed) for seed in (1, 2))
    assert (simulation.states == again.states).all()
    assert not (simulation.states == other.states).all()


def test_in_balance_nothing_changes():
    states = simulate_epidemic(num_trajectories=1, spread=0.0).states.numpy()
    np.testing.assert_allclose(states, np.broadcast_to(states[:, :1], states.shape), rtol=1e-12)
    susceptible, infected = states[0, 0, 0]
    assert INFECTION * susceptible == pytest.approx(RECOVERY)
    assert WANING * (1 - susceptible - infected) == pytest.approx(RECOVERY * infected)


def test_observing_more_often_shows_the_same_trajectory():
    coarse, fine = (simulate_epidemic(2, num_steps, step).states for num_steps, step in ((20, 0.6), (39, 0.3)))
    np.testing.assert_allclose(coarse, fine[:, ::2], rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 1}, "num_steps to be at least 2, got 1"),
        ({"step_size": 0.0}, "step_size to be positive, got 0.0"),
        ({"spread": 1.5}, "spread to be from 0 to 1, got 1.5"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate_epidemic(**arguments)
