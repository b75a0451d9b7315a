"""Sums over a history by one kernel each are those of torch."""

import pytest
import torch

from tdegnn import AttentionCoefficients
from tdegnn.core import combination

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CUDA = torch.device("cuda")


def both_ways(monkeypatch, function):
    """Results with kernels and without."""
    ours = function()
    with monkeypatch.context() as patch:
        patch.setattr(combination, "runs_kernels", lambda tensor: False)
        return zip(ours, function(), strict=True)


@pytest.mark.parametrize(("order", "batch"), [(2, ()), (3, (5,)), (4, (2, 3)), (8, (2,)), (9, ())])
@pytest.mark.parametrize("shares_weights", [False, True])
def test_a_weighted_sum_and_its_gradient_are_those_of_torch(monkeypatch, order, batch, shares_weights):
    history = [torch.randn(*batch, 431, 17, device=CUDA, requires_grad=True) for _ in range(order)]
    weights = torch.randn(order, *([] if shares_weights else batch), device=CUDA, requires_grad=True)

    def results():
        total = combination.weighted_sum(weights, tuple(history))
        return (total, *torch.autograd.grad(total.square().mean(), [weights, *history]))

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [2, 4, 8])
# The last one makes more sums of blocks than one tile holds.
@pytest.mark.parametrize("shape", [(500, 17), (3, 500, 17), (2, 3, 500, 17), (3000, 64), (70_000, 32)])
def test_attention_and_its_gradient_are_those_of_torch(monkeypatch, order, shape):
    rule = AttentionCoefficients(order, shape[-1]).to(CUDA)
    history = [torch.randn(shape, device=CUDA, requires_grad=True) for _ in range(order)]

    def results():
        total, c = rule.combine(tuple(history), 0)
        return (total, c, *torch.autograd.grad(total.square().mean() + c[1].sum(), [*history, *rule.parameters()]))

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.detach().abs().max()))


def test_members_attend_each_by_its_own_map(monkeypatch):
    scores = torch.randn(5, 9, 9, device=CUDA, requires_grad=True)
    history = [torch.randn(5, 3, 40, 8, device=CUDA, requires_grad=True) for _ in range(4)]

    def results():
        total, c = torch.func.vmap(lambda score, *states: combination.attend(score, states))(scores, *history)
        return (total, c, *torch.autograd.grad(total.square().mean() + c.square().sum(), [scores, *history]))

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.detach().abs().max()))


def test_second_derivatives_of_attention_are_those_of_torch(monkeypatch):
    rule = AttentionCoefficients(3, 8).to(CUDA)
    history = [torch.randn(40, 8, device=CUDA, requires_grad=True) for _ in range(3)]

    def results():
        total, _ = rule.combine(tuple(history), 0)
        (slope,) = torch.autograd.grad(total.pow(3).mean(), rule.query.weight, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [*history, *rule.parameters()])

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.detach().abs().max()))


def test_second_derivatives_are_those_of_torch(monkeypatch):
    history = [torch.randn(40, 8, device=CUDA, requires_grad=True) for _ in range(3)]
    weights = torch.randn(3, device=CUDA, requires_grad=True)

    def results():
        total = combination.weighted_sum(weights, tuple(history))
        (slope,) = torch.autograd.grad(total.pow(3).sum(), weights, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [weights, *history])

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.detach().abs().max()))
