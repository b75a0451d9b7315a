"""Nodes of one graph as samples, so that scikit-learn can cut them into folds.

Cross-validation cuts rows, but the nodes of a graph belong together: a node without its neighbors is another one. So a
row is the number of a node. Each fit sees the features and edges of all nodes, and the labels of the given rows only.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Int64, Shaped
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if

from tdegnn.data.nodes import NodeDataset
from tdegnn.errors import InputError
from tdegnn.graph import is_pyg_data
from tdegnn.not_fitted import NotFittedError


def _has_probabilities(wrapper: Transductive) -> bool:
    return hasattr(wrapper.estimator, "predict_proba")


class Transductive(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """An estimator of nodes whose samples are numbers of nodes.

    Pass the numbers of the nodes whose label is known as X, and their labels as y. No label of another node reaches a
    fit: to the estimator it is unknown. Features and edges of all nodes do, as when the nodes to predict are known.

    Example:
        >>> model = Transductive(NodeClassifier(), features, graph)  # doctest: +SKIP
        >>> search = GridSearchCV(model, {"estimator__order": [1, 2, 3]})  # doctest: +SKIP
        >>> search.fit(range(len(labels)), labels).best_params_  # doctest: +SKIP

    Args:
        estimator: A `NodeClassifier`, a `NodeRegressor`, or a pipeline that ends in one. The steps before it see the
            features of all nodes and no labels of other folds.
        features: A matrix or a frame of features, one row per node. It is shared with copies, not copied.
        graph: The graph of these nodes, in any form that the estimator takes.
    """

    def __init__(self, estimator: Any, features: Any, graph: Any) -> None:
        self.estimator, self.features, self.graph = estimator, features, graph

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 # scikit-learn's name
        """Train on the labels of some nodes.

        Args:
            X: Numbers of nodes, as a vector or as a column.
            y: Their labels, in the same order.
        """
        numbers = self._numbers(X)
        known = np.asarray(y)
        if known.ndim == 0 or len(known) != len(numbers):
            raise InputError(f"Expected one label for each of {len(numbers)} nodes, got shape {known.shape}.")
        is_number = is_regressor(self.estimator)
        labels = np.full((self._num_nodes, *known.shape[1:]), np.nan if is_number else None)
        labels[numbers] = known
        with config_context(enable_metadata_routing=True):
            self.estimator_ = clone(self.estimator).fit(self.features, labels, graph=self.graph)
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, "nodes ..."]:  # noqa: N803
        """Return what the estimator predicts for these nodes."""
        return self._of_nodes("predict", X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Shaped[np.ndarray, "nodes classes"]:  # noqa: N803
        """Return the probability of each class for these nodes."""
        return self._of_nodes("predict_proba", X)

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the share of these nodes whose class is right; for numbers, R squared."""
        measure = accuracy_score if is_classifier(self.estimator) else r2_score
        return float(measure(y, self.predict(X)))

    @property
    def classes_(self) -> Shaped[np.ndarray, " classes"]:
        """The classes of the nodes that were trained on."""
        classes: Shaped[np.ndarray, " classes"] = self._fitted().classes_
        return classes

    def _of_nodes(self, method: str, X: Any) -> Shaped[np.ndarray, "nodes ..."]:  # noqa: N803
        numbers, fitted = self._numbers(X), self._fitted()
        with config_context(enable_metadata_routing=True):
            predicted = getattr(fitted, method)(self.features, graph=self.graph)
        return np.asarray(predicted[numbers])

    def _fitted(self) -> Any:
        if not hasattr(self, "estimator_"):
            raise NotFittedError.of(self)
        return self.estimator_

    @property
    def _num_nodes(self) -> int:
        if isinstance(self.features, NodeDataset) or is_pyg_data(self.features):
            raise InputError(
                f"Expected features as a matrix or a frame, got a {type(self.features).__name__}. Pass its features "
                "and its graph."
            )
        shape = np.shape(self.features)
        if len(shape) != 2:
            raise InputError(f"Expected features of shape (nodes, features), got {shape}.")
        return int(shape[0])

    def _numbers(self, X: Any) -> Int64[np.ndarray, " samples"]:  # noqa: N803
        numbers, num_nodes = np.asarray(X), self._num_nodes
        numbers = numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
        is_whole = numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer)
        if not is_whole or (numbers.size and not 0 <= numbers.min() <= numbers.max() < num_nodes):
            raise InputError(
                f"Expected X to hold numbers of nodes, from 0 to {num_nodes - 1}, got {numbers.dtype} of shape "
                f"{numbers.shape}. Pass features to Transductive, and range({num_nodes}) here."
            )
        if len(np.unique(numbers)) < len(numbers):
            raise InputError("Expected each node once, got one several times. Leave out the others.")
        return numbers.astype(np.int64)

    def __sklearn_clone__(self) -> Transductive:
        # A search copies an estimator for each fold and candidate. It need not copy the data.
        return type(self)(clone(self.estimator), self.features, self.graph)

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.classifier_tags = inner.estimator_type, inner.classifier_tags
        tags.regressor_tags, tags.target_tags = inner.regressor_tags, inner.target_tags
        return tags
