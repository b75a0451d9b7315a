"""`NodeClassifier`: classes of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from sklearn.base import ClassifierMixin
from torch import Tensor

from tdegnn.errors import Argument, InputError, Message
from tdegnn.nodes.baselines import Outputs
from tdegnn.nodes.estimator import NodeEstimator
from tdegnn.nodes.fitted import Question
from tdegnn.nodes.inputs import (
    NodeInput,
    as_vector,
    choose_subsets,
    counted_nodes,
    encode_classes,
    labels_to_score,
    mean_over,
)
from tdegnn.parts import PartLike
from tdegnn.training.node_training import Classification, ClassScore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ClassWeight = Literal["balanced"] | Mapping[Any, float]


@dataclass(kw_only=True, repr=False, eq=False)
class NodeClassifier(ClassifierMixin, NodeEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Classify the nodes of a graph.

    Example:
        >>> model = NodeClassifier(num_layers=4, order=2, num_steps=100)  # doctest: +SKIP
        >>> model.fit(features, labels, graph=adjacency).predict()  # doctest: +SKIP

    Attributes:
        class_weight: How much a node of each class counts in the loss: a mapping, in which missing classes count 1, or
            `"balanced"`, so that all classes count the same in total. If None, all nodes count the same.
    """

    class_weight: ClassWeight | None = None
    _LEARNED: ClassVar[str] = "classes"

    @property
    def classes_(self) -> Shaped[np.ndarray, " classes"]:
        """The classes, in the order of `predict_proba`."""
        return as_vector(self._checked().learned["classes"])

    def predict_proba(self, X: Any = None, *, graph: Any = None) -> Outputs:  # noqa: N803
        """Return the probability of each class, one row per node. If `X` is None, for the nodes of `fit`."""
        probabilities = torch.softmax(torch.as_tensor(self._outputs(X, graph)), dim=-1)
        return np.asarray(probabilities.numpy())

    def predict(self, X: Any = None, *, graph: Any = None) -> Shaped[np.ndarray, " nodes"]:  # noqa: N803
        """Return the likeliest class of each node, of the training or of any graph with the same features."""
        likeliest = self._outputs(X, graph).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Any = None,
        nodes: Any = None,
    ) -> float:
        """Return the share of nodes whose class is right, of those whose label is known, also if there are two classes.

        Args:
            X: As in `predict`.
            y: The classes. If None, those that come with `X`.
            sample_weight: How much each node counts. If None, all count the same.
            graph: As in `predict`.
            nodes: Which nodes count, a mask or numbers. If None, all with a label.
        """
        predicted = self.predict(X, graph=graph)
        codes, classes = encode_classes(labels_to_score(X, y), len(predicted))
        counts = counted_nodes(codes >= 0, nodes)
        return float(mean_over(predicted[counts] == classes[codes[counts]], counts, sample_weight))

    def plot(self, X: Any = None, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Figure:  # noqa: N803
        """Draw which classes are taken for which, and whether the probabilities are as high as the share that is right.

        The arguments are those of `score`: name the test nodes in `nodes`, or the nodes of the training are drawn too.
        """
        from tdegnn.nodes.plots import plot_classes

        probabilities, own = self.predict_proba(X, graph=graph), self.classes_.tolist()
        codes, classes = encode_classes(labels_to_score(X, y), len(probabilities))
        counts = counted_nodes(codes >= 0, nodes)
        unknown = [name for name in classes[np.unique(codes[counts])].tolist() if name not in own]
        if unknown:
            raise InputError(f"Expected classes of the training, such as {own[0]!r}, got {unknown[0]!r}. Leave it out.")
        places = np.array([own.index(name) if name in own else -1 for name in classes.tolist()], dtype=np.int64)
        return plot_classes([str(name) for name in own], places[codes[counts]], probabilities[counts])

    def _ask(self, given: NodeInput, labels: Any, split: int, subsets: tuple[Any, Any, Any]) -> Question:
        codes, classes = encode_classes(labels, given.nodes.num_nodes)
        masks = choose_subsets(given, codes >= 0, split, subsets, self.seed, codes)
        weights = self._class_weights(classes, codes[masks[0]])
        score = self._score_of(len(classes), len(np.unique(codes[masks[1]])))
        task = Classification(torch.as_tensor(codes), weights, score)
        names = classes.tolist()
        notes = tuple(self._notes_of_score([str(name) for name in names], *(codes[mask] for mask in masks[1:])))
        return Question(task, score, len(classes), masks, codes, {"classes": names}, notes)

    def _score_of(self, num_classes: int, num_validated: int) -> ClassScore:
        """Return by what the network is judged, given the number of classes, and of those on validation."""
        can_be_area = num_classes == num_validated == 2
        if self.select_by == "roc-auc" and not can_be_area:
            came = f"{num_classes} classes" if num_classes > 2 else "one class on validation"
            expected = f"Expected two classes, both on validation, for ROC-AUC, got {came}. Use "
            raise InputError(expected, Argument("select_by", "accuracy"), ".")
        return "roc-auc" if can_be_area and self.select_by != "accuracy" else "accuracy"

    def _notes_of_score(
        self,
        names: Sequence[str],
        validated: Int64[np.ndarray, " validation"],
        tested: Int64[np.ndarray, " test"],
    ) -> Iterator[str]:
        """Yield why there is no ROC-AUC, if there are two classes and all nodes of validation or test are of one."""
        if len(names) != 2 or self.select_by == "accuracy":
            return
        if len(np.unique(validated)) == 1:
            yield (
                f"All validation nodes are of class {names[validated[0]]!r}, so the score is the accuracy, not "
                "ROC-AUC. Choose validation nodes of both classes."
            )
        elif len(np.unique(tested)) == 1:
            yield Message(
                f"All test nodes are of class {names[tested[0]]!r}, so there is no ROC-AUC on them. Choose test "
                "nodes of both classes, or pass ",
                Argument("select_by", "accuracy"),
                ".",
            )

    def _class_weights(
        self, classes: Shaped[np.ndarray, " classes"], codes: Int64[np.ndarray, " training"]
    ) -> Float[Tensor, " classes"] | None:
        if self.class_weight is None:
            return None
        counts = np.bincount(codes, minlength=len(classes))
        if self.class_weight == "balanced":
            # A class without training nodes weighs nothing anywhere.
            return torch.as_tensor(len(codes) / (len(classes) * counts.clip(min=1)))
        if not isinstance(self.class_weight, Mapping):
            raise InputError(f"Expected class_weight to be 'balanced' or a mapping, got {self.class_weight!r}.")
        unknown = [name for name in self.class_weight if name not in classes.tolist()]
        if unknown:
            raise InputError(f"Expected weights of classes such as {classes[0]!r}, got one of {unknown[0]!r}.")
        known = [float(self.class_weight.get(name, 1.0)) for name in classes.tolist()]
        weights = torch.tensor(known, dtype=torch.float64)
        if not (weights.isfinite().all() and (weights >= 0).all() and weights[codes].sum() > 0):
            raise InputError("Expected class weights that are not negative, at least one above 0, got others.")
        return weights

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        if isinstance(self.class_weight, Mapping):
            # Pairs: the keys of a JSON object are text, those of a mapping need not be.
            settings["class_weight"] = [[name, float(weight)] for name, weight in self.class_weight.items()]
        return settings

    @classmethod
    def _settings_of(cls, record: Mapping[str, Any], own: Mapping[str, PartLike]) -> dict[str, Any]:
        settings = super()._settings_of(record, own)
        weight = settings["class_weight"]
        return settings | {"class_weight": dict(weight) if isinstance(weight, list) else weight}
