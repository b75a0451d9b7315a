"""Training of node networks, many at once: each member has its split, its weights and its way to descend.

The loss is cross-entropy on the training nodes, the score accuracy on the validation nodes. Test accuracy is written
down at the step that validation chooses, and chooses nothing. On a CUDA device steps are recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.data.nodes import NodeDataset
from tdegnn.sparse import SparseMatrix
from tdegnn.training.fit import Trainee
from tdegnn.training.members import GroupedAdam, Members, keep_where
from tdegnn.training.replay import Replayed

UNKNOWN = -1


class NodeTraining(Trainee):
    """Members that classify the nodes of one dataset.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        dataset: The nodes.
        splits: Which split each member is trained, validated and tested on.
        device: Where to train.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        dataset: NodeDataset,
        splits: Sequence[int],
        device: torch.device | None = None,
    ) -> None:
        device = device or torch.device("cpu")
        self.members = Members(networks, descents, device)
        self._inputs = (as_input(dataset, device), dataset.graph)
        self._labels = torch.as_tensor(dataset.labels, device=device)
        rows = np.asarray(splits)
        self._training, self._validation, self._test = (
            torch.as_tensor(masks[rows], device=device)
            for masks in (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        )
        self._best_weights = self.members.weights.clone()
        self._best_buffers = {name: buffer.clone() for name, buffer in self.members.buffers.items()}
        self.validation_accuracy = torch.zeros(len(networks), device=device)
        self.test_accuracy = torch.zeros(len(networks), device=device)
        self._scores, self._test_scores = torch.zeros_like(self.test_accuracy), torch.zeros_like(self.test_accuracy)
        self.losses = torch.zeros_like(self.test_accuracy)
        self._step = Replayed(self._train, device)
        self._look = Replayed(self._measure, device)

    def step(self) -> None:
        """Make one step for each active member."""
        self._step()

    def validate(self) -> Float[Tensor, " members"]:
        """Accuracy on the validation nodes; NaN for a member whose scores are not finite."""
        self._look()
        return self._scores.clone()

    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Keep the weights, and the accuracies that go with them."""
        self._best_weights = keep_where(is_better, self.members.weights, self._best_weights)
        self._best_buffers = {
            name: keep_where(is_better, buffer, self._best_buffers[name])
            for name, buffer in self.members.buffers.items()
        }
        self.validation_accuracy = torch.where(is_better, self._scores, self.validation_accuracy)
        self.test_accuracy = torch.where(is_better, self._test_scores, self.test_accuracy)

    def stop(self, is_finished: Bool[Tensor, " members"]) -> None:
        """Leave these members as they are."""
        # In place: recorded steps read this very tensor.
        self.members.is_active.copy_(~is_finished)

    def restore(self) -> None:
        """Give each member the weights that were kept."""
        self.members.weights.copy_(self._best_weights)
        for name, buffer in self.members.buffers.items():
            buffer.copy_(self._best_buffers[name])

    def _train(self) -> None:
        self.losses.copy_(self.members.step(self._cross_entropy, *self._inputs))

    def _measure(self) -> None:
        scores = self.members.evaluate(*self._inputs)
        is_right = scores.argmax(dim=-1) == self._labels
        is_finite = scores.isfinite().flatten(1).all(dim=1)
        accuracy = _share(is_right, self._validation)
        self._scores.copy_(torch.where(is_finite, accuracy, torch.nan))
        self._test_scores.copy_(_share(is_right, self._test))

    def _cross_entropy(self, scores: Float[Tensor, "members nodes classes"]) -> Float[Tensor, " members"]:
        labels = self._labels.clamp(min=0)[None, :, None].expand(len(scores), -1, 1)
        likelihood = torch.log_softmax(scores, dim=-1).gather(-1, labels)[..., 0]
        return -(likelihood * self._training).sum(dim=1) / self._training.sum(dim=1)


def as_input(dataset: NodeDataset, device: torch.device) -> SparseMatrix | Float[Tensor, "nodes features"]:
    """Features as networks take them: sparse ones stay sparse."""
    if isinstance(dataset.features, np.ndarray):
        return torch.as_tensor(dataset.features, device=device)
    return SparseMatrix.from_scipy(dataset.features).to(device, torch.float32)


def _share(is_right: Bool[Tensor, "members nodes"], mask: Bool[Tensor, "members nodes"]) -> Float[Tensor, " members"]:
    return (is_right & mask).sum(dim=1) / mask.sum(dim=1)
