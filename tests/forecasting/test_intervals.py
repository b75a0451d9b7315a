"""Intervals hold what they promise: exactly on paper, within two points on simulated series."""

import jaxtyping
import numpy as np
import pytest

from tdegnn.errors import InputError
from tdegnn.forecasting.intervals import (
    AdaptiveIntervals,
    ConformalIntervals,
    fewest_residuals,
    growth_of,
    measure_coverage,
    widen_intervals,
)

COVERAGE = 0.9


@pytest.fixture
def as_a_user(monkeypatch):
    """No shape checks of the test run come before the library's own."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def single(values):
    """Residuals of one series and a horizon of one step."""
    return np.asarray(values, dtype=float).reshape(-1, 1, 1, 1)


@pytest.mark.parametrize(
    ("num_residuals", "coverage", "rank"),
    [
        (9, 0.9, 9),
        (10, 0.9, 10),
        (19, 0.9, 18),
        (19, 0.95, 19),
        (99, 0.9, 90),
        (99, 0.55, 55),
        (100, 0.9, 91),
        (1, 0.5, 1),
    ],
)
def test_the_width_is_the_residual_of_the_corrected_rank(num_residuals, coverage, rank):
    residuals = np.random.default_rng(0).permutation(np.arange(1, num_residuals + 1))
    signs = np.where(residuals % 2, 1, -1)
    for per in ("node", "all"):
        intervals = ConformalIntervals.fit(single(signs * residuals), coverage, per)
        assert intervals.widths.item() == rank


def test_every_series_and_step_of_the_horizon_has_its_own_width():
    sizes = np.arange(1, 13).reshape(3, 2, 2)
    residuals = np.arange(1, 20)[:, None, None, None] * sizes
    intervals = ConformalIntervals.fit(residuals.astype(float), COVERAGE)
    np.testing.assert_array_equal(intervals.widths, 18 * sizes)
    assert not intervals.is_pooled.any()


def test_pooled_widths_differ_by_the_scale_alone():
    generator = np.random.default_rng(0)
    scale = np.array([[1.0], [10.0], [100.0]])
    residuals = generator.normal(size=(400, 2, 3, 1)) * scale
    intervals = ConformalIntervals.fit(residuals, COVERAGE, per="all", scale=scale)
    assert intervals.is_pooled.all()
    np.testing.assert_allclose(intervals.widths, intervals.widths[:, :1] * scale)
    np.testing.assert_allclose(intervals.widths[:, 0], 1.645, atol=0.1)


def test_a_node_with_too_few_residuals_takes_those_of_all_nodes():
    residuals = np.tile(np.arange(1.0, 21.0)[:, None, None, None], (1, 1, 3, 1))
    residuals[8:, 0, 2] = np.nan  # one fewer than 9
    scale = np.array([[1.0], [1.0], [4.0]])
    intervals = ConformalIntervals.fit(residuals, COVERAGE, scale=scale)
    assert intervals.is_pooled.ravel().tolist() == [False, False, True]
    pooled = np.sort(np.concatenate([np.arange(1, 21), np.arange(1, 21), np.arange(1, 9) / 4]))
    assert intervals.widths.ravel().tolist() == [19, 19, 4 * pooled[int(np.ceil(49 * 0.9)) - 1]]


def test_what_was_not_observed_does_not_count():
    residuals = np.random.default_rng(0).normal(size=(50, 2, 3, 1))
    with_gaps = np.full((100, 2, 3, 1), np.nan)
    with_gaps[::2] = residuals
    for per in ("node", "all"):
        ours, theirs = (ConformalIntervals.fit(each, COVERAGE, per) for each in (with_gaps, residuals))
        np.testing.assert_array_equal(ours.widths, theirs.widths)
    observed = np.array([0.0, np.nan, 3.0])
    assert measure_coverage(np.full(3, -1.0), np.full(3, 1.0), observed) == 0.5


def test_intervals_lie_around_forecasts():
    intervals = ConformalIntervals.fit(single(range(1, 10)), COVERAGE)
    low, high = intervals.apply(np.full((5, 1, 1, 1), 100.0))
    assert (low == 91).all()
    assert (high == 109).all()
    assert measure_coverage(low, high, np.full((5, 1, 1, 1), 109.0)) == 1


def simulate(seed, num_steps, num_nodes=5):
    """A stationary AR(1), y[t] = 0.7 y[t-1] + e[t], and a forecaster that does not know the 0.7."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(num_steps, num_nodes))
    series = np.empty_like(noise)
    series[0] = noise[0] / np.sqrt(1 - 0.7**2)
    for step in range(1, num_steps):
        series[step] = 0.7 * series[step - 1] + noise[step]
    return 0.5 * series[:-1, None, :, None], series[1:, None, :, None]


