import numpy as np
import pytest
import torch

from tdegnn.core.combination import RELATIVE_FLOOR, normalize_sum


def plain_rule(raw):
    """SPEC's guard, transcribed for one vector in plain NumPy."""
    total, floor = raw.sum(), RELATIVE_FLOOR * np.abs(raw).sum()
    if floor == 0:
        return np.eye(len(raw))[0]
    divisor = total if abs(total) >= floor else (-floor if total < 0 else floor)
    c = raw / divisor
    c[0] += 1 - c.sum()
    return c


def hard_vectors(count, order, seed):
    """Raw vectors of all kinds: plain, zero-sum, nearly so, tiny, huge, mixed sign, with zeros, all zero."""
    random = np.random.default_rng(seed)
    raw = random.standard_normal((order, count))
    kinds = random.integers(0, 6, count)
    raw[:, kinds == 1] -= raw[:, kinds == 1].mean(axis=0)
    raw[:, kinds == 2] -= raw[:, kinds == 2].mean(axis=0) * (1 - 1e-3)
    raw[:, kinds == 3] *= random.integers(0, 2, (order, (kinds == 3).sum()))
    raw[:, kinds == 4] = np.abs(raw[:, kinds == 4])
    raw[:, kinds == 5] = np.round(raw[:, kinds == 5])
    return raw * 10.0 ** random.uniform(-1, 1, count), random


@pytest.mark.parametrize(("dtype", "exponent", "tolerance"), [(torch.float64, 300, 1e-9), (torch.float32, 37, 1e-4)])
def test_guard_holds_for_100_000_hard_vectors(dtype, exponent, tolerance):
    raw, random = hard_vectors(100_000, 6, seed=0)
    raw = raw * 10.0 ** random.uniform(-exponent, exponent, raw.shape[1])
    vectors = torch.tensor(raw).to(dtype).requires_grad_()
    c = normalize_sum(vectors)
    assert torch.isfinite(c).all()
    assert (c.sum(dim=0) - 1).abs().max() <= tolerance
    (gradient,) = torch.autograd.grad(c, vectors, torch.randn_like(c))
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("order", [1, 2, 3, 8])
def test_every_order_from_the_smallest_to_the_largest_number(order):
    for dtype in (torch.float32, torch.float64):
        info = torch.finfo(dtype)
        for scale in (info.max / 4, 1.0, info.tiny, info.smallest_normal * info.eps, 0.0):
            raw = (torch.randn(order, dtype=dtype) * scale).clamp(-info.max, info.max).requires_grad_()
            c = normalize_sum(raw)
            (gradient,) = torch.autograd.grad(c.square().sum(), raw)
            assert torch.isfinite(c).all()
            assert torch.isfinite(gradient).all()
            assert abs(c.sum().item() - 1) < 1e-4


def test_guard_is_the_settled_rule():
    raw, _ = hard_vectors(2_000, 4, seed=1)
    # Where the sum is zero but for rounding, its sign is a matter of rounding too.
    has_a_sign = np.abs(raw.sum(axis=0)) > 1e-12 * np.abs(raw).sum(axis=0)
    raw = raw[:, has_a_sign | (raw == 0).all(axis=0)]
    assert raw.shape[1] > 1_500
    expected = np.stack([plain_rule(vector) for vector in raw.T], axis=1)
    np.testing.assert_allclose(normalize_sum(torch.tensor(raw)).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_zero_vector_is_euler():
    assert normalize_sum(torch.zeros(4)).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_scale_of_the_raw_vector_does_not_matter():
    raw = torch.tensor([1.7, -0.4, 0.25], dtype=torch.float64)
    for scale in (1e-200, 1e-3, 1e200):
        torch.testing.assert_close(normalize_sum(raw * scale), raw / raw.sum())


@pytest.mark.parametrize(
    "raw",
    [
        [1.7, -0.4, 0.25],
        [1.0, -1.0, 0.003],  # held
        [-1.0, 1.0, -0.003],  # held, negative
        [0.5, -2.0, 0.1],  # negative sum, not held
    ],
)
def test_gradient_is_right_on_both_sides_of_the_guard(raw):
    vector = torch.tensor(raw, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalize_sum, (vector,), eps=1e-8, atol=1e-4)
    assert torch.autograd.gradgradcheck(normalize_sum, (vector,), eps=1e-8, atol=1e-2, rtol=1e-3)
