import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.analysis.stencil import (
    apply_stencil,
    backward_difference_stencil,
    derivative_coefficients,
    sine_consistency,
    taylor_weights,
)


def test_taylor_weights_are_what_the_residual_of_a_polynomial_holds():
    random = np.random.default_rng(0)
    for order in range(1, 7):
        c = random.standard_normal(order)
        c[0] += 1 - c.sum()
        polynomial = np.poly1d(random.standard_normal(order + 1))
        step, times = 0.1, np.arange(20) * 0.1
        derivatives = [polynomial.deriv(j)(times[order - 1 : -1]) * step**j for j in range(1, order + 1)]
        expected = np.tensordot(taylor_weights(c), derivatives, axes=1)
        np.testing.assert_allclose(apply_stencil(c, polynomial(times)), expected, atol=1e-9)


def test_leading_weight_is_the_leading_derivative_coefficient():
    for order in range(1, 7):
        c = backward_difference_stencil(order)
        np.testing.assert_allclose(taylor_weights(c)[order - 1], derivative_coefficients(c)[order - 1], atol=1e-9)
        np.testing.assert_allclose(taylor_weights(c)[: order - 1], 0, atol=1e-9)


def test_second_difference_of_a_sine_is_its_second_derivative():
    result = sine_consistency([2, -1])
    assert result.second_derivative_share == pytest.approx(1.0)
    np.testing.assert_allclose(result.residual, result.second_derivative, atol=1e-12)
    # and in size: h^2 y''
    assert np.abs(result.residual).max() == pytest.approx((2 * np.pi / 64) ** 2, rel=1e-2)


def test_euler_measures_the_first_derivative_and_the_printed_vectors_the_second():
    assert sine_consistency([1.0]).second_derivative_share < 0.01
    for printed in ([1.4, 0.2, -0.6], [0.975, 0.675, -0.25, -0.4], [-0.08, 1.68, 0.153, 0.006, -0.759]):
        assert sine_consistency(printed).second_derivative_share > 0.99


def test_a_signal_shorter_than_the_history_is_refused():
    with pytest.raises(InputError, match="longer than the history of 3, got 3"):
        apply_stencil([1.4, 0.2, -0.6], np.zeros(3))
