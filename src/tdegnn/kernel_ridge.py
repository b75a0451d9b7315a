"""Kernel ridge on nodes: `f = K (K_tt + lambda m I)^-1 (Y - y) + y`, solved in closed form from the training nodes t.

K compares nodes by their links and features (`tdegnn.node_views`), m is the mean of the diagonal of `K_tt`, y the mean
of the targets Y. With more training nodes than a `Limit` allows, `K_il K_ll^-1 K_lj` stands for `K_ij`, l being some of
the training nodes, the landmarks (`tdegnn.nystrom`). Kernels with other nodes are computed in blocks of rows. So memory
grows with the square of the number of training nodes up to the limit, and with that of landmarks beyond it. Who chooses
views, sharpness and lambda, and by which nodes, is left to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.graph import Graph
from tdegnn.node_views import HOPS, UNDIRECTED_HOPS, KernelSetting, NodeViews
from tdegnn.nystrom import NystromFeatures, RidgeSums
from tdegnn.ridge import solve_refined_ridge

# What `candidates` combines. The last two differ from others only in graphs with a direction.
VIEW_SETS = (
    ("links", "scaled-links"),
    ("scaled-links",),
    ("features",),
    ("features", "hop-1"),
    ("features", "hop-1", "hop-2"),
    ("features", *HOPS),
    ("hop-1",),
    ("links", "scaled-links", "features", "hop-1", "hop-2"),
    ("undirected-hop-1",),
    ("features", "undirected-hop-1", "undirected-hop-2"),
)
SHARPNESSES = (1.0, 2.0, 3.0, 6.0)
RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0)

# Rows whose kernels are computed at once.
ROWS_AT_ONCE = 4096
LANDMARK_SEED = 0

Auto = Literal["auto"]


class Limit(NamedTuple):
    """Up to how many training nodes a kernel ridge is exact.

    Attributes:
        num_training: The most training nodes that are all used as columns of the kernel.
        num_landmarks: If there are more, how many of them are, drawn evenly and always in the same way. Targets play no
            part, so that out-of-fold scores do not depend on the target that they leave out.
    """

    num_training: int
    num_landmarks: int

    def landmarks(self, training: Int[np.ndarray, " training"]) -> Int[np.ndarray, " landmarks"] | None:
        """Return the landmarks, or None if all training nodes are used."""
        if len(training) <= self.num_training:
            return None
        num_drawn = min(self.num_landmarks, len(training))
        return np.sort(np.random.default_rng(LANDMARK_SEED).choice(training, num_drawn, replace=False))


# From about 10,000 training nodes on, sums for 4,000 landmarks take less time than exact factors. To choose among some
# hundred settings, less has to do. On one split of PubMed with four settings, 4,000, 2,000 and 1,000 landmarks were
# about 0.2, 0.8 and 1.2 points of test accuracy behind exact scores. The best of these settings was the same.
TO_SOLVE, TO_CHOOSE = Limit(10_000, 4_000), Limit(4_000, 1_000)


def candidates(
    graph: Graph,
    views: Sequence[str] | Auto = "auto",
    sharpness: float | Auto = "auto",
    ridge: float | Auto = "auto",
) -> tuple[KernelSetting, ...]:
    """Return the settings to choose from: `VIEW_SETS` by `SHARPNESSES` by `RIDGES`, or what is given instead of them.

    Views that ignore the direction are left out of `VIEW_SETS` if the graph has none.
    """
    is_left_out = {*UNDIRECTED_HOPS} if graph.direction == "both" else set()
    view_sets = [known for known in VIEW_SETS if not is_left_out & {*known}] if views == "auto" else [tuple(views)]
    sharpnesses = SHARPNESSES if sharpness == "auto" else (sharpness,)
    ridges = RIDGES if ridge == "auto" else (ridge,)
    return tuple(KernelSetting(*combination) for combination in product(view_sets, sharpnesses, ridges))


def other_ridges(setting: KernelSetting, settings: Sequence[KernelSetting]) -> tuple[KernelSetting, ...]:
    """Return the settings that differ from one of them in their ridge at most.

    Which ridge is best depends on how many training nodes and landmarks there are. If these were fewer when a setting
    was chosen than they are when it is solved, its ridge is to be chosen again.
    """
    return tuple(each for each in settings if each[:2] == setting[:2])


class _Solution(NamedTuple):
    """A solved ridge: what the columns of the kernel are multiplied by, and what is added."""

    weights: Float[Tensor, "columns outputs"]
    mean: Float[Tensor, " outputs"]


class _Part(NamedTuple):
    """Nodes to score, by a ridge that leaves out some of the training nodes, given by their positions."""

    left_out: Int[np.ndarray, " left_out"]
    nodes: Int[np.ndarray, " nodes"]


def ridge_scores(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    settings: Sequence[KernelSetting],
    limit: Limit,
    nodes: Int[np.ndarray, " nodes"] | None = None,
) -> Iterator[tuple[KernelSetting, Float[Tensor, "nodes outputs"]]]:
    """Yield each setting with the scores of nodes, in the precision of the targets.

    Args:
        views: All nodes, made for these settings.
        training: The training nodes.
        targets: Their targets, in float64, on the device of the views: one-hot classes, or numbers.
        settings: The settings. Much is computed once for neighbors with the same views, or also the same sharpness.
        limit: Up to how many training nodes the ridge is exact, and how many landmarks there are beyond.
        nodes: The nodes to score. If None, all of them.
    """
    nothing = np.empty(0, dtype=np.int64)
    part = _Part(nothing, np.arange(views.num_nodes) if nodes is None else nodes)
    for setting, (scores,) in _scores_of_parts(views, training, targets, settings, limit, [part]):
        yield setting, scores


def out_of_fold_scores(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    settings: Sequence[KernelSetting],
    limit: Limit,
    num_folds: int,
    *,
    with_others: bool = False,
) -> Iterator[tuple[KernelSetting, Float[Tensor, "nodes outputs"]]]:
    """Yield each setting with the scores of the training nodes, each from a ridge that has not seen its target.

    The k-th training node is in the fold k modulo `num_folds`. The other folds score it. If landmarks are needed, a
    fold is scored by those of the other folds. It takes one more solution, but not one more sum over all nodes.

    Args:
        views: As in `ridge_scores`.
        training: The training nodes. At least two.
        targets: As in `ridge_scores`.
        settings: As in `ridge_scores`.
        limit: As in `ridge_scores`.
        num_folds: Number of folds, at most that of training nodes.
        with_others: Yield the scores of all nodes instead, those of other nodes being from all training nodes.
    """
    folds = [np.arange(first, len(training), num_folds) for first in range(num_folds)]
    parts = [_Part(fold, training[fold]) for fold in folds]
    if with_others:
        parts.append(_Part(parts[0].left_out[:0], np.setdiff1d(np.arange(views.num_nodes), training)))
    # Where the scored nodes of all parts, one after the other, belong.
    order = np.concatenate([part.nodes if with_others else part.left_out for part in parts])
    for setting, scores in _scores_of_parts(views, training, targets, settings, limit, parts):
        yield setting, torch.cat(scores)[np.argsort(order)]


def _scores_of_parts(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    settings: Sequence[KernelSetting],
    limit: Limit,
    parts: Sequence[_Part],
) -> Iterator[tuple[KernelSetting, list[Float[Tensor, "nodes outputs"]]]]:
    """Yield each setting with the scores of each part."""
    landmarks = limit.landmarks(training)
    for _, group in groupby(settings, key=lambda setting: setting.views):
        same_views = tuple(group)
        if landmarks is None:
            solved = _solve_exactly(views, training, targets, same_views, parts)
        else:
            solved = _solve_by_landmarks(views, training, targets, same_views, parts, landmarks)
        scores = [
            _scores(views, part.nodes, columns, same_views, solutions)
            for part, (columns, solutions) in zip(parts, solved, strict=True)
        ]
        for number, setting in enumerate(same_views):
            yield setting, [of_part[number] for of_part in scores]


def _solve_exactly(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    same_views: Sequence[KernelSetting],
    parts: Sequence[_Part],
) -> Iterator[tuple[Int[np.ndarray, " columns"], list[_Solution]]]:
    """Yield the columns of the kernel, the training nodes that are not left out, and a solution per setting."""
    for part in parts:
        seen = np.delete(np.arange(len(training)), part.left_out)
        columns, mean = training[seen], targets[seen].mean(dim=0)
        solutions = []
        for kernel, same_kernel in _kernels(views.cosines(same_views[0].views, columns, columns), same_views):
            # One factorization per ridge: eigenvectors, which would do for all, take as long as some 30 of them.
            unit = float(kernel.diagonal().to(targets.dtype).mean())
            for setting in same_kernel:
                weights = solve_refined_ridge(kernel, targets[seen] - mean, setting.ridge * unit)
                solutions.append(_Solution(weights, mean))
        yield columns, solutions


def _solve_by_landmarks(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    same_views: Sequence[KernelSetting],
    parts: Sequence[_Part],
    landmarks: Int[np.ndarray, " landmarks"],
) -> Iterator[tuple[Int[np.ndarray, " landmarks"], list[_Solution]]]:
    """Yield the columns of the kernel, the landmarks, and a solution per setting."""
    among_landmarks = views.cosines(same_views[0].views, landmarks, landmarks)
    features = [NystromFeatures(kernel) for kernel, _ in _kernels(among_landmarks, same_views)]
    del among_landmarks
    never_left_out = np.setdiff1d(np.arange(len(training)), np.concatenate([part.left_out for part in parts]))
    # A list per group of rows, with the sums of each kernel.
    sums = [
        _sums(views, training, targets, same_views, rows, landmarks, features)
        for rows in (*(part.left_out for part in parts), never_left_out)
    ]
    totals = [sum(of_kernel[1:], start=of_kernel[0]) for of_kernel in zip(*sums, strict=True)]
    for part, left_out in zip(parts, sums[:-1], strict=True):
        solutions = []
        # Otherwise a landmark that is left out would get a worse score than other nodes: no target is near the part of
        # the kernel that is its own.
        own = np.flatnonzero(np.isin(landmarks, training[part.left_out]))
        for (_, same_kernel), of_kernel, total, out in zip(
            _same_kernel(same_views), features, totals, left_out, strict=True
        ):
            seen = (total - out).without(of_kernel.directions_of(own))
            for setting in same_kernel:
                weights, mean = seen.solve(setting.ridge)
                solutions.append(_Solution(of_kernel.weights(weights), mean))
        yield landmarks, solutions


def _sums(
    views: NodeViews,
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    same_views: Sequence[KernelSetting],
    rows: Int[np.ndarray, " rows"],
    landmarks: Int[np.ndarray, " landmarks"],
    features: Sequence[NystromFeatures],
) -> list[RidgeSums]:
    """Return the sums of each kernel over some of the training nodes, which are given by their positions."""
    sums = [RidgeSums.zeros(len(landmarks), targets, views.dtype) for _ in features]
    for block in _blocks(rows):
        cosines = views.cosines(same_views[0].views, training[block], landmarks)
        for number, (kernel, (setting, *_)) in enumerate(_kernels(cosines, same_views)):
            diagonal = float(views.diagonal(setting, training[block]).sum())
            sums[number] += RidgeSums.of(features[number].of(kernel), targets[block], diagonal)
    return sums


def _scores(
    views: NodeViews,
    nodes: Int[np.ndarray, " nodes"],
    columns: Int[np.ndarray, " columns"],
    same_views: Sequence[KernelSetting],
    solutions: Sequence[_Solution],
) -> Float[Tensor, "settings nodes outputs"]:
    """Return the scores of nodes with each setting."""
    means = torch.stack([solution.mean for solution in solutions])[:, None, :]
    scores = means.repeat(1, len(nodes), 1)
    for block in _blocks(np.arange(len(nodes))):
        cosines = views.cosines(same_views[0].views, nodes[block], columns)
        first = 0
        for kernel, same_kernel in _kernels(cosines, same_views):
            of_kernel = slice(first, first + len(same_kernel))
            weights = torch.cat([solution.weights for solution in solutions[of_kernel]], dim=1)
            products = (kernel @ weights.to(kernel.dtype)).to(scores.dtype)
            scores[of_kernel, block] += products.unflatten(1, (len(same_kernel), -1)).movedim(1, 0)
            first += len(same_kernel)
    return scores


def _kernels(
    cosines: Float[Tensor, "rows columns"], same_views: Sequence[KernelSetting]
) -> Iterator[tuple[Float[Tensor, "rows columns"], tuple[KernelSetting, ...]]]:
    """Yield each kernel with the settings that share it."""
    for sharpness, same_kernel in _same_kernel(same_views):
        yield cosines.sub(1).mul_(sharpness).exp_(), same_kernel


def _same_kernel(same_views: Sequence[KernelSetting]) -> list[tuple[float, tuple[KernelSetting, ...]]]:
    groups = groupby(same_views, key=lambda setting: setting.sharpness)
    return [(sharpness, tuple(group)) for sharpness, group in groups]


def _blocks(rows: Int[np.ndarray, " rows"]) -> list[Int[np.ndarray, " block"]]:
    return [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE)]
