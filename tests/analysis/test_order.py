import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.analysis.order import explained_share, find_dynamics_order
from tdegnn.analysis.stencil import (
    backward_difference_stencil,
    derivative_coefficients,
    expand_in_stencils,
    root_multiplicity,
)
from tests.golden import CASES


def ids(case):
    return str(case["coefficients"])


@pytest.mark.parametrize("case", CASES["analysis"], ids=ids)
def test_derivative_coefficients_agree_with_golden_cases(case):
    came = derivative_coefficients(case["coefficients"])
    np.testing.assert_allclose(came, case["derivative_coefficients"], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("coefficients", "multiplicity"),
    [
        ([1], 1),
        ([2, -1], 2),
        ([3, -3, 1], 3),
        ([4, -6, 4, -1], 4),
        ([1.4, 0.2, -0.6], 2),
        ([1.97, -0.97], 1),
        ([0, 1], 1),
    ],
)
def test_multiplicity_of_the_root_one(coefficients, multiplicity):
    assert root_multiplicity(coefficients) == multiplicity


def test_a_looser_tolerance_sees_a_double_root_in_the_printed_order_four():
    printed = [0.975, 0.675, -0.25, -0.4]
    assert root_multiplicity(printed) == 1
    assert root_multiplicity(printed, tolerance=0.02) == 2


def test_stencils_are_the_backward_differences():
    assert backward_difference_stencil(1).tolist() == [1]
    assert backward_difference_stencil(3).tolist() == [3, -3, 1]
    for order in range(1, 8):
        signal = np.arange(30.0) ** (order - 1)
        stencil = backward_difference_stencil(order)
        windows = np.lib.stride_tricks.sliding_window_view(signal[:-1], order)[:, ::-1]
        np.testing.assert_allclose(signal[order:], windows @ stencil, rtol=1e-9)


def test_expansion_in_stencils_is_unique_and_sums_to_one():
    random = np.random.default_rng(0)
    for order in range(1, 9):
        c = random.standard_normal(order)
        c[0] += 1 - c.sum()
        weights = expand_in_stencils(c)
        again = sum(w * np.pad(backward_difference_stencil(j), (0, order - j)) for j, w in enumerate(weights, 1))
        np.testing.assert_allclose(again, c, atol=1e-9)
        np.testing.assert_allclose(weights.sum(), 1)


def test_explained_share_and_the_order_it_gives():
    differences = np.random.default_rng(0).standard_normal((5, 100))
    assert explained_share(0 * differences, differences) == 1.0
    assert explained_share(0.1 * differences, differences) == pytest.approx(0.99)
    assert find_dynamics_order({1: 0.007, 2: 0.999, 3: 0.98}) == 2
    assert find_dynamics_order({1: 0.5, 2: 0.7}) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: derivative_coefficients([2, -0.5]), "sum to 1, got .* with sum 1.5. Divide"),
        (lambda: derivative_coefficients([[1.0]]), r"a vector, got shape \(1, 1\)"),
        (lambda: derivative_coefficients([]), r"a vector, got shape \(0,\)"),
        (lambda: derivative_coefficients([np.inf, 1]), "finite coefficients"),
        (lambda: root_multiplicity([1.0], tolerance=-1.0), "at least 0 and below 1, got -1.0"),
        (lambda: backward_difference_stencil(0), "order to be at least 1, got 0"),
        (lambda: explained_share(np.zeros(3), np.zeros(4)), r"one shape, got \(3,\) and \(4,\)"),
        (lambda: explained_share(np.zeros(3), np.ones(3)), "constant ones"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("tolerance", [1e-3, 0.02])
@pytest.mark.parametrize("coefficients", [[1.0], [2.0, -1.0], [1.97, -0.97], [1.4, 0.2, -0.6], [3.0, -3.0, 1.0]])
def test_padding_with_zeros_makes_no_other_recursion(coefficients, tolerance):
    multiplicity = root_multiplicity(coefficients, tolerance)
    for length in range(len(coefficients), 65):
        assert root_multiplicity(np.pad(coefficients, (0, length - len(coefficients))), tolerance) == multiplicity
