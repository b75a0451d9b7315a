"""What noise hides is not counted as explained, so certainty does not grow with noise."""

import numpy as np
import pytest

from tdegnn.analysis.order_limits import FINEST, STEEPEST
from tdegnn.analysis.order_search import find_order
from tdegnn.analysis.order_shares import expected_share, lowest_share
from tdegnn.data.simulators.physics import random_graph

NO_FINER = np.empty((0, 3))
FAST = {"num_resamples": 40}


def per_resample(*shares):
    """Shares by scale, the same for three resamples."""
    return np.repeat(np.array(shares)[:, None], 3, axis=1)


def simulate_epidemic(seed, *, infected=0.036, spread=0.6, num_trajectories=16, num_steps=100, step=0.6):
    """Simulate susceptible and infected shares on a graph, around their balance. Only the infected ones are seen."""
    random, graph = np.random.default_rng(seed), random_graph(16, seed)
    received = graph.received.toarray()
    mixing = 0.8 * np.eye(16) + 0.2 * received / received.sum(axis=1, keepdims=True)

    def rate(state):
        susceptible, infected = state
        new = 0.8 * susceptible * (infected @ mixing.T)
        return np.stack([0.03 * (1 - susceptible - infected) - new, new - 0.25 * infected])

    levels = np.array([0.31, infected])[:, None, None]
    state = levels * (1 + spread * random.uniform(-1, 1, (2, num_trajectories, 16)))
    seen = []
    for _ in range(num_steps):
        seen.append(state[1])
        for _ in range(4):
            middle = state + step / 8 * rate(state)
            state = state + step / 4 * rate(middle)
    return np.stack(seen, axis=1)[..., None], graph


def test_shares_stay_if_noise_hides_nothing():
    judging = per_resample(0.9, 0.97)
    assert expected_share(judging, NO_FINER, [FINEST, 2 * FINEST]) == pytest.approx(lowest_share(judging))


def test_a_share_that_grows_with_the_scale_is_continued_to_the_finest():
    """80, 90 and 100 % at scales that double: noise hides the first of them."""
    shares = expected_share(per_resample(0.9, 1.0), NO_FINER, [2 * FINEST, 4 * FINEST])
    assert shares == pytest.approx([0.8] * 3)
    finer = expected_share(per_resample(0.9, 0.9), per_resample(0.85), [4 * FINEST, 8 * FINEST, 2 * FINEST])
    assert finer == pytest.approx([0.8] * 3)


def test_an_equation_keeps_its_share():
    """What remains of noise is so little that no slope makes it much."""
    shares = expected_share(per_resample(0.999, 1.0), NO_FINER, [4 * FINEST, 5 * FINEST])
    assert (shares >= 0.99).all()


def test_without_another_scale_the_steepest_growth_is_assumed():
    shares = expected_share(per_resample(0.98), NO_FINER, [4 * FINEST])
    assert shares == pytest.approx([1 - 0.02 * 4**STEEPEST] * 3)


def test_a_share_above_one_is_as_wrong_as_one_below():
    assert expected_share(per_resample(1.1), NO_FINER, [FINEST]) == pytest.approx([0.9] * 3)


def test_resamples_that_cannot_judge_stay_without_a_share():
    judging = np.array([[np.nan, 0.9, np.nan], [np.nan, 1.0, 0.98]])
    shares = expected_share(judging, NO_FINER, [2 * FINEST, 4 * FINEST])
    assert np.isnan(shares).tolist() == [True, False, False]
    assert np.isnan(expected_share(np.empty((0, 3)), NO_FINER, [])).all()


def add_noise(states, share):
    return states + share * states.std() * np.random.default_rng([0, 1]).standard_normal(states.shape)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.4, 0.6])
def test_certainty_does_not_grow_with_noise(spread):
    """An epidemic seen through one of two states follows no equation that the search knows, with or without noise."""
    states, graph = simulate_epidemic(1, spread=spread)
    clean = find_order(states, graph, **FAST)
    assert clean.order is None
    for noise in (0.05, 0.2, 0.4):
        found = find_order(add_noise(states, noise), graph, **FAST)
        assert (found.order, found.agreement < 0.05) == (None, True)
        assert found.verdict.startswith("The data cannot tell their order: no order up to ")
        # The share is the one without noise, or less where noise hides much.
        assert clean.shares[2] - 0.1 < found.shares[2] < clean.shares[2]
    assert any(note.startswith("Noise hides changes within less than 12 steps. Order 2 explains 9") for note in found.notes)


@pytest.mark.slow
def test_shares_are_between_nothing_and_everything():
    """One wave of an epidemic: a fit to some pieces is far worse than none on others."""
    states, graph = simulate_epidemic(1, infected=1e-4, num_trajectories=1, num_steps=300, step=0.2)
    found = find_order(states, graph, **FAST)
    assert found.trials[0].explained_share == 0.0
    for trial in found.trials:
        assert 0 <= trial.low <= trial.explained_share <= trial.high <= 1
        assert 0 <= trial.visible_share <= trial.visible_high <= 1
    assert "order 1 0.0%" in str(found)
