"""Optimizers as values, which an experiment can choose from and write to its records.

They train one network with an optimizer of torch. Members are trained by `GroupedAdam` (`training/members.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import nn
from torch.optim import LBFGS, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler


@runtime_checkable
class Descent(Protocol):
    """Makes an optimizer, and a schedule if it needs one."""

    def build(self, parameters: Iterable[nn.Parameter], num_steps: int) -> tuple[Optimizer, LRScheduler | None]:
        """Return the optimizer and its schedule for a training of `num_steps` steps."""


@dataclass(frozen=True)
class CosineAdam:
    """Adam whose learning rate falls to zero along a cosine."""

    learning_rate: float

    def build(self, parameters: Iterable[nn.Parameter], num_steps: int) -> tuple[Optimizer, LRScheduler | None]:
        """Return Adam and its schedule."""
        optimizer = Adam(parameters, lr=self.learning_rate)
        return optimizer, CosineAnnealingLR(optimizer, num_steps)


@dataclass(frozen=True)
class QuasiNewton:
    """L-BFGS with a line search, for small problems in float64 that need precision."""

    iterations_per_step: int = 20
    history_size: int = 50

    def build(
        self,
        parameters: Iterable[nn.Parameter],
        num_steps: int,  # noqa: ARG002 (the line search needs no schedule)
    ) -> tuple[Optimizer, LRScheduler | None]:
        """Return L-BFGS, which has no schedule."""
        optimizer = LBFGS(
            parameters,
            max_iter=self.iterations_per_step,
            history_size=self.history_size,
            tolerance_grad=1e-14,
            tolerance_change=1e-16,
            line_search_fn="strong_wolfe",
        )
        return optimizer, None


@dataclass(frozen=True)
class VariableProjection(QuasiNewton):
    """L-BFGS over the weights in which a network is not linear. The others are solved in closed form at each step.

    `nets/projection.py` says how. A ridge on what is solved keeps hidden channels from canceling each other.
    """

    ridge: float = 1e-8
