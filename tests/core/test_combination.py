"""Small states are stacked and large ones are not: both ways must give the same sums, scores and gradients."""

import pytest
import torch

from tdegnn import AttentionCoefficients, DirectCoefficients
from tdegnn.core import combination

ORDER, NODES, CHANNELS = 4, 5, 3


def results(rule, history):
    """The sum, c, and all gradients of a number made of both."""
    leaves = [state.detach().clone().requires_grad_() for state in history]
    rule.zero_grad()
    total, c = rule.combine(tuple(leaves), 0)
    weights = torch.linspace(-1.0, 2.0, c.numel(), dtype=torch.float64).view(c.shape)
    ((total**2).sum() + (weights * c).sum()).backward()
    return [total, c, *(leaf.grad for leaf in leaves), *(parameter.grad for parameter in rule.parameters())]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("make", [lambda: DirectCoefficients(ORDER), lambda: AttentionCoefficients(ORDER, CHANNELS)])
def test_both_ways_agree(monkeypatch, make, batch):
    torch.manual_seed(0)
    rule = make().double()
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    history = [torch.randn(*batch, NODES, CHANNELS, dtype=torch.float64) for _ in range(ORDER)]
    stacked = results(rule, history)
    monkeypatch.setattr(combination, "SMALL_STATE", {})
    for one, other in zip(stacked, results(rule, history), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("limit", [{}, combination.SMALL_STATE])
def test_members_get_what_they_get_alone(monkeypatch, limit):
    monkeypatch.setattr(combination, "SMALL_STATE", limit)
    torch.manual_seed(0)
    rule = AttentionCoefficients(ORDER, CHANNELS).double()
    members = [torch.randn(6, NODES, CHANNELS, dtype=torch.float64) for _ in range(ORDER)]

    def loss(*history):
        total, c = rule.combine(history, 0)
        return (total**2).sum() + c[1]

    together = torch.func.vmap(torch.func.grad(loss, argnums=(0, 2)))(*members)
    for member in range(6):
        alone = torch.func.grad(loss, argnums=(0, 2))(*(state[member] for state in members))
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one[member], other)
