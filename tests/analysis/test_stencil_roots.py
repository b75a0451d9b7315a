import numpy as np
import pytest

from tdegnn.analysis.stencil import backward_difference_stencil, characteristic_roots, satisfies_root_condition
from tests.golden import CASES


@pytest.mark.parametrize("case", CASES["analysis"], ids=lambda case: str(case["coefficients"]))
def test_root_moduli_agree_with_golden_cases(case):
    moduli = np.abs(characteristic_roots(case["coefficients"]))
    # All multiple roots here are at 1, which is divided out exactly.
    np.testing.assert_allclose(moduli, case["root_moduli"], rtol=0, atol=1e-9)


def test_roots_of_a_random_vector_are_those_of_numpy():
    random = np.random.default_rng(0)
    for order in range(2, 9):
        c = random.standard_normal(order)
        c[0] += 1 - c.sum()
        expected = np.roots([1, *-c])
        np.testing.assert_allclose(np.sort(np.abs(characteristic_roots(c))), np.sort(np.abs(expected)), rtol=1e-6)


@pytest.mark.parametrize(
    ("coefficients", "tolerance", "is_stable"),
    [
        ([1.0], 1e-3, True),
        ([2.0, -1.0], 1e-3, True),
        ([1.4, 0.2, -0.6], 1e-3, True),
        ([0.975, 0.675, -0.25, -0.4], 1e-3, False),
        ([0.975, 0.675, -0.25, -0.4], 0.02, True),
        ([-0.08, 1.68, 0.153, 0.006, -0.759], 1e-3, False),
        ([-0.08, 1.68, 0.153, 0.006, -0.759], 0.02, False),
        ([0.0, 1.0], 1e-3, True),  # roots 1 and -1, both simple
        ([-1.0, 1.0, 1.0], 1e-3, False),  # -1 is a double root
        ([1.97, -0.97], 1e-3, True),
        ([1.0, 0.0, 0.0], 1e-3, True),
    ],
)
def test_root_condition(coefficients, tolerance, is_stable):
    assert satisfies_root_condition(coefficients, tolerance) is is_stable


def test_pure_differences_of_any_order_are_allowed():
    for order in range(1, 9):
        assert satisfies_root_condition(backward_difference_stencil(order))


def test_stable_vectors_stay_bounded_and_unstable_ones_do_not():
    random = np.random.default_rng(1)
    for _ in range(200):
        c = random.uniform(-1, 1, 4)
        c[0] += 1 - c.sum()
        largest = np.abs(characteristic_roots(c)).max()
        if 1 - 1e-2 < largest < 1 + 1e-2 and largest != 1.0:
            continue  # too close to call in a few hundred steps
        states = list(random.standard_normal(4))
        for _ in range(600):
            states.insert(0, float(np.dot(c, states[:4])))
        assert satisfies_root_condition(c) == (abs(states[0]) < 1e3)
