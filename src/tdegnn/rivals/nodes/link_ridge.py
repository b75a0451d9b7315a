"""LINK-ridge: `scores = A' W`, `W = argmin |A'_train W - Y_train|^2 + lambda |W|^2`, Y being one-hot labels.

It sees only which nodes a node receives from: no features, no network, no randomness (LINK: Zheleva & Getoor,
2009, with a ridge instead of a logistic loss). Solved in closed form, in the dual,
`W = A'_train^T (K + lambda I)^-1 Y_train` with `K = A'_train A'_train^T`; lambda is chosen on validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int

from tdegnn.errors import InputError
from tdegnn.metrics import accuracy
from tdegnn.ridge import solve_ridge

LAMBDAS = tuple(float(10.0**power) for power in range(-3, 4))


@dataclass(frozen=True, eq=False)
class LinkRidge:
    """The result of LINK-ridge on one split.

    Attributes:
        scores: The scores of each node, one column per class of the training nodes.
        chosen_lambda: The best lambda on validation; of several, the smallest.
        validation_accuracy: Its accuracy on the validation nodes, from 0 to 1.
    """

    scores: Float[np.ndarray, "nodes classes"]
    chosen_lambda: float
    validation_accuracy: float

    @property
    def predicted(self) -> Int[np.ndarray, " nodes"]:
        """The class of each node."""
        predicted: Int[np.ndarray, " nodes"] = self.scores.argmax(axis=1)
        return predicted


def fit_link_ridge(
    adjacency: scipy.sparse.sparray,
    labels: Int[np.ndarray, " nodes"],
    training_mask: Bool[np.ndarray, " nodes"],
    validation_mask: Bool[np.ndarray, " nodes"],
    lambdas: Sequence[float] = LAMBDAS,
) -> LinkRidge:
    """Fit on the training nodes, choose lambda on the validation nodes, and predict all nodes.

    Args:
        adjacency: One row per node: `Graph.received` of an unweighted graph, perhaps with more columns.
        labels: The class of each node, from 0 on. Labels outside of both masks are not used.
        training_mask: The nodes to fit.
        validation_mask: The nodes to choose lambda by.
        lambdas: Strengths of the ridge to choose from, positive.
    """
    rows = scipy.sparse.csr_array(adjacency, dtype=np.float64)
    if rows.shape[0] != len(labels):
        raise InputError(f"Expected one row of the adjacency matrix per node, got {rows.shape[0]} for {len(labels)}.")
    check_labels(labels, training_mask=training_mask, validation_mask=validation_mask)
    if not lambdas or min(lambdas) <= 0:
        raise InputError(f"Expected positive lambdas, at least one, got {list(lambdas)}.")
    training_rows, training_labels = rows[training_mask], labels[training_mask]
    targets = torch.from_numpy(np.eye(training_labels.max() + 1)[training_labels])
    kernel = torch.from_numpy((training_rows @ training_rows.T).toarray())
    best: LinkRidge | None = None
    for strength in sorted(lambdas):
        # Solving for each lambda takes half the time of one eigendecomposition for all of them.
        dual_weights = solve_ridge(kernel, targets, strength).numpy()
        scores = rows @ (training_rows.T @ dual_weights)
        share = accuracy(scores.argmax(axis=1), labels, validation_mask)
        if best is None or share > best.validation_accuracy:
            best = LinkRidge(scores, float(strength), share)
    assert best is not None  # there is a lambda
    return best


def check_labels(labels: Int[np.ndarray, " nodes"], **masks: Bool[np.ndarray, " nodes"]) -> None:
    """Raise an `InputError` for the first of `masks` that holds no node, or a node of unknown class."""
    for name, mask in masks.items():
        if not mask.any():
            raise InputError(f"Expected {name} to hold at least one node, got none.")
        if labels[mask].min() < 0:
            raise InputError(f"Expected labels from 0 on in {name}, got {labels[mask].min()}. Leave such nodes out.")
