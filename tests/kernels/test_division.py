"""One kernel divides scores by their sum as 25 operations of torch do, and so does the way back."""

import pytest
import torch

from tdegnn import AttentionCoefficients
from tdegnn.core import combination

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CUDA = torch.device("cuda")


@pytest.fixture
def in_torch(monkeypatch):
    """Return a function that calls another one without kernels."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(combination, "runs_kernels", lambda tensor: False)
            return function(*arguments)

    return call


def make_scores(order: int, members: tuple[int, ...]) -> torch.Tensor:
    """Scores of which some are infinite, not a number, all zero, or sum to nearly zero."""
    scores = torch.randn(order, *members, device=CUDA)
    if members and order > 1:
        flat = scores.view(order, -1)
        # Not zero to rounding: then its sign, and that of c, would depend on the order of summation.
        flat[:, 0] = torch.linspace(-1, 1.01, order)
        flat[0, 1], flat[-1, 2], flat[:, 3] = torch.inf, torch.nan, 0.0
        flat[:, 4] *= 1e-35
        flat[:, 5] *= 1e30
    return scores


@pytest.mark.parametrize(("order", "members"), [(1, (8,)), (2, (7,)), (4, ()), (5, (40,)), (8, (3, 50))])
def test_division_and_its_gradient_are_those_of_torch(in_torch, order, members):
    scores = make_scores(order, members)
    ours, plain = combination.divide(scores), in_torch(combination.divide, scores)
    for one, other in zip((*ours[:2], *ours[2]), (*plain[:2], *plain[2]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    gradient = torch.randn_like(scores)
    with torch.no_grad():
        back, plain_back = combination.pull_back(ours[2], gradient), in_torch(combination.pull_back, plain[2], gradient)
    torch.testing.assert_close(back, plain_back, rtol=1e-4, atol=1e-5 * float(plain_back.abs().max()))


def test_attention_is_the_same(in_torch):
    rule = AttentionCoefficients(4, 16).to(CUDA)
    history = [torch.randn(30, 16, device=CUDA, requires_grad=True) for _ in range(4)]

    def results():
        total, c = rule.combine(tuple(history), 0)
        return (total, c, *torch.autograd.grad(total.square().sum() + c[1], [*history, *rule.parameters()]))

    for one, other in zip(results(), in_torch(results), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
