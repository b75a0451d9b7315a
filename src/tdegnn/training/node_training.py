"""Training of node networks, many at once: each member has its split, its weights and its way to descend.

What is descended on the training nodes, and scored on the validation nodes, is the task's to say. The score on the test
nodes is written down at the step that validation chooses, and chooses nothing. Steps are recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from tdegnn.data.nodes import NodeDataset
from tdegnn.graph import Graph
from tdegnn.sparse import SparseMatrix
from tdegnn.training.fabric import make_fabric, weight_type
from tdegnn.training.members import GroupedAdam
from tdegnn.training.members_training import MembersTraining
from tdegnn.training.node_tasks import Classification, NodeTask
from tdegnn.training.replay import Replayed


@dataclass(frozen=True)
class NodeParts:
    """Which nodes each member is trained, validated and tested on."""

    training: Bool[np.ndarray, "members nodes"]
    validation: Bool[np.ndarray, "members nodes"]
    test: Bool[np.ndarray, "members nodes"]


class TaskTraining(MembersTraining):
    """Members that work on one task at the nodes of one graph.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        inputs: What the networks get: features and graph.
        task: What is asked about the nodes.
        parts: Which nodes each member is trained, validated and tested on.
        fabric: What to compute with; the CPU without it.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        inputs: tuple[SparseMatrix | Float[Tensor, "nodes features"], Graph],
        task: NodeTask,
        parts: NodeParts,
        fabric: Fabric | None = None,
    ) -> None:
        fabric = fabric or make_fabric("cpu")
        device, dtype = fabric.device, weight_type(fabric)
        super().__init__(networks, descents, fabric)
        self._inputs: tuple[Any, ...] = inputs
        self._task = task.to(device, dtype)
        self._training, self._validation, self._test = (
            torch.as_tensor(mask, device=device) for mask in (parts.training, parts.validation, parts.test)
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
        """The scores on the validation nodes; NaN for a member whose outputs are not finite."""
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
        fabric: What to compute with; the CPU without it.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        dataset: NodeDataset,
        splits: Sequence[int],
        fabric: Fabric | None = None,
    ) -> None:
        fabric = fabric or make_fabric("cpu")
        rows = np.asarray(splits)
        masks = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        super().__init__(
            networks,
            descents,
            (as_input(dataset, fabric), dataset.graph),
            Classification(torch.as_tensor(dataset.labels)),
            NodeParts(*(mask[rows] for mask in masks)),
            fabric,
        )

    @property
    def validation_accuracy(self) -> Float[Tensor, " members"]:
        """The highest accuracy on the validation nodes."""
        return self.best_scores

    @property
    def test_accuracy(self) -> Float[Tensor, " members"]:
        """The accuracy on the test nodes at the step that validation chose."""
        return self.best_test_scores


def as_input(dataset: NodeDataset, fabric: Fabric) -> SparseMatrix | Float[Tensor, "nodes features"]:
    """Features as networks take them: sparse ones stay sparse."""
    if isinstance(dataset.features, np.ndarray):
        return torch.as_tensor(dataset.features, dtype=weight_type(fabric), device=fabric.device)
    return SparseMatrix.from_scipy(dataset.features).to(fabric.device, weight_type(fabric))
