"""`NodeRegressor`: numbers at nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import RegressorMixin

from tdegnn.errors import InputError
from tdegnn.nodes.estimator import NodeEstimator, Outputs, PreparedNodes
from tdegnn.nodes.inputs import NodeInput, as_targets, choose_parts, counted_nodes, labels_to_score
from tdegnn.training.node_training import Regression


@dataclass(kw_only=True, repr=False, eq=False)
class NodeRegressor(RegressorMixin, NodeEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Predict numbers at the nodes of a graph.

    Targets are centered and scaled by the training nodes for the network, so that any unit will do. Validation scores
    are minus the mean squared error in units of that variance.

    Attributes:
        coefficients_: The learned c, layers x order.
        summary_: Best step, validation and test score at it.
        history_: Step, loss and score of each look at validation.
    """

    def predict(self, X: Any = None, *, graph: Any = None) -> Float[np.ndarray, " nodes"] | Outputs:  # noqa: N803
        """The numbers of each node, in the shape of those that were learned."""
        numbers: Outputs = self._outputs(X, graph) * self._scale + self._center
        return numbers[:, 0] if self._is_vector else numbers

    def score(self, X: Any = None, y: Any = None, *, graph: Any = None, nodes: Any = None) -> float:  # noqa: N803
        """R squared, the mean over targets: 1 is perfect, 0 as good as the mean. Arguments as in `NodeClassifier`."""
        predicted = self.predict(X, graph=graph)
        targets = as_targets(labels_to_score(X, y), len(predicted))
        if targets.size != predicted.size:
            raise InputError(
                f"Expected {predicted.size // len(predicted)} numbers a node, as were learned, got {targets.shape[1]}."
            )
        counts = counted_nodes(np.isfinite(targets).all(axis=1), nodes)
        errors = np.square(predicted.reshape(targets.shape) - targets)[counts].sum(axis=0)
        spread = np.square(targets[counts] - targets[counts].mean(axis=0)).sum(axis=0)
        return float(np.mean(1 - errors / np.where(spread > 0, spread, 1.0)))

    def _make_task(self, given: NodeInput, labels: Any, split: int, parts: tuple[Any, Any, Any]) -> PreparedNodes:
        targets = as_targets(labels, given.nodes.num_nodes)
        masks = choose_parts(given, np.isfinite(targets).all(axis=1), split, parts, self.seed, None)
        center, spread = targets[masks[0]].mean(axis=0), targets[masks[0]].std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        task = Regression(torch.as_tensor((targets - center) / scale, dtype=torch.float32))
        is_vector = np.ndim(labels) == 1
        learned = {"center": center.tolist(), "scale": scale.tolist(), "is_vector": is_vector}
        return PreparedNodes(given.nodes, task, targets.shape[1], masks, targets, learned)

    def _take_learned(self, learned: dict[str, Any]) -> None:
        self._center, self._scale = np.array(learned["center"]), np.array(learned["scale"])
        self._is_vector = bool(learned["is_vector"])
