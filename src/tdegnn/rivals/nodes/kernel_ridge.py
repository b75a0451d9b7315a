"""Kernel ridge: classes in closed form from how alike the link lists, or the features around them, of two nodes are.

`scores = K (K_tt + lambda m I)^-1 (Y - y) + y` of `tdegnn.kernel_ridge`, Y being one-hot labels: no network and no
randomness. On Chameleon and Squirrel it is a soft look-up of twins, pages with the same list of links, which the
filtered versions of these graphs do not have. Views, sharpness and lambda are chosen on validation.
Deviation: with many training nodes, settings are judged by an approximation, and only lambda is then chosen as it is
solved. With even more, the chosen setting is solved by an approximation, too (`tdegnn.kernel_ridge.Limit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int

from tdegnn.graph import Graph
from tdegnn.kernel_ridge import TO_CHOOSE, TO_SOLVE, Limit, candidates, other_ridges, ridge_scores
from tdegnn.metrics import accuracy
from tdegnn.node_views import KernelSetting, NodeViews
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
    setting = choose_setting(views, labels, training_mask[None], validation_mask[None], chosen_from)
    scores = score_nodes(views, labels, training_mask, setting)
    return KernelRidge(scores, setting, accuracy(scores.argmax(axis=1), labels, validation_mask))


def choose_setting(
    views: NodeViews,
    labels: Int[np.ndarray, " nodes"],
    training_masks: Bool[np.ndarray, "splits nodes"],
    validation_masks: Bool[np.ndarray, "splits nodes"],
    settings: Sequence[KernelSetting],
) -> KernelSetting:
    """Return the setting with the highest mean accuracy on validation over the splits. Of several, the first.

    With more than 4,000 training nodes, it is chosen by a ridge on 1,000 landmarks (`tdegnn.kernel_ridge.TO_CHOOSE`).
    Settings that differ from it in their lambda only are then judged again, by the ridge that scores nodes.

    Args:
        views: The nodes, made for these settings.
        labels: The class of each node, from 0 on. Labels outside of both masks are not used.
        training_masks: The nodes to fit.
        validation_masks: The nodes to judge by.
        settings: The settings, at least one.
    """
    limits = [TO_CHOOSE]
    if training_masks.sum(axis=1).max() > TO_CHOOSE.num_training:
        limits.append(TO_SOLVE)
    setting, rest = settings[0], tuple(settings)
    for limit in limits:
        if len(rest) > 1:
            judged = [
                judge_settings(views, labels, training, validation, rest, limit)
                for training, validation in zip(training_masks, validation_masks, strict=True)
            ]
            setting = rest[int(np.mean(judged, axis=0).argmax())]
        rest = other_ridges(setting, rest)
    return setting


def judge_settings(
    views: NodeViews,
    labels: Int[np.ndarray, " nodes"],
    training_mask: Bool[np.ndarray, " nodes"],
    validation_mask: Bool[np.ndarray, " nodes"],
    settings: Sequence[KernelSetting],
    limit: Limit,
) -> Float[np.ndarray, " settings"]:
    """Return the accuracy of each setting on the validation nodes, from 0 to 1.

    Args:
        views: The nodes, made for these settings. They can be used for many splits.
        labels: The class of each node, from 0 on. Labels outside of both masks are not used.
        training_mask: The nodes to fit.
        validation_mask: The nodes to judge by.
        settings: The settings.
        limit: Up to how many training nodes the ridge is exact.
    """
    check_labels(labels, training_mask=training_mask, validation_mask=validation_mask)
    training, validation = np.flatnonzero(training_mask), np.flatnonzero(validation_mask)
    targets = _one_hot(labels[training], views.device)
    scored = ridge_scores(views, training, targets, settings, limit, validation)
    return np.array([np.mean(scores.argmax(dim=1).cpu().numpy() == labels[validation]) for _, scores in scored])


def score_nodes(
    views: NodeViews,
    labels: Int[np.ndarray, " nodes"],
    training_mask: Bool[np.ndarray, " nodes"],
    setting: KernelSetting,
) -> Float[np.ndarray, "nodes classes"]:
    """Return the scores of all nodes, fitted to the training nodes.

    Args:
        views: The nodes, made for this setting.
        labels: The class of each node, from 0 on. Labels outside of the mask are not used.
        training_mask: The nodes to fit.
        setting: The setting.
    """
    check_labels(labels, training_mask=training_mask)
    training = np.flatnonzero(training_mask)
    ((_, scores),) = ridge_scores(views, training, _one_hot(labels[training], views.device), [setting], TO_SOLVE)
    return scores.cpu().numpy()


def _one_hot(labels: Int[np.ndarray, " nodes"], device: torch.device) -> Float[torch.Tensor, "nodes classes"]:
    return torch.as_tensor(np.eye(labels.max() + 1)[labels], device=device)
