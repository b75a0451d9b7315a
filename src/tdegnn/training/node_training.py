"""Trainings on the nodes of one graph: the task, and the members that learn it.

A task, `Classification` or `Regression`, turns the outputs of networks into losses and scores. Outputs have one row per
member, and a mask says which nodes count for it. Both tasks average over these nodes; higher scores are better.
`TaskTraining` trains members on any task, `NodeTraining` on the classes and splits of a `NodeDataset`.
`TrainingRegime` has the settings that the trainings of all networks for nodes share.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import check_choice, check_count
from tdegnn.graph import Direction, Graph
from tdegnn.sparse import SparseMatrix
from tdegnn.training.devices import Placement, choose_placement
from tdegnn.training.members import OPTIMIZERS, GroupedAdam, MembersTraining, OptimizerName
from tdegnn.training.replay import Replayed
from tdegnn.training_nodes import TrainingNodes

# What the score of classes may be, and by which measure on the validation nodes a step is chosen.
ClassScore = Literal["accuracy", "roc-auc"]
SelectBy = Literal["auto", "accuracy", "roc-auc", "loss"]


@dataclass(frozen=True, kw_only=True)
class TrainingRegime:
    """What the configurations of all networks for nodes have: how the nodes are prepared, and how training goes.

    Attributes:
        num_steps: Maximum number of optimizer steps.
        patience: Steps without improvement on validation after which training ends. If None, it ends after `num_steps`.
        optimizer: `"adam"`, with weight decay in the gradient, or `"adamw"`, with weight decay apart from it.
        select_by: Whether the step is chosen by the `"accuracy"`, the `"roc-auc"` (two classes) or the `"loss"` on
            validation. `"auto"` chooses by the accuracy, and by the loss among steps of equal accuracy.
        direction: Whose states a node receives, see `Graph`. If None, that of the dataset.
        self_loops: Whether nodes also receive from themselves.
        normalized_features: Whether the features of each node are scaled to sum to one.
    """

    num_steps: int = 300
    patience: int | None = None
    optimizer: OptimizerName = "adam"
    select_by: SelectBy = "accuracy"
    direction: Direction | None = None
    self_loops: bool = False
    normalized_features: bool = False

    def __post_init__(self) -> None:
        check_choice(get_args(OptimizerName), optimizer=self.optimizer)
        check_choice(get_args(SelectBy), select_by=self.select_by)
        if self.direction is not None:
            check_choice(get_args(Direction), direction=self.direction)
        if self.patience is not None:
            check_count(patience=self.patience)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The settings that configurations must share to be trained in one batch."""
        return tuple(getattr(self, each.name) for each in fields(TrainingRegime))

    @property
    def optimizer_kind(self) -> type[GroupedAdam]:
        """The class of the optimizer."""
        return OPTIMIZERS[self.optimizer]

    def prepare(self, dataset: NodeDataset) -> NodeDataset:
        """Return the dataset with the graph and the features that this configuration asks for."""
        if self.direction is not None:
            dataset = dataset.with_direction(self.direction)
        if self.normalized_features:
            dataset = dataset.with_normalized_features()
        dataset = self._join_features(dataset)
        return replace(dataset, graph=dataset.graph.with_self_loops()) if self.self_loops else dataset

    def _join_features(self, dataset: NodeDataset) -> NodeDataset:
        """Return the dataset with more features. The graph has no added self-loops yet."""
        return dataset


