import numpy as np
import pytest
import torch

from tdegnn import DirectCoefficients, Graph, InputError, SpatialOperator, integrate
from tdegnn.analysis.plots import plot_stability_regions, save_figure
from tdegnn.analysis.stencil import (
    backward_difference_stencil,
    boundary,
    real_limit,
    satisfies_root_condition,
    stability_region,
)
from tdegnn.core.stable_factors import stable_coefficients

VECTORS = {
    "Euler": [1.0],
    "leapfrog": [2.0, -1.0],
    "damped wave": [1.9, -0.9],
    "extrapolation": [18 / 11, -9 / 11, 2 / 11],
    "pendulum": [1.4, 0.2, -0.6],
    "mean": [0.25, 0.25, 0.25, 0.25],
}
GRID = np.linspace(-4.5, 1.5, 41), np.linspace(-2.5, 2.5, 41)


def random_vectors(count, order):
    """Return random vectors: half of them arbitrary, which are seldom stable, and half of them stable."""
    random = np.random.default_rng(order)
    free = random.uniform(-1, 1, (count // 2, order))
    free[:, 0] += 1 - free.sum(axis=1)
    stable = stable_coefficients(torch.from_numpy(random.standard_normal((count // 2, order - 1))), 1, 1e-3)
    return [*free, *stable.numpy()]


def test_region_of_euler_is_the_disc_around_minus_one():
    real, imaginary = GRID
    distance = np.abs(real[None, :] + 1j * imaginary[:, None] + 1)
    is_clear = np.abs(distance - 1) > 1e-3
    region = stability_region([1.0], real, imaginary)
    assert (region == (distance < 1))[is_clear].all()
    # States with weight zero only add roots at 0.
    assert (region == stability_region([1.0, 0.0, 0.0], real, imaginary)).all()


def test_region_of_leapfrog_is_an_interval_without_its_ends():
    real = np.array([-4.01, -4.0, -3.99, -2.0, -0.01, 0.0, 0.01])
    region = stability_region([2.0, -1.0], real, [0.0, 1e-3])
    assert region[0].tolist() == [False, False, True, True, True, False, False]
    assert not region[1].any()


@pytest.mark.slow
@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_region_is_where_the_recursion_stays_bounded(vector):
    real, imaginary = GRID
    grid = real[None, :] + 1j * imaginary[:, None]
    c = np.asarray(vector)
    states = [np.random.default_rng(p).standard_normal(grid.shape) + 0j for p in range(len(c))]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(4000):
            states = [np.tensordot(c, states, 1) + grid * states[0], *states[:-1]]
    stays = np.abs(states[0]) < 1e4
    # Near the edge, 4,000 steps are too few to decide.
    curve = boundary(vector, 4001)
    is_clear = np.abs(grid[..., None] - curve).min(axis=-1) > 0.02
    assert (stability_region(vector, real, imaginary) == stays)[is_clear].all()
    assert is_clear.mean() > 0.8


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_boundary_has_a_root_on_the_circle(vector):
    curve = boundary(vector, 64)
    np.testing.assert_allclose(curve[[0, -1]], 0, atol=1e-12)
    for z, x in zip(curve, np.exp(2j * np.pi * np.arange(64) / 63), strict=True):
        polynomial = np.concatenate([[1.0], -np.asarray(vector)]).astype(complex)
        polynomial[1] -= z
        assert abs(np.polyval(polynomial, x)) < 1e-12


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([1.0], -2.0),
        ([1.0, 0.0, 0.0], -2.0),
        ([2.0, -1.0], -4.0),
        ([2.0, -1.0, 0.0, 0.0], -4.0),
        ([1.9, -0.9], -3.8),
        ([1.4, 0.2, -0.6], -1.6),
        ([3.0, -3.0, 1.0], 0.0),
        ([0.0, 1.0], 0.0),  # z < 0 moves the root -1 out
        ([0.5, -0.5, 1.5, -0.5], 0.0),  # unstable already without s
    ],
)
def test_real_limit_of_known_vectors(vector, expected):
    assert real_limit(vector) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3, 5, 8, 12])
def test_real_limit_is_where_the_region_on_the_real_axis_ends(order):
    fine = -np.linspace(1e-3, 6, 1000)
    limits = []
    for vector in random_vectors(30, order):
        region = stability_region(vector, fine, [0.0])[0]
        first_outside = fine[np.argmin(region)] if not region.all() else -6.0
        # Allow a few steps of the grid: near the end, a root may leave the disc by less than the tolerance.
        limits.append(real_limit(vector))
        assert limits[-1] == pytest.approx(first_outside, abs=0.015)
        if not satisfies_root_condition(vector, 1e-6):
            assert limits[-1] == 0.0
    assert np.count_nonzero(limits) >= 5


def test_pure_differences_beyond_the_second_allow_no_decay():
    for order in range(3, 9):
        assert real_limit(backward_difference_stencil(order)) == 0.0


class Decay(SpatialOperator):
    """`s = -F`."""

    def forward(self, state, graph, layer, context=None):
        return -state, context


@pytest.mark.slow
@pytest.mark.parametrize(("share_of_limit", "is_bounded"), [(0.98, True), (1.02, False)])
def test_integration_stays_bounded_up_to_the_real_limit(share_of_limit, is_bounded):
    rule = DirectCoefficients(3).double()
    with torch.no_grad():
        rule.raw.copy_(torch.tensor([[1.4, 0.1, -0.5]]))
    c = rule((torch.zeros(2, 1, dtype=torch.float64),) * 3, 0)
    history = torch.randn(3, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step_size = -share_of_limit * real_limit(c.detach().numpy())
    result = integrate(history, Graph([[0], [1]]), rule, Decay(), num_layers=1000, step_size=step_size)
    assert bool(result.state.abs().max() < 10) is is_bounded


@pytest.mark.slow
def test_each_vector_has_a_panel_with_its_region_and_curve(tmp_path):
    figure = plot_stability_regions(VECTORS, num_points=31)
    assert [panel.get_title("left") for panel in figure.axes] == list(VECTORS)
    assert all((len(panel.lines), len(panel.images)) == (1, 1) for panel in figure.axes)
    assert "from -2 to 0" in figure.axes[0].texts[0].get_text()
    assert save_figure(figure, tmp_path / "regions.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("vector", "words", "is_shaded"),
    [
        ([1.0], "shaded, with all real hλ from -2 to 0", True),
        ([2.4, -0.5, -0.9], "shaded, but no real hλ just below 0", True),
        ([2.0, -1.0], "nothing is shaded: only real hλ from -4 to 0", False),
        ([0.0, 1.0], "nothing is shaded: only a line or a speck", False),
        ([3.0, -2.0], "nothing is shaded: states grow for every hλ", False),
        ([3.0, -3.0, 1.0], "nothing is shaded: states grow for every hλ", False),
    ],
)
def test_a_panel_says_shaded_where_something_is(vector, words, is_shaded):
    (panel,) = plot_stability_regions({"c": vector}).axes
    assert panel.texts[0].get_text() == words
    assert panel.images[0].get_array().any() == is_shaded


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stability_region([2.0, -0.5], [0.0], [0.0]), "sum to 1"),
        (lambda: stability_region([1.0], 0.5, [0.0]), r"real to be a vector of finite numbers, got shape \(\)"),
        (lambda: stability_region([1.0], [0.0], [np.nan]), "imaginary to be a vector of finite numbers"),
        (lambda: stability_region([1.0], ["a"], [0.0]), r"real to be a vector of numbers, got \['a'\]"),
        (lambda: stability_region([1.0], [0.0], [0.0], tolerance=2), "at least 0 and below 1, got 2"),
        (lambda: real_limit([1.0], tolerance=-1), "at least 0 and below 1, got -1"),
        (lambda: real_limit([]), "a vector"),
        (lambda: boundary([1.0], num_points=1), "num_points to be at least 2, got 1"),
        (lambda: plot_stability_regions({}), "at least one thing to draw"),
        (lambda: plot_stability_regions({"c": [1.0]}, num_points=0), "num_points to be at least 2, got 0"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
