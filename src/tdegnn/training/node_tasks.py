"""What is asked about a node: its class, or numbers. A task turns the outputs of networks into losses and scores.

Outputs have one row a member; a mask says which nodes count for it. Both tasks average over these nodes, and a score is
higher where it is better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class NodeTask(ABC):
    """What the outputs of networks are measured by."""

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> NodeTask:
        """The same task on another device, its numbers in another type."""

    @abstractmethod
    def losses(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """What each member descends."""

    @abstractmethod
    def scores(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """How good each member is; NaN where no node counts."""


class Classification(NodeTask):
    """Classes: the loss is cross-entropy, the score accuracy.

    Args:
        labels: The class of each node, from 0 on; a node whose class is not known must be in no mask.
        class_weights: How much a node of each class counts in the loss; without them all count the same.
    """

    def __init__(self, labels: Int[Tensor, " nodes"], class_weights: Float[Tensor, " classes"] | None = None) -> None:
        self._labels, self._class_weights = labels, class_weights
        self._known = labels.clamp(min=0)  # unknown ones count nowhere, but cannot be an index

    def to(self, device: torch.device, dtype: torch.dtype) -> Classification:
        """The same task on another device, its weights in another type."""
        weights = self._class_weights
        return Classification(self._labels.to(device), None if weights is None else weights.to(device, dtype))

    def losses(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Mean cross-entropy, weighted by class where there are weights."""
        labels = self._known[None, :, None].expand(len(outputs), -1, 1)
        likelihood = torch.log_softmax(outputs, dim=-1).gather(-1, labels)[..., 0]
        counts = mask if self._class_weights is None else mask * self._class_weights[self._known]
        return -(likelihood * counts).sum(dim=1) / counts.sum(dim=1)

    def scores(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Share of nodes whose class is right."""
        is_right = outputs.argmax(dim=-1) == self._labels
        return (is_right & mask).sum(dim=1) / mask.sum(dim=1)


class Regression(NodeTask):
    """Numbers: the loss is the mean squared error, the score minus that.

    Args:
        targets: The numbers of each node; a node with one that is not known (NaN) must be in no mask.
    """

    def __init__(self, targets: Float[Tensor, "nodes targets"]) -> None:
        self._targets = targets.nan_to_num()  # a NaN would come through a mask: NaN times zero is NaN

    def to(self, device: torch.device, dtype: torch.dtype) -> Regression:
        """The same task on another device, its numbers in another type."""
        return Regression(self._targets.to(device, dtype))

    def losses(
        self, outputs: Float[Tensor, "members nodes targets"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Mean squared error."""
        errors = (outputs - self._targets).square().mean(dim=-1)
        return (errors * mask).sum(dim=1) / mask.sum(dim=1)

    def scores(
        self, outputs: Float[Tensor, "members nodes targets"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Minus the mean squared error."""
        return -self.losses(outputs, mask)
