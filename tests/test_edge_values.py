"""Values on edges: against dense matrices, in batches, under vmap, and their gradients."""

import numpy as np
import pytest
import scipy.sparse
import torch
from benchmarks.memory import saved_bytes

from tdegnn.edge_values import (
    edge_scores,
    edge_sums,
    rectified_sums,
    row_softmax,
    row_sums,
    spread_rows,
    weighted_product,
)
from tdegnn.sparse import SparseMatrix

ROWS, COLUMNS, CHANNELS = 7, 6, 3


def make_pattern(device="cpu"):
    """The fourth and the last row are empty."""
    matrix = scipy.sparse.random_array(
        (ROWS, COLUMNS), density=0.5, format="lil", random_state=np.random.default_rng(0)
    )
    matrix[[3, 6], :] = 0
    return SparseMatrix.from_scipy(matrix.tocsr()).to(torch.device(device), torch.float64)


def make_sums(device="cpu"):
    matrix = scipy.sparse.random_array((4, ROWS), density=0.6, random_state=np.random.default_rng(1))
    return SparseMatrix.from_scipy(matrix.tocsr()).to(torch.device(device), torch.float64)


def draw(*shape, device="cpu"):
    return torch.randn(*shape, dtype=torch.float64, device=device, requires_grad=True)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_products_equal_those_of_dense_matrices(batch, device):
    pattern = make_pattern(device)
    rows, columns = pattern.rows, pattern.columns
    left, right = draw(*batch, ROWS, CHANNELS, device=device), draw(*batch, COLUMNS, CHANNELS, device=device)
    values, shared = draw(*batch, len(columns), device=device), draw(len(columns), device=device)
    torch.testing.assert_close(edge_scores(pattern, left, right), (left @ right.mT)[..., rows, columns])
    added = left[..., 0].unsqueeze(-1) + right[..., 0].unsqueeze(-2)
    torch.testing.assert_close(edge_sums(pattern, left[..., 0], right[..., 0]), added[..., rows, columns])
    for each in (values, shared):
        dense = each.new_zeros(*each.shape[:-1], ROWS, COLUMNS)
        dense[..., rows, columns] = each.detach()
        torch.testing.assert_close(weighted_product(pattern, each, right), dense @ right)
        torch.testing.assert_close(row_sums(pattern, each), dense.sum(-1))
        expected = torch.softmax(torch.where(dense != 0, dense, -torch.inf), dim=-1)[..., rows, columns]
        torch.testing.assert_close(row_softmax(pattern, each), expected)
    torch.testing.assert_close(spread_rows(pattern, left[..., 0]), left[..., rows, 0])
    sums = make_sums(device)
    expected = sums.to_dense() @ torch.relu(pattern.to_dense() @ right)
    torch.testing.assert_close(rectified_sums(pattern, sums, right), expected)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_are_those_of_small_differences(batch):
    pattern = make_pattern()
    left, right = draw(*batch, ROWS, CHANNELS), draw(*batch, COLUMNS, CHANNELS)
    values, shared = draw(*batch, len(pattern.columns)), draw(len(pattern.columns))
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda a, b: edge_scores(pattern, a, b), (left, right))
        assert check(lambda a, b: weighted_product(pattern, a, b), (values, right))
        assert check(lambda a, b: weighted_product(pattern, a, b), (shared, right))
        assert check(lambda a: row_softmax(pattern, a), (values,))
        assert check(lambda a: rectified_sums(pattern, make_sums(), a), (right,))


def test_members_under_vmap_answer_as_alone(device):
    pattern = make_pattern(device)

    def attend(queries, keys, state):
        weights = row_softmax(pattern, edge_scores(pattern, state @ queries, state[:COLUMNS] @ keys))
        return weighted_product(pattern, weights, state[:COLUMNS]).square().sum()

    def multiply(values, state):
        return weighted_product(pattern, values, state).square().sum()

    maps = draw(4, CHANNELS, CHANNELS, device=device), draw(4, CHANNELS, CHANNELS, device=device)
    values, states = draw(len(pattern.columns), device=device), draw(4, 2, COLUMNS, CHANNELS, device=device)

    def rectify(state):
        return rectified_sums(pattern, make_sums(device), state).square().sum()

    for function, inputs, axes in (
        (rectify, (states,), (0,)),
        (rectify, (states[:, 0],), (0,)),
        (attend, (*maps, draw(ROWS, CHANNELS, device=device)), (0, 0, None)),
        (multiply, (values, states), (None, 0)),
        (multiply, (values, states[:, 0]), (None, 0)),
    ):
        gradient = torch.func.grad(function, argnums=tuple(range(len(inputs))))
        together = torch.func.vmap(gradient, in_dims=axes)(*inputs)
        for member in range(4):
            given = [each if axis is None else each[member] for each, axis in zip(inputs, axes, strict=True)]
            for one, alone in zip(together, gradient(*given), strict=True):
                torch.testing.assert_close(one[member], alone)


def test_large_scores_give_finite_weights():
    pattern = make_pattern()
    weights = row_softmax(pattern, torch.linspace(-1e4, 1e4, len(pattern.columns), dtype=torch.float64))
    assert weights.isfinite().all()
    assert set(row_sums(pattern, weights).round(decimals=9).tolist()) == {0.0, 1.0}


def test_a_rectified_sum_keeps_one_byte_per_edge_and_channel():
    pattern, sums, state = make_pattern(), make_sums(), draw(COLUMNS, CHANNELS)
    assert saved_bytes(lambda: rectified_sums(pattern, sums, state), kept=[state]) == ROWS * CHANNELS
