"""Trainings on the nodes of one graph: the task, and the members that learn it.

A task, `Classification` or `Regression`, turns the outputs of networks into losses and scores. Outputs have one row per
member, and a mask says which nodes count for it. Both tasks average over these nodes; higher scores are better.
`TaskTraining` trains members on any task, `NodeTraining` on the classes and splits of a `NodeDataset`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tdegnn.data.nodes import NodeDataset
from tdegnn.graph import Graph
from tdegnn.sparse import SparseMatrix
from tdegnn.training.devices import Placement, choose_placement
from tdegnn.training.members import GroupedAdam, MembersTraining
from tdegnn.training.replay import Replayed


class NodeTask(ABC):
    """Computes losses and scores from the outputs of networks."""

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> NodeTask:
        """Return the task on another device, with its numbers in another type."""

    @abstractmethod
    def losses(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the loss of each member."""

    @abstractmethod
    def scores(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the score of each member. NaN if no node counts."""


class Classification(NodeTask):
    """Classes: the loss is cross-entropy, the score accuracy.

    Args:
        labels: The class of each node, from 0 on. A node of unknown class must be in no mask.
        class_weights: How much a node of each class counts in the loss. If None, all count the same.
    """

    def __init__(self, labels: Int[Tensor, " nodes"], class_weights: Float[Tensor, " classes"] | None = None) -> None:
        self._labels, self._class_weights = labels, class_weights
        self._known = labels.clamp(min=0)  # unknown classes never count, but -1 cannot be an index

    def to(self, device: torch.device, dtype: torch.dtype) -> Classification:
        """Return the task on another device, with its weights in another type."""
        weights = self._class_weights
        return Classification(self._labels.to(device), None if weights is None else weights.to(device, dtype))

    def losses(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the mean cross-entropy, weighted by class if there are weights."""
        labels = self._known[None, :, None].expand(len(outputs), -1, 1)
        likelihood = torch.log_softmax(outputs, dim=-1).gather(-1, labels)[..., 0]
        counts = mask if self._class_weights is None else mask * self._class_weights[self._known]
        return -(likelihood * counts).sum(dim=1) / counts.sum(dim=1)

    def scores(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the share of nodes whose class is right."""
        is_right = outputs.argmax(dim=-1) == self._labels
        # Whole numbers would be divided in the default type of the process.
        return (is_right & mask).sum(dim=1).float() / mask.sum(dim=1).float()


class Regression(NodeTask):
    """Numbers: the loss is the mean squared error, the score minus that.

    Args:
        targets: The numbers of each node. A node with an unknown number (NaN) must be in no mask.
    """

    def __init__(self, targets: Float[Tensor, "nodes targets"]) -> None:
        self._targets = targets.nan_to_num()  # a mask would not remove NaN: NaN times zero is NaN

    def to(self, device: torch.device, dtype: torch.dtype) -> Regression:
        """Return the task on another device, with its numbers in another type."""
        return Regression(self._targets.to(device, dtype))

    def losses(
        self, outputs: Float[Tensor, "members nodes targets"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the mean squared error."""
        errors = (outputs - self._targets).square().mean(dim=-1)
        return (errors * mask).sum(dim=1) / mask.sum(dim=1)

    def scores(
        self, outputs: Float[Tensor, "members nodes targets"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return minus the mean squared error."""
        return -self.losses(outputs, mask)


@dataclass(frozen=True)
class NodeSubsets:
    """Which nodes each member is trained, validated and tested on."""

    training: Bool[np.ndarray, "members nodes"]
    validation: Bool[np.ndarray, "members nodes"]
    test: Bool[np.ndarray, "members nodes"]


class TaskTraining(MembersTraining):
    """Members that work on one task at the nodes of one graph.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        inputs: The inputs of the networks: features and graph.
        task: Computes losses and scores.
        subsets: Which nodes each member is trained, validated and tested on.
        placement: Where to compute. Default: on the CPU.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        inputs: tuple[SparseMatrix | Float[Tensor, "nodes features"], Graph],
        task: NodeTask,
        subsets: NodeSubsets,
        placement: Placement | None = None,
    ) -> None:
        placement = placement or choose_placement("cpu")
        device, dtype = placement.device, placement.dtype
        super().__init__(networks, descents, placement)
        self._inputs: tuple[Any, ...] = inputs
        self._task = task.to(device, dtype)
        self._training, self._validation, self._test = (
            torch.as_tensor(mask, device=device) for mask in (subsets.training, subsets.validation, subsets.test)
        )
        self.best_scores, self.best_test_scores, self._scores, self._test_scores = (
            torch.zeros(len(networks), dtype=dtype, device=device) for _ in range(4)
        )
        self._step = Replayed(self._train, device)
        self._look = Replayed(self._measure, device)

    def step(self) -> None:
        """Make one step for each active member."""
        self._step()

    def validate(self) -> Float[Tensor, " members"]:
        """Return the scores on the validation nodes. NaN for a member whose outputs are not finite."""
        self._look()
        return self._scores.clone()

    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Keep the weights, and the scores that go with them."""
        super().keep(is_better)
        self.best_scores = torch.where(is_better, self._scores, self.best_scores)
        self.best_test_scores = torch.where(is_better, self._test_scores, self.best_test_scores)

    def _numbers_to_resume(self) -> dict[str, Tensor]:
        return {"best_scores": self.best_scores, "best_test_scores": self.best_test_scores}

    def _train(self) -> None:
        self._losses.copy_(self.members.step(self._training_losses, *self._inputs))

    def _training_losses(self, outputs: Float[Tensor, "members nodes outputs"]) -> Float[Tensor, " members"]:
        return self._task.losses(outputs, self._training)

    def _measure(self) -> None:
        outputs = self.members.evaluate(*self._inputs)
        is_finite = outputs.isfinite().flatten(1).all(dim=1)
        self._scores.copy_(torch.where(is_finite, self._task.scores(outputs, self._validation), torch.nan))
        self._test_scores.copy_(self._task.scores(outputs, self._test))


class NodeTraining(TaskTraining):
    """Members that classify the nodes of one dataset.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        dataset: The nodes.
        splits: Which split each member is trained, validated and tested on.
        placement: Where to compute. Default: on the CPU.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        dataset: NodeDataset,
        splits: Sequence[int],
        placement: Placement | None = None,
    ) -> None:
        placement = placement or choose_placement("cpu")
        rows = np.asarray(splits)
        masks = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        super().__init__(
            networks,
            descents,
            (as_input(dataset, placement), dataset.graph),
            Classification(torch.as_tensor(dataset.labels)),
            NodeSubsets(*(mask[rows] for mask in masks)),
            placement,
        )

    @property
    def validation_accuracy(self) -> Float[Tensor, " members"]:
        """The highest accuracy on the validation nodes."""
        return self.best_scores

    @property
    def test_accuracy(self) -> Float[Tensor, " members"]:
        """The accuracy on the test nodes at the step that validation chose."""
        return self.best_test_scores


def as_input(dataset: NodeDataset, placement: Placement) -> SparseMatrix | Float[Tensor, "nodes features"]:
    """Return features as networks take them, in the precision of the placement. Sparse ones stay sparse."""
    if isinstance(dataset.features, np.ndarray):
        return torch.as_tensor(dataset.features, dtype=placement.dtype, device=placement.device)
    return SparseMatrix.from_scipy(dataset.features).to(placement.device, placement.dtype)
