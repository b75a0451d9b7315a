"""The ridge: its equation, least squares, batches."""

import pytest
import torch

from tdegnn.errors import InputError
from tdegnn.ridge import LARGE, solve_refined_ridge, solve_ridge

INPUTS = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TARGETS = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("penalty", [0.0, 0.1, 100.0])
def test_the_gradient_of_the_penalized_error_is_zero(penalty):
    weights = solve_ridge(INPUTS.T @ INPUTS, INPUTS.T @ TARGETS, penalty)
    gradient = INPUTS.T @ (INPUTS @ weights - TARGETS) + penalty * weights
    assert gradient.abs().max() < 1e-12


def test_least_squares_of_repeated_inputs_is_the_shortest_solution():
    twice = torch.cat([INPUTS, INPUTS], dim=1)
    weights = solve_ridge(twice.T @ twice, twice.T @ TARGETS, 0.0)
    torch.testing.assert_close(weights, torch.linalg.pinv(twice) @ TARGETS, rtol=0, atol=1e-10)


def test_inputs_that_are_always_zero_have_no_weight():
    gram, products = torch.zeros(2, 3, 3), torch.zeros(2, 3, 1)
    assert not solve_ridge(gram, products, 0.0).any()
    assert not solve_ridge(gram, products, 1.0).any()


def test_a_batch_is_solved_one_by_one():
    grams = torch.stack([INPUTS[:10].T @ INPUTS[:10], INPUTS[10:].T @ INPUTS[10:]])
    products = torch.stack([INPUTS[:10].T @ TARGETS[:10], INPUTS[10:].T @ TARGETS[10:]])
    for group in range(2):
        alone = solve_ridge(grams[group], products[group], 1.0)
        torch.testing.assert_close(solve_ridge(grams, products, 1.0)[group], alone)


def test_large_systems_are_solved_as_small_ones_are():
    diagonal = torch.linspace(1, 2, LARGE, dtype=torch.float64)
    solved = solve_ridge(torch.diag(diagonal), diagonal[:, None], 1.0)
    torch.testing.assert_close(solved[:, 0], diagonal / (diagonal + 1))


@pytest.mark.parametrize("penalty", [-1.0, float("inf"), float("nan")])
def test_penalties_that_are_none_are_refused(penalty):
    with pytest.raises(InputError, match="Expected a penalty that is finite and not negative"):
        solve_ridge(torch.eye(1), torch.eye(1), penalty)


@pytest.mark.parametrize(("num_inputs", "penalty"), [(300, 0.1), (300, 1e-9), (20, 0.1)])
def test_float32_with_a_refinement_is_as_good_as_float64(num_inputs, penalty):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(num_inputs, num_inputs + 5, dtype=torch.float64, generator=generator)
    products = torch.randn(num_inputs, 2, dtype=torch.float64, generator=generator)
    gram = (rows @ rows.T / num_inputs).float()
    expected = solve_ridge(gram.double(), products, penalty)
    found = solve_refined_ridge(gram, products, penalty)
    torch.testing.assert_close(gram.double() @ found, gram.double() @ expected, atol=1e-7, rtol=0)
    assert found.dtype == torch.float64
    assert torch.equal(solve_refined_ridge(gram.double(), products, penalty), expected)
    with pytest.raises(InputError, match="penalty that is finite and not negative, got nan"):
        solve_refined_ridge(gram, products, float("nan"))
