"""`NodeRegressor`: numbers at nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from tdegnn.errors import InputError
from tdegnn.nodes.baselines import Outputs
from tdegnn.nodes.estimator import NodeEstimator
from tdegnn.nodes.fitted import Question
from tdegnn.nodes.inputs import NodeInput, as_targets, choose_subsets, counted_nodes, labels_to_score, mean_over
from tdegnn.training.node_training import Regression


@dataclass(kw_only=True, repr=False, eq=False)
class NodeRegressor(RegressorMixin, NodeEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Predict numbers at the nodes of a graph.

    The network sees targets that are centered and scaled by the training nodes, so that they may have any unit.
    Validation scores are minus the mean squared error in units of that variance.
    """

    _LEARNED: ClassVar[str] = "scale"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any = None, *, graph: Any = None) -> Float[np.ndarray, " nodes"] | Outputs:  # noqa: N803
        """Return the numbers of each node, in the shape of those that were learned."""
        outputs, learned = self._outputs(X, graph), self.fitted_.learned
        numbers: Outputs = outputs * np.array(learned["scale"]) + np.array(learned["center"])
        return numbers[:, 0] if learned["is_vector"] else numbers

    def score(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Any = None,
        nodes: Any = None,
    ) -> float:
        """Return R squared, the mean over targets: 1 is perfect, 0 is as good as the mean.

        The arguments are those of `NodeClassifier.score`.
        """
        predicted = self.predict(X, graph=graph)
        targets = as_targets(labels_to_score(X, y), len(predicted))
        if targets.size != predicted.size:
            raise InputError(
                f"Expected {predicted.size // len(predicted)} numbers per node, as learned, got {targets.shape[1]}."
            )
        counts = counted_nodes(np.isfinite(targets).all(axis=1), nodes)
        errors = mean_over(np.square(predicted.reshape(targets.shape) - targets)[counts], counts, sample_weight)
        centered = targets[counts] - mean_over(targets[counts], counts, sample_weight)
        spread = mean_over(np.square(centered), counts, sample_weight)
        return float(np.mean(1 - errors / np.where(spread > 0, spread, 1.0)))

    def _ask(self, given: NodeInput, labels: Any, split: int, subsets: tuple[Any, Any, Any]) -> Question:
        if self.select_by == "roc-auc":
            raise InputError(
                "Expected select_by to be 'auto' or 'loss' for numbers, got 'roc-auc', which is of classes."
            )
        targets = as_targets(labels, given.nodes.num_nodes)
        masks = choose_subsets(given, np.isfinite(targets).all(axis=1), split, subsets, self.seed, None)
        center, spread = targets[masks[0]].mean(axis=0), targets[masks[0]].std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        task = Regression(torch.as_tensor((targets - center) / scale))
        learned = {"center": center.tolist(), "scale": scale.tolist(), "is_vector": np.asarray(labels).ndim == 1}
        return Question(task, "squared error", targets.shape[1], masks, targets, learned)