class NodeTask(ABC):
    """Computes losses and scores from the outputs of networks."""

    @abstractmethod
    def targets(self, num_outputs: int) -> Float[np.ndarray, "nodes outputs"]:
        """Return what the outputs of each node should be: one-hot classes, or numbers. Unknown ones are any numbers."""

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> NodeTask:
        """Return the task on another device, with its numbers in another type."""

    @abstractmethod
    def at(self, nodes: Int[Tensor, " some"]) -> NodeTask:
        """Return the task at some of the nodes."""

    @abstractmethod
    def sums(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the sum of the losses of the nodes that count, of each member."""

    @abstractmethod
    def weights(self, mask: Bool[Tensor, "members nodes"]) -> Float[Tensor, " members"] | Int[Tensor, " members"]:
        """Return how much these nodes count together, by which their sum is divided."""

    def losses(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the loss of each member, a mean."""
        return self.sums(outputs, mask) / self.weights(mask)

    @abstractmethod
    def scores(
        self, outputs: Float[Tensor, "members nodes outputs"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the score of each member. NaN if no node counts."""


class Classification(NodeTask):
    """Classes: the loss is cross-entropy, the score accuracy, or the area under the ROC curve of two classes.

    Args:
        labels: The class of each node, from 0 on. A node of unknown class must be in no mask.
        class_weights: How much a node of each class counts in the loss. If None, all count the same.
        score: `"accuracy"` or `"roc-auc"`. Default: `"accuracy"`.
    """

    def __init__(
        self,
        labels: Int[Tensor, " nodes"],
        class_weights: Float[Tensor, " classes"] | None = None,
        score: ClassScore = "accuracy",
    ) -> None:
        self._labels, self._class_weights, self._score = labels, class_weights, score
        self._known = labels.clamp(min=0)  # unknown classes never count, but -1 cannot be an index

    def to(self, device: torch.device, dtype: torch.dtype) -> Classification:
        """Return the task on another device, with its weights in another type."""
        weights = self._class_weights
        weights = None if weights is None else weights.to(device, dtype)
        return Classification(self._labels.to(device), weights, self._score)

    def targets(self, num_outputs: int) -> Float[np.ndarray, "nodes outputs"]:
        """Return one-hot classes."""
        return np.asarray(np.eye(num_outputs)[self._known.cpu().numpy()])

    def at(self, nodes: Int[Tensor, " some"]) -> Classification:
        """Return the task at some of the nodes."""
        return Classification(self._labels[nodes], self._class_weights, self._score)

    def sums(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the sum of cross-entropies, weighted by class if there are weights."""
        labels = self._known[None, :, None].expand(len(outputs), -1, 1)
        likelihood = torch.log_softmax(outputs, dim=-1).gather(-1, labels)[..., 0]
        return -(likelihood * self._counts(mask)).sum(dim=1)

    def weights(self, mask: Bool[Tensor, "members nodes"]) -> Float[Tensor, " members"] | Int[Tensor, " members"]:
        """Return the number of nodes, weighted by class if there are weights."""
        return self._counts(mask).sum(dim=1)

    def _counts(self, mask: Bool[Tensor, "members nodes"]) -> Shaped[Tensor, "members nodes"]:
        return mask if self._class_weights is None else mask * self._class_weights[self._known]

    def scores(
        self, outputs: Float[Tensor, "members nodes classes"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the share of nodes whose class is right, or the area under the ROC curve."""
        if self._score == "roc-auc":
            return areas_under_roc(outputs[..., 1] - outputs[..., 0], self._labels == 1, mask)
        is_right = outputs.argmax(dim=-1) == self._labels
        # Whole numbers would be divided in the default type of the process.
        return (is_right & mask).sum(dim=1).float() / mask.sum(dim=1).float()


def areas_under_roc(
    scores: Float[Tensor, "members nodes"], is_positive: Bool[Tensor, " nodes"], mask: Bool[Tensor, "members nodes"]
) -> Float[Tensor, " members"]:
    """Return how often a positive node has a higher score than a negative one, of each member, in float64.

    A tie counts one half. NaN if there is no positive or no negative node. Computed from ranks, without a loop and
    without reading a number back, so that a training on a device can be recorded.

    Args:
        scores: The higher, the more likely positive.
        is_positive: The nodes of the positive class.
        mask: The nodes that count for each member.
    """
    # Nodes that do not count come last: they change no rank of the others.
    ordered = scores.masked_fill(~mask, torch.inf).sort(dim=1).values
    low, high = (torch.searchsorted(ordered, scores.contiguous(), right=right) for right in (False, True))
    num_positive, num_all = (mask & is_positive).sum(dim=1).double(), mask.sum(dim=1).double()
    # The mean of the ranks that equal scores share, from 1 on.
    ranks = (low + high + 1).double() / 2
    sums = torch.where(mask & is_positive, ranks, 0.0).sum(dim=1)
    return (sums - num_positive * (num_positive + 1) / 2) / (num_positive * (num_all - num_positive))


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

    def targets(self, num_outputs: int) -> Float[np.ndarray, "nodes outputs"]:  # noqa: ARG002 (it has as many)
        """Return the numbers."""
        return np.asarray(self._targets.double().cpu().numpy())

    def at(self, nodes: Int[Tensor, " some"]) -> Regression:
        """Return the task at some of the nodes."""
        return Regression(self._targets[nodes])

    def sums(
        self, outputs: Float[Tensor, "members nodes targets"], mask: Bool[Tensor, "members nodes"]
    ) -> Float[Tensor, " members"]:
        """Return the sum of squared errors, each the mean over the targets of a node."""
        errors = (outputs - self._targets).square().mean(dim=-1)
        return (errors * mask).sum(dim=1)

    def weights(self, mask: Bool[Tensor, "members nodes"]) -> Int[Tensor, " members"]:
        """Return the number of nodes."""
        return mask.sum(dim=1)

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
        select_by: Whether the step is chosen by the score of the task, or by the `"loss"`, on the validation nodes.
            `"auto"`: by the score, and by the loss among equal scores. The score at that step is reported in all cases.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        inputs: tuple[SparseMatrix | Float[Tensor, "nodes features"], Graph] | tuple[()],
        task: NodeTask,
        subsets: NodeSubsets,
        placement: Placement | None = None,
        select_by: SelectBy = "accuracy",
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
        self._select_by = select_by
        # Minus the losses on validation, if they are needed.
        self._negative_losses = torch.zeros_like(self._scores) if select_by in ("auto", "loss") else None
        # A recording would keep what segments are there to forget.
        self._step = None if self.members.has_segments else Replayed(self._train, device)
        self._look = Replayed(self._measure, device)

    def step(self) -> None:
        """Make one step for each active member."""
        if self._step is None:
            self._train()
        else:
            self._step()

    def measure(self) -> None:
        """Measure the scores of all members."""
        self._look()

    def validate(self) -> Float[Tensor, " members"]:
        """Return the scores on the validation nodes, or minus the losses. NaN if the outputs are not finite."""
        self.measure()
        chosen_by = self._negative_losses if self._select_by == "loss" else self._scores
        assert chosen_by is not None
        return chosen_by.clone()

    def tie_breaks(self) -> Float[Tensor, " members"] | None:
        """Return minus the losses on the validation nodes, if they decide between equal scores."""
        return None if self._select_by != "auto" or self._negative_losses is None else self._negative_losses.clone()

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

    def _evaluate(self) -> Float[Tensor, "members nodes outputs"]:
        return self.members.evaluate(*self._inputs)

    def _measure(self) -> None:
        outputs = self._evaluate()
        is_finite = outputs.isfinite().flatten(1).all(dim=1)
        self._scores.copy_(torch.where(is_finite, self._task.scores(outputs, self._validation), torch.nan))
        self._test_scores.copy_(self._task.scores(outputs, self._test))
        if self._negative_losses is not None:
            losses = self._task.losses(outputs, self._validation)
            self._negative_losses.copy_(torch.where(is_finite, -losses, torch.nan))


class NodeTraining(TaskTraining):
    """Members that classify the nodes of one dataset.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        dataset: The nodes.
        splits: Which split each member is trained, validated and tested on.
        placement: Where to compute. Default: on the CPU.
        select_by: Whether the step is chosen by the accuracy, by the area under the ROC curve (which is then the score
            that is reported), or by the loss on validation. `"auto"`: by the accuracy, then by the loss.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        dataset: NodeDataset,
        splits: Sequence[int],
        placement: Placement | None = None,
        select_by: SelectBy = "accuracy",
    ) -> None:
        placement = placement or choose_placement("cpu")
        rows = np.asarray(splits)
        masks = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
        subsets = NodeSubsets(*(mask[rows] for mask in masks))
        score: ClassScore = "roc-auc" if select_by == "roc-auc" else "accuracy"
        task = Classification(torch.as_tensor(dataset.labels), score=score)
        super().__init__(
            show_training_nodes(networks, dataset, task, subsets),
            descents,
            (as_input(dataset, placement), dataset.graph),
            task,
            subsets,
            placement,
            select_by,
        )

    @property
    def validation_accuracy(self) -> Float[Tensor, " members"]:
        """The score on the validation nodes, usually the accuracy, at the step that validation chose."""
        return self.best_scores

    @property
    def test_accuracy(self) -> Float[Tensor, " members"]:
        """The score on the test nodes, usually the accuracy, at the step that validation chose."""
        return self.best_test_scores


def show_training_nodes(
    networks: Sequence[nn.Module], dataset: NodeDataset, task: NodeTask, subsets: NodeSubsets
) -> list[nn.Module]:
    """Return the networks, as copies that have seen the nodes if a part wants to see them (`SeesTrainingNodes`).

    Args:
        networks: The members of a training, with their weights drawn.
        dataset: The nodes, prepared.
        task: Knows the targets.
        subsets: Which nodes each member is trained on. It sees the targets of these only.
    """
    seen: list[nn.Module] = []
    for network, mask in zip(networks, subsets.training, strict=True):
        shown: Any = network
        if getattr(network, "sees_training_nodes", False):
            shown = copy.deepcopy(network)  # the same network may be given for several members
            shown.see_training_nodes(as_seen(dataset, task, mask, shown.num_outputs))
        seen.append(shown)
    return seen


def as_seen(dataset: NodeDataset, task: NodeTask, mask: Bool[np.ndarray, " nodes"], num_outputs: int) -> TrainingNodes:
    """Return the nodes as a member sees them that is trained on those of the mask."""
    targets = np.where(mask[:, None], task.targets(num_outputs), 0.0)
    features = dataset.features[:] if isinstance(dataset.features, MappedFeatures) else dataset.features
    return TrainingNodes(features, dataset.graph, targets, mask)


def as_input(dataset: NodeDataset, placement: Placement) -> SparseMatrix | Float[Tensor, "nodes features"]:
    """Return features as networks take them, in the precision of the placement. Sparse ones stay sparse."""
    features = dataset.features[:] if isinstance(dataset.features, MappedFeatures) else dataset.features
    if isinstance(features, np.ndarray):
        return torch.as_tensor(features, dtype=placement.dtype, device=placement.device)
    return SparseMatrix.from_scipy(features).to(placement.device, placement.dtype)
