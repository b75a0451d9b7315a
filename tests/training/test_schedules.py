import numpy as np
import pytest
import torch

from tdegnn.training.members import GroupDescent, GroupedAdam, GroupedAdamW, Members
from tdegnn.training.schedules import SCHEDULES


@pytest.mark.parametrize(
    ("name", "shares", "factors"),
    [
        ("constant", [0.0, 0.5, 1.0], [1.0, 1.0, 1.0]),
        ("cosine", [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]),
        ("one-cycle", [0.0, 0.05, 0.1, 0.55, 1.0], [0.04, 0.52, 1.0, 0.5, 0.0]),
    ],
)
def test_schedules_are_factors_of_learning_rates(name, shares, factors):
    np.testing.assert_allclose([SCHEDULES[name](share) for share in shares], factors, atol=1e-12)


@pytest.mark.parametrize("kind", [GroupedAdam, GroupedAdamW])
def test_a_factor_scales_the_change_of_a_step(kind):
    changes = []
    for factor in (1.0, 0.25):
        torch.manual_seed(0)
        network = torch.nn.Linear(3, 2)
        descent = kind(*[GroupDescent(0.1, 0.5)] * 3)
        members = Members([network], [descent])
        before = members.weights.clone()
        members.scale_rates(factor)
        members.step(lambda outputs: outputs.square().flatten(1).sum(dim=1), torch.ones(4, 3))
        changes.append(members.weights - before)
    torch.testing.assert_close(changes[1], 0.25 * changes[0])
