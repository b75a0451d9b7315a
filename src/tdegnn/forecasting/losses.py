"""What a forecast pays for being wrong: squared, absolute, Huber's, or quantile losses of scaled residuals.

`LOSSES` lists them by name; a new one is a class and a line in this file. The forecast that pays least on average is
the mean for squared losses, the median for absolute ones, and a quantile for quantile losses. Huber's is between mean
and median: outliers pull less.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError, check_finite
from tdegnn.parts import Family


class Loss(nn.Module, ABC):
    """The loss of residuals, one by one."""

    @abstractmethod
    def forward(self, residuals: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the loss of each residual, observed minus forecast, in standard deviations of its node."""


class SquaredLoss(Loss):
    """`r^2`."""

    def forward(self, residuals: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the squares."""
        return residuals.square()


class AbsoluteLoss(Loss):
    """`|r|`."""

    def forward(self, residuals: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the absolute values."""
        return residuals.abs()


class HuberLoss(Loss):
    """`r^2 / 2` up to `|r| = delta`, and beyond it the tangent `delta (|r| - delta / 2)` (Huber, 1964).

    Args:
        delta: Where the square ends, in standard deviations of a node. Default: 0.1.
    """

    def __init__(self, delta: float = 0.1) -> None:
        super().__init__()
        check_finite(delta=delta)
        if delta <= 0:
            raise InputError(f"Expected a positive delta, got {delta}.")
        self.delta = delta

    def forward(self, residuals: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the losses."""
        absolute = residuals.abs()
        inside = absolute.clamp(max=self.delta)
        return inside * (absolute - 0.5 * inside)


class QuantileLoss(Loss):
    """`max(level r, (level - 1) r)`, the pinball loss: forecasts become quantiles of this level.

    Args:
        level: Share of the observations that should be below the forecast, between 0 and 1. Default: 0.5.
    """

    def __init__(self, level: float = 0.5) -> None:
        super().__init__()
        check_finite(level=level)
        if not 0 < level < 1:
            raise InputError(f"Expected a level between 0 and 1, got {level}. 0.9 stands for 90 %.")
        self.level = level

    def forward(self, residuals: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the losses."""
        return torch.maximum(self.level * residuals, (self.level - 1) * residuals)


LOSSES = Family(
    "loss",
    Loss,
    {"squared": SquaredLoss, "absolute": AbsoluteLoss, "huber": HuberLoss, "quantile": QuantileLoss},
)