@pytest.mark.parametrize("per", ["node", "all"])
@pytest.mark.parametrize("seed", range(20))
def test_coverage_on_a_stationary_series_is_as_promised(seed, per):
    forecast, observed = simulate(seed, 4_001)
    intervals = ConformalIntervals.fit((observed - forecast)[:2_000], COVERAGE, per)
    reached = measure_coverage(*intervals.apply(forecast[2_000:]), observed[2_000:])
    assert 0.88 <= reached <= 0.92


def test_short_validation_parts_hold_their_promise_on_average():
    reached = []
    for seed in range(300):
        residuals = np.random.default_rng(seed).normal(size=(12, 1, 20, 1))
        widths = ConformalIntervals.fit(residuals[:11], COVERAGE).widths
        reached.append(measure_coverage(-widths, widths, residuals[11]))
    # 11 of 12 positions of a new residual among 11 are covered.
    assert np.mean(reached) == pytest.approx(11 / 12, abs=0.01)


def follow(intervals, residuals):
    """Which residuals the intervals missed, learning from each."""
    misses = []
    for residual in residuals:
        misses.append(np.abs(residual) > intervals.widths)
        intervals = intervals.update(residual)
    return np.stack(misses), intervals


@pytest.mark.slow
def test_adaptive_intervals_recover_from_a_change_of_variance():
    residuals = np.random.default_rng(0).normal(size=(3_000, 1, 4, 1))
    residuals[1_000:] *= 3
    fixed = ConformalIntervals.fit(residuals[:500], COVERAGE)
    low, high = fixed.apply(np.zeros((2_000, 1, 4, 1)))
    assert measure_coverage(low, high, residuals[1_000:]) < 0.5
    misses, intervals = follow(AdaptiveIntervals.start(residuals[:500], COVERAGE), residuals[500:])
    assert 1 - misses[:500].mean() == pytest.approx(COVERAGE, abs=0.02)
    assert 1 - misses[1_000:].mean() == pytest.approx(COVERAGE, abs=0.02)
    assert intervals.residuals.shape == (500, 1, 4, 1)
    np.testing.assert_allclose(intervals.widths, 3 * 1.645, rtol=0.2)


@pytest.mark.slow
def test_the_share_of_misses_is_right_in_the_long_run_whatever_happens():
    generator = np.random.default_rng(0)
    # Residuals that grow without end: never like those seen.
    residuals = np.exp(np.linspace(0, 8, 2_000)).reshape(-1, 1, 1, 1) * generator.normal(size=(2_000, 1, 1, 1))
    for step_size in (0.02, 0.1):
        misses, _ = follow(AdaptiveIntervals.start(residuals[:20], COVERAGE, step_size), residuals[20:])
        assert abs(misses.mean() - 0.1) <= (1 + step_size) / (step_size * len(misses))


def test_the_level_moves_as_published():
    intervals = AdaptiveIntervals.start(single(range(1, 20)), COVERAGE, step_size=0.05)
    assert intervals.widths.item() == 18
    missed, held = (intervals.update(np.full((1, 1, 1), residual)) for residual in (-18.5, 18.0))
    assert missed.levels.item() == pytest.approx(0.1 - 0.05 * 0.9)
    assert held.levels.item() == pytest.approx(0.1 + 0.05 * 0.1)
    assert missed.residuals[-1].item() == 18.5


def test_a_step_without_observation_leaves_the_level():
    intervals = AdaptiveIntervals.start(np.ones((10, 1, 2, 1)), COVERAGE)
    later = intervals.update(np.array([[[np.nan], [5.0]]]))
    assert later.levels[0, 0] == intervals.levels[0, 0]
    assert later.levels[0, 1] < intervals.levels[0, 1]


def test_an_outage_leaves_adaptive_intervals_as_they_are():
    intervals = AdaptiveIntervals.start(np.random.default_rng(0).standard_normal((20, 1, 1, 1)), COVERAGE)
    later = intervals
    for _ in range(25):
        later = later.update(np.full((1, 1, 1), np.nan))
    np.testing.assert_array_equal(later.widths, intervals.widths)


def test_adaptive_intervals_are_infinite_where_nothing_is_known():
    intervals = AdaptiveIntervals.start(np.full((3, 1, 1, 1), np.nan), COVERAGE)
    assert np.isinf(intervals.widths).all()
    assert intervals.update(np.ones((1, 1, 1))).widths.item() == 1


def test_too_few_residuals_are_refused():
    assert (fewest_residuals(0.9), fewest_residuals(0.95), fewest_residuals(0.5)) == (9, 19, 1)
    with pytest.raises(
        InputError, match="Expected at least 9 observed residuals for a coverage of 0.9, got 8 at step 1"
    ):
        ConformalIntervals.fit(single([*range(8), np.nan]), 0.9)
    with pytest.raises(InputError, match="Expected the residuals of at least one held-out step"):
        AdaptiveIntervals.start(np.ones((0, 1, 1, 1)))


