"""Nodes as a kernel sees them: rows of unit length, `u_i^v` for a node i and a view v.

Views are which nodes a node receives from (link lists), its features, and features that were passed along the edges.
`K_ij = exp(g (mean_v cos(u_i^v, u_j^v) - 1))` compares two nodes. Only what is asked for is computed: kernels between
some rows and some columns. What they are used for is left to `tdegnn.kernel_ridge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tdegnn.adjacency import convolution_array, scaled_array
from tdegnn.errors import InputError, check_finite
from tdegnn.files import check_memory
from tdegnn.graph import Graph

# Exponents of the in-degree of the columns, by link list. Degrees of the rows make no difference to a cosine.
LINK_LISTS = {"links": 0.0, "scaled-links": -0.25}
MOST_HOPS = 4
# Along the direction of the graph, and along both directions.
HOPS, UNDIRECTED_HOPS = (
    tuple(f"{prefix}-{number}" for number in range(1, MOST_HOPS + 1)) for prefix in ("hop", "undirected-hop")
)
FEATURES = "features"
VIEWS = (*LINK_LISTS, FEATURES, *HOPS, *UNDIRECTED_HOPS)

# Rows of which a larger share is filled are multiplied as dense ones.
MOST_FILLED = 0.05
ROWS_AT_ONCE = 1024


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
        self.device, self.dtype = device or torch.device("cpu"), dtype
        self._rows: dict[str, Any] = {}
        self._is_filled: dict[str, Bool[np.ndarray, " nodes"]] = {}
        for name, rows in _view_rows(features, graph, names).items():
            lengths = _lengths(rows)
            self._rows[name] = self._place(_divided(rows, np.where(lengths > 0, lengths, 1.0)))
            self._is_filled[name] = lengths > 0

    def cosines(
        self, names: Sequence[str], rows: Int[np.ndarray, " rows"], columns: Int[np.ndarray, " columns"]
    ) -> Float[Tensor, "rows columns"]:
        """Return the mean of the cosines of the views, between the nodes `rows` and the nodes `columns`."""
        itemsize = torch.empty((), dtype=self.dtype).element_size()
        if self.device.type == "cpu":
            # The kernel, too, and two more of this size while the ridge is solved.
            size = 4 * itemsize * len(rows) * len(columns)
            check_memory(size, f"a kernel of {len(rows):,} by {len(columns):,} nodes")
        mean = torch.zeros(len(rows), len(columns), dtype=self.dtype, device=self.device)
        for view in (self._rows[name] for name in names):
            others = view[columns].T
            for first in range(0, len(rows), ROWS_AT_ONCE):
                block = slice(first, first + ROWS_AT_ONCE)
                products = view[rows[block]] @ others
                dense = products if isinstance(products, Tensor) else torch.from_numpy(products.toarray())
                mean[block] += dense.to(mean)
        return mean.div_(len(names))

    def diagonal(self, setting: KernelSetting, nodes: Int[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
        """Return the kernel of each node with itself: 1, or less if the node has a row of zeros in some view."""
        cosines = np.mean([self._is_filled[name][nodes] for name in setting.views], axis=0)
        diagonal: Float[np.ndarray, " nodes"] = np.exp(setting.sharpness * (cosines - 1))
        return diagonal

    def _place(self, rows: Any) -> Any:
        """Return the rows as they are multiplied: a tensor on the device, or sparse on the CPU."""
        is_sparse = scipy.sparse.issparse(rows)
        if is_sparse and rows.nnz <= MOST_FILLED * rows.shape[0] * rows.shape[1]:
            return rows
        dense = rows.toarray() if is_sparse else rows
        return torch.as_tensor(dense, dtype=self.dtype, device=self.device)


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


def _lengths(rows: Any) -> Float[np.ndarray, " nodes"]:
    squares = rows.multiply(rows) if scipy.sparse.issparse(rows) else rows**2
    lengths: Float[np.ndarray, " nodes"] = np.sqrt(squares.sum(axis=1))
    return lengths


def _divided(rows: Any, divisors: Float[np.ndarray, " nodes"]) -> Any:
    divided = scipy.sparse.diags_array(1.0 / divisors) @ rows
    return divided.tocsr() if scipy.sparse.issparse(rows) else divided
