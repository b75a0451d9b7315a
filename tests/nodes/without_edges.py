"""Node estimators that need no graph, for scikit-learn's own checks: these pass features and labels only."""

from dataclasses import dataclass

import numpy as np

from tdegnn import Graph, NodeClassifier, NodeRegressor


def without_edges(X, graph):
    if graph is None and X is not None:
        num_nodes = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return Graph(np.zeros((2, 0), dtype=np.int64), num_nodes)
    return graph


@dataclass(kw_only=True, repr=False, eq=False)
class LoneClassifier(NodeClassifier):
    def fit(self, X, y=None, *, graph=None):
        return super().fit(X, y, graph=without_edges(X, graph))

    def predict_proba(self, X=None, *, graph=None):
        return super().predict_proba(X, graph=without_edges(X, graph))

    def predict(self, X=None, *, graph=None):
        return super().predict(X, graph=without_edges(X, graph))


@dataclass(kw_only=True, repr=False, eq=False)
class LoneRegressor(NodeRegressor):
    def fit(self, X, y=None, *, graph=None):
        return super().fit(X, y, graph=without_edges(X, graph))

    def predict(self, X=None, *, graph=None):
        return super().predict(X, graph=without_edges(X, graph))
