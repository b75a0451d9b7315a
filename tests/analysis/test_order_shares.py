"""What noise hides is not counted as explained, so certainty does not grow with noise."""

import re

import numpy as np
import pytest

from tdegnn.analysis.order_limits import FINEST, FLATTEST, STEEPEST
from tdegnn.analysis.order_search import find_order
from tdegnn.analysis.order_shares import expected_share, lowest_share
from tdegnn.data.simulators.epidemic import simulate_epidemic

NO_FINER = np.empty((0, 3))
FAST = {"num_resamples": 40}


def per_resample(*shares):
    """Shares by scale, the same for three resamples."""
    return np.repeat(np.array(shares)[:, None], 3, axis=1)


def add_noise(states, share):
    return states + share * states.std() * np.random.default_rng([0, 1]).standard_normal(states.shape)


def test_shares_stay_if_noise_hides_nothing():
    judging = per_resample(0.9, 0.97)
    assert expected_share(judging, NO_FINER, [FINEST, 2 * FINEST]) == pytest.approx(lowest_share(judging))


def test_a_share_that_grows_with_the_scale_is_continued_to_the_finest():
    """80, 90 and 100 % at scales that double: noise hides the first of them."""
    shares = expected_share(per_resample(0.9, 1.0), NO_FINER, [2 * FINEST, 4 * FINEST])
    assert shares == pytest.approx([0.8] * 3)
    finer = expected_share(per_resample(0.9, 0.9), per_resample(0.8), [4 * FINEST, 8 * FINEST, 2 * FINEST])
    assert finer == pytest.approx([0.7] * 3)


def test_some_growth_is_assumed_where_no_slope_is_seen():
    """Noise may hide just the scales where the unexplained share begins to grow."""
    shares = expected_share(per_resample(0.97, 0.97), NO_FINER, [4 * FINEST, 8 * FINEST])
    assert shares == pytest.approx([1 - 0.03 * 4**FLATTEST] * 3)


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


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.5, 0.6])
def test_certainty_does_not_grow_with_noise(spread):
    """An epidemic seen through one of two states follows no equation that the search knows, with or without noise."""
    simulation = simulate_epidemic(spread=spread, seed=1)
    states, graph = simulation.states[..., 1:].numpy(), simulation.graph
    clean = find_order(states, graph, **FAST)
    assert clean.order is None
    for noise in (0.05, 0.4):
        found = find_order(add_noise(states, noise), graph, **FAST)
        assert (found.order, found.agreement < 0.05) == (None, True)
        assert found.verdict.startswith("The data cannot tell their order: no order up to ")
        # The share is the one without noise, or less where noise hides much.
        assert clean.shares[2] - 0.1 < found.shares[2] < clean.shares[2] < found.trials[1].high
    assert re.search(
        r"Noise hides changes within less than \d\d steps. Order \d explains 9\d % of slower changes, but less of "
        "faster ones. The share shown for it is the one to expect of all changes, as if there were no noise.",
        found.notes[-1],
    )


@pytest.mark.slow
def test_both_states_of_an_epidemic_are_of_first_order():
    simulation = simulate_epidemic(seed=1)
    assert find_order(add_noise(simulation.states.numpy(), 0.01), simulation.graph, max_order=2, **FAST).order == 1


@pytest.mark.slow
def test_shares_are_between_nothing_and_everything():
    """In one series that settles down, a fit to some pieces is far worse than none on others."""
    simulation = simulate_epidemic(num_trajectories=1, num_steps=300, spread=1.0)
    found = find_order(simulation.states[..., 1:], simulation.graph, **FAST)
    assert found.trials[0].explained_share == 0.0
    for trial in found.trials:
        assert 0 <= trial.low <= trial.explained_share <= trial.visible_share <= trial.high <= 1
    assert "order 1 0.0 %" in str(found)