@pytest.mark.usefixtures("as_a_user")
def test_wrong_input_is_refused():
    residuals = np.ones((20, 2, 3, 1))
    intervals = ConformalIntervals.fit(residuals)
    with pytest.raises(InputError, match="Expected a coverage between 0 and 1, got 90. 0.9 stands for 90 %"):
        ConformalIntervals.fit(residuals, 90)
    with pytest.raises(InputError, match="Expected per to be 'node' or 'all', got 'step'"):
        ConformalIntervals.fit(residuals, per="step")
    with pytest.raises(
        InputError, match=r"Expected residuals of shape \(steps, horizon, nodes, targets\), got \(20,\)"
    ):
        ConformalIntervals.fit(residuals[:, 0, 0, 0])
    with pytest.raises(InputError, match="got infinity"):
        ConformalIntervals.fit(residuals * np.inf)
    with pytest.raises(InputError, match=r"Expected a positive scale of shape \(3 nodes or 1, 1 targets\)"):
        ConformalIntervals.fit(residuals, scale=np.ones((2, 1)))
    with pytest.raises(InputError, match=r"Expected forecasts of shape \(..., horizon, nodes, targets\)"):
        intervals.apply(np.ones((5, 2, 1, 1)))
    with pytest.raises(InputError, match="Expected residuals of one step"):
        AdaptiveIntervals.start(residuals).update(np.ones((3, 1)))
    with pytest.raises(InputError, match="Expected a positive step_size, got 0"):
        AdaptiveIntervals.start(residuals, step_size=0.0)
    with pytest.raises(InputError, match="of one shape"):
        measure_coverage(np.ones(3), np.ones(3), np.ones((3, 1)))
    with pytest.raises(InputError, match="Expected at least one observed value, got none among 3"):
        measure_coverage(np.ones(3), np.ones(3), np.full(3, np.nan))


# Other coverages, and further steps.


@pytest.mark.parametrize("per", ["node", "all"])
def test_other_coverages_are_those_of_the_same_residuals(per):
    residuals = np.random.default_rng(0).normal(size=(200, 2, 3, 1))
    intervals = ConformalIntervals.fit(residuals, COVERAGE, per)
    assert intervals.at(COVERAGE) is intervals
    for coverage in (0.05, 0.5, 0.95, 0.99):
        expected = ConformalIntervals.fit(residuals, coverage, per)
        np.testing.assert_allclose(intervals.at(coverage).widths, expected.widths, rtol=1e-6)
        assert intervals.at(coverage).coverage == coverage
    widths = [intervals.at(coverage).widths for coverage in np.linspace(0.01, 0.99, 50)]
    assert (np.diff(widths, axis=0) >= 0).all()
    np.testing.assert_allclose(intervals.at(0.93).widths, ConformalIntervals.fit(residuals, 0.93, per).widths, rtol=0.1)


def test_a_coverage_that_needs_more_residuals_is_refused():
    intervals = ConformalIntervals.fit(single(np.arange(1, 20)), COVERAGE)
    assert intervals.at(0.95).widths.item() == 19
    with pytest.raises(InputError, match="at most 0.95, for which enough steps were held out, got 0.96"):
        intervals.at(0.96)


@pytest.mark.parametrize(("persistence", "most"), [(1.0, 0.94), (0.7, 1.0)])
def test_intervals_beyond_the_horizon_hold_too(persistence, most):
    """A random walk and a series that returns to its mean, forecast as well as can be for three horizons."""
    horizon, ahead = 4, 12
    draw = np.random.default_rng(0)
    noise, paths = draw.normal(size=(4000, 1 + ahead)), np.zeros((4000, 1 + ahead))
    paths[:, 0] = noise[:, 0]
    for step in range(1, ahead + 1):
        paths[:, step] = persistence * paths[:, step - 1] + noise[:, step]
    forecasts = paths[:, :1] * persistence ** np.arange(1, ahead + 1)
    residuals = (paths[:, 1:] - forecasts)[..., None, None]
    intervals = ConformalIntervals.fit(residuals[:2000, :horizon], COVERAGE)
    widths = np.tile(intervals.widths, (ahead // horizon, 1, 1))
    low, high = widen_intervals(np.zeros_like(widths), -widths, widths, horizon, growth_of(intervals.widths))
    held = ((low <= residuals[2000:]) & (residuals[2000:] <= high)).mean(axis=(0, 2, 3))
    assert 0.87 <= held.min() <= held.max() <= most


def test_intervals_never_shrink_beyond_the_horizon():
    sizes = np.array([3.0, 1.0, 3.0, 1.0, 4.0])  # the last block is more difficult
    widths = sizes[:, None, None] * np.array([[1.0, 0.0], [2.0, 0.0]])  # the second target is constant
    low, high = widen_intervals(np.zeros_like(widths), -widths, 2 * widths, 2, growth_of(3 * widths[:2]))
    np.testing.assert_array_equal(high[:, 0, 0], [6.0, 2.0, 6.0, 6.0, 8.0])
    np.testing.assert_array_equal(low[:, 1, 0], [-6.0, -2.0, -6.0, -6.0, -8.0])
    assert (high[..., 1] == 0).all()
