"""Kernel ridge: classes in closed form from how alike the link lists, or the features around them, of two nodes are.

`scores = K (K_tt + lambda m I)^-1 (Y - y) + y` of `tdegnn.kernel_ridge`, Y being one-hot labels: no network and no
randomness. On Chameleon and Squirrel it is a soft look-up of twins, pages with the same list of links, which the
filtered versions of these graphs do not have. Views, sharpness and lambda are chosen on validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int

from tdegnn.graph import Graph
from tdegnn.kernel_ridge import KernelSetting, NodeViews, candidates, ridge_scores
from tdegnn.metrics import accuracy
from tdegnn.rivals.nodes.link_ridge import check_labels


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """The result of a kernel ridge on one split.

    Attributes:
        scores: The scores of each node, one column per class of the training nodes.
        setting: The best setting on validation; of several, the first.
        validation_accuracy: Its accuracy on the validation nodes, from 0 to 1.
    """

    scores: Float[np.ndarray, "nodes classes"]
    setting: KernelSetting
    validation_accuracy: float

    @property
    def predicted(self) -> Int[np.ndarray, " nodes"]:
        """The class of each node."""
        predicted: Int[np.ndarray, " nodes"] = self.scores.argmax(axis=1)
        return predicted


def fit_kernel_ridge(
    features: scipy.sparse.csr_array | Float[np.ndarray, "nodes features"],
    graph: Graph,
    labels: Int[np.ndarray, " nodes"],
    training_mask: Bool[np.ndarray, " nodes"],
    validation_mask: Bool[np.ndarray, " nodes"],
    settings: Sequence[KernelSetting] | None = None,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> KernelRidge:
    """Fit on the training nodes, choose the setting on the validation nodes, and score all nodes.

    Args:
        features: One row per node.
        graph: The graph, with its direction.
        labels: The class of each node, from 0 on. Labels outside of both masks are not used.
        training_mask: The nodes to fit.
        validation_mask: The nodes to choose the setting by.
        settings: Settings to choose from. If None, `candidates(graph)`.
        device: Where to compute. If None, the CPU.
        dtype: Precision of the kernels. Default: float32.
    """
    chosen_from = candidates(graph) if settings is None else settings
    views = NodeViews(features, graph, chosen_from, device=device, dtype=dtype)
    check_labels(labels, training_mask=training_mask, validation_mask=validation_mask)
    best: KernelRidge | None = None
    for setting, scores in score_settings(views, labels, training_mask, chosen_from):
        share = accuracy(scores.argmax(axis=1), labels, validation_mask)
        if best is None or share > best.validation_accuracy:
            best = KernelRidge(scores, setting, share)
    assert best is not None  # there is a setting
    return best


def score_settings(
    views: NodeViews,
    labels: Int[np.ndarray, " nodes"],
    training_mask: Bool[np.ndarray, " nodes"],
    settings: Sequence[KernelSetting],
) -> Iterator[tuple[KernelSetting, Float[np.ndarray, "nodes classes"]]]:
    """Yield each setting with the scores of all nodes, fitted to the training nodes.

    Args:
        views: The nodes, made for these settings. They can be used for many splits.
        labels: The class of each node, from 0 on. Labels outside of the mask are not used.
        training_mask: The nodes to fit.
        settings: The settings.
    """
    check_labels(labels, training_mask=training_mask)
    training = np.flatnonzero(training_mask)
    one_hot = np.eye(labels[training].max() + 1)[labels[training]]
    for setting, kernel in views.kernels(training, settings):
        targets = torch.as_tensor(one_hot, device=kernel.device)
        yield setting, ridge_scores(kernel, training, targets, setting.ridge).cpu().numpy()
