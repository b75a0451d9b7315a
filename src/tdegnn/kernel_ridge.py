"""Kernel ridge on nodes: `f = K (K_tt + lambda m I)^-1 (Y - y) + y`, solved in closed form from the training nodes t.

`K_ij = exp(g (mean_v cos(u_i^v, u_j^v) - 1))` compares nodes by views v, rows that are scaled to unit length: which
nodes a node receives from, its features, and features that were passed along the edges. m is the mean of the diagonal
of `K_tt`, y the mean of the targets Y. g (`sharpness`), lambda (`ridge`) and the views make a `KernelSetting`. Only the
columns of K that belong to training nodes are computed. Who chooses the setting, and by which nodes, is left to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.adjacency import convolution_array, scaled_array
from tdegnn.errors import InputError, check_finite
from tdegnn.files import check_memory
from tdegnn.graph import Graph
from tdegnn.ridge import solve_ridge

# Exponents of the in-degree of the columns, by link list. Degrees of the rows make no difference to a cosine.
LINK_LISTS = {"links": 0.0, "scaled-links": -0.25}
MOST_HOPS = 4
# Along the direction of the graph, and along both directions.
HOPS, UNDIRECTED_HOPS = (
    tuple(f"{prefix}-{number}" for number in range(1, MOST_HOPS + 1)) for prefix in ("hop", "undirected-hop")
)
FEATURES = "features"
VIEWS = (*LINK_LISTS, FEATURES, *HOPS, *UNDIRECTED_HOPS)

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

# Rows of which a larger share is filled are multiplied as dense ones.
MOST_FILLED = 0.05
ROWS_AT_ONCE = 1024

Auto = Literal["auto"]


class KernelSetting(NamedTuple):
    """What determines a kernel ridge, besides the nodes.

    Attributes:
        views: The views whose cosines are averaged, names of `VIEWS`.
        sharpness: g. The larger it is, the more alike two nodes must be to count.
        ridge: lambda, relative to the mean of the diagonal of the kernel.
    """

    views: tuple[str, ...]
    sharpness: float
    ridge: float

    def check(self) -> None:
        """Raise an `InputError` unless views are known, and sharpness and ridge positive."""
        unknown = [name for name in self.views if name not in VIEWS]
        if unknown or not self.views:
            came = repr(unknown[0]) if unknown else "none"
            raise InputError(f"Expected views among {', '.join(VIEWS)}, at least one, got {came}.")
        check_finite(sharpness=self.sharpness, ridge=self.ridge)
        if min(self.sharpness, self.ridge) <= 0:
            raise InputError(
                f"Expected a positive sharpness and ridge, got {self.sharpness:g} and {self.ridge:g}. Increase them."
            )


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


class NodeViews:
    """Nodes as views see them: rows of unit length. A node without features, or without links, has a row of zeros.

    Edge weights are used.

    Args:
        features: One row per node.
        graph: The graph. Its direction counts, except for views that ignore it.
        settings: The settings for which kernels will be needed, at least one.
        device: Where to compute. If None, the CPU.
        dtype: Precision of the cosines. Default: float32. The ridge is solved in float64 in any case.
    """

    def __init__(
        self,
        features: scipy.sparse.csr_array | Float[np.ndarray, "nodes features"],
        graph: Graph,
        settings: Sequence[KernelSetting],
        *,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if features.shape[0] != graph.num_nodes:
            raise InputError(f"Expected features of the {graph.num_nodes} nodes of the graph, got {features.shape[0]}.")
        if not settings:
            raise InputError("Expected at least one setting to choose from, got none.")
        for setting in settings:
            setting.check()
        names = {name for setting in settings for name in setting.views}
        self.num_nodes = graph.num_nodes
        self._device, self._dtype = device or torch.device("cpu"), dtype
        self._rows = {name: self._place(_unit(rows)) for name, rows in _view_rows(features, graph, names).items()}

    def kernels(
        self, columns: Int[np.ndarray, " columns"], settings: Sequence[KernelSetting]
    ) -> Iterator[tuple[KernelSetting, Float[Tensor, "nodes columns"]]]:
        """Yield each setting with its kernel between all nodes and the nodes `columns`.

        Cosines are computed once for neighboring settings with the same views, kernels once for those that differ in
        the ridge only.
        """
        for views, same_views in groupby(settings, key=lambda setting: setting.views):
            cosines = self._cosines(views, columns)
            for sharpness, same_kernel in groupby(same_views, key=lambda setting: setting.sharpness):
                kernel = (sharpness * (cosines - 1)).exp_()
                for setting in same_kernel:
                    yield setting, kernel

    def _cosines(self, views: Sequence[str], columns: Int[np.ndarray, " columns"]) -> Float[Tensor, "nodes columns"]:
        """Return the mean of the cosines of the views, computed in blocks of rows."""
        itemsize = torch.empty((), dtype=self._dtype).element_size()
        # Cosines and kernel, and three matrices in float64 while the ridge is solved.
        size = 2 * itemsize * self.num_nodes * len(columns) + 3 * 8 * len(columns) ** 2
        if self._device.type == "cpu":
            check_memory(size, f"a kernel of {self.num_nodes:,} by {len(columns):,} nodes")
        mean = torch.zeros(self.num_nodes, len(columns), dtype=self._dtype, device=self._device)
        for rows in (self._rows[name] for name in views):
            others = rows[columns].T
            for first in range(0, self.num_nodes, ROWS_AT_ONCE):
                block = slice(first, first + ROWS_AT_ONCE)
                products = rows[block] @ others
                dense = products if isinstance(products, Tensor) else torch.from_numpy(products.toarray())
                mean[block] += dense.to(mean)
        return mean.div_(len(views))

    def _place(self, rows: Any) -> Any:
        """Return the rows as they are multiplied: a tensor on the device, or sparse on the CPU."""
        is_sparse = scipy.sparse.issparse(rows)
        if is_sparse and rows.nnz <= MOST_FILLED * rows.shape[0] * rows.shape[1]:
            return rows
        dense = rows.toarray() if is_sparse else rows
        return torch.as_tensor(dense, dtype=self._dtype, device=self._device)


def ridge_scores(
    kernel: Float[Tensor, "nodes training"],
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    ridge: float,
) -> Float[Tensor, "nodes outputs"]:
    """Return the scores of all nodes, in the precision of the targets.

    Args:
        kernel: Kernel between all nodes and the training nodes.
        training: The training nodes, in the order of the columns of the kernel.
        targets: Their targets, in float64: one-hot classes, or numbers.
        ridge: lambda, relative to the mean of the diagonal of the kernel.
    """
    gram = kernel[training].to(targets.dtype)
    mean = targets.mean(dim=0)
    weights = solve_ridge(gram, targets - mean, ridge * float(gram.diagonal().mean()))
    return (kernel @ weights.to(kernel.dtype)).to(targets.dtype) + mean


def out_of_fold_scores(
    kernel: Float[Tensor, "nodes training"],
    training: Int[np.ndarray, " training"],
    targets: Float[Tensor, "training outputs"],
    ridge: float,
    num_folds: int,
) -> Float[Tensor, "training outputs"]:
    """Return the scores of the training nodes, each from a ridge that has not seen its target.

    The k-th training node is in the fold k modulo `num_folds`. The other folds score it.

    Args:
        kernel: Kernel between all nodes and the training nodes.
        training: The training nodes, in the order of the columns of the kernel. At least two.
        targets: Their targets, in float64.
        ridge: As in `ridge_scores`.
        num_folds: Number of folds, at most that of training nodes.
    """
    among_training = kernel[training]
    fold_of = np.arange(len(training)) % num_folds
    scores = torch.empty_like(targets)
    for fold in range(num_folds):
        seen, held_out = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        scores[held_out] = ridge_scores(among_training[:, seen], seen, targets[seen], ridge)[held_out]
    return scores


def _view_rows(features: Any, graph: Graph, names: set[str]) -> dict[str, Any]:
    """Return the rows of each view, before they are scaled to unit length."""
    sparse = scipy.sparse.issparse(features)
    given = scipy.sparse.csr_array(features, dtype=np.float64) if sparse else np.asarray(features, dtype=np.float64)
    rows: dict[str, Any] = {
        name: scaled_array(graph, 0.0, exponent) for name, exponent in LINK_LISTS.items() if name in names
    }
    rows[FEATURES] = given
    for hops, is_undirected in ((HOPS, False), (UNDIRECTED_HOPS, True)):
        needed = [number for number, name in enumerate(hops, 1) if name in names]
        if needed:
            passed = given
            passing = convolution_array(graph.with_direction("both") if is_undirected else graph)
            for name in hops[: max(needed)]:
                passed = passing @ passed
                rows[name] = passed
    return {name: kept for name, kept in rows.items() if name in names}


def _unit(rows: Any) -> Any:
    """Scale rows to unit length. Rows of zeros stay zero."""
    is_sparse = scipy.sparse.issparse(rows)
    lengths = np.sqrt((rows.multiply(rows) if is_sparse else rows**2).sum(axis=1))
    scales = scipy.sparse.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0))
    return (scales @ rows).tocsr() if is_sparse else scales @ rows
