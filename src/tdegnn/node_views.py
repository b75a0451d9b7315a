"""Nodes as a kernel sees them: rows of unit length, `u_i^v` for a node i and a view v.

Views are which nodes a node receives from (link lists), its features, and features that were passed along the edges.
`K_ij = exp(g (mean_v cos(u_i^v, u_j^v) - 1))` compares two nodes. Only what is asked for is computed: kernels between
some rows and some columns. Views are made when they are needed, in blocks of columns, and the oldest ones are made
again if all together would take too much memory. What they are used for is left to `tdegnn.kernel_ridge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
# Columns that are passed along the edges at once, in float64.
COLUMNS_AT_ONCE = 256
# Bytes of all views that are kept. The largest of `tdegnn.kernel_ridge.VIEW_SETS` fits with 40,000 x 1,000 numbers.
MOST_KEPT = 800_000_000


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

    Edge weights are used. Views take at most `MOST_KEPT` bytes together, or as many as one of them, if that is more.

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
        self.num_nodes = graph.num_nodes
        self.device, self.dtype = device or torch.device("cpu"), dtype
        self._features, self._graph = features, graph
        self._kept: dict[str, Any] = {}  # the oldest first
        self._is_filled: dict[str, Bool[np.ndarray, " nodes"]] = {}

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
        for view in map(self._view, names):
            others = view[columns].T
            for first in range(0, len(rows), ROWS_AT_ONCE):
                block = slice(first, first + ROWS_AT_ONCE)
                products = view[rows[block]] @ others
                dense = products if isinstance(products, Tensor) else torch.from_numpy(products.toarray())
                mean[block] += dense.to(mean)
        return mean.div_(len(names))

    def diagonal(self, setting: KernelSetting, nodes: Int[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
        """Return the kernel of each node with itself: 1, or less if the node has a row of zeros in some view."""
        for name in setting.views:
            if name not in self._is_filled:
                self._view(name)
        cosines = np.mean([self._is_filled[name][nodes] for name in setting.views], axis=0)
        diagonal: Float[np.ndarray, " nodes"] = np.exp(setting.sharpness * (cosines - 1))
        return diagonal

    def _view(self, name: str) -> Any:
        """Return the rows of a view as they are multiplied: a tensor on the device, or sparse on the CPU."""
        view = self._kept.pop(name, None)
        if view is None:
            blocks = _view_blocks(self._features, self._graph, name)
            rows, self._is_filled[name] = _unit_rows(blocks, torch.empty((), dtype=self.dtype).numpy().dtype)
            view = rows if scipy.sparse.issparse(rows) else torch.as_tensor(rows, device=self.device)
            while self._kept and sum(map(_num_bytes, (*self._kept.values(), view))) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[name] = view
        return view


def _view_blocks(features: Any, graph: Graph, name: str) -> Iterator[Any]:
    """Yield the columns of a view in blocks, sparse or dense, before rows are scaled to unit length."""
    if name in LINK_LISTS:
        yield scaled_array(graph, 0.0, LINK_LISTS[name])
        return
    columns = scipy.sparse.csc_array(features) if scipy.sparse.issparse(features) else features
    num_hops, passing = 0, None
    if name != FEATURES:
        is_undirected = name in UNDIRECTED_HOPS
        num_hops = 1 + (UNDIRECTED_HOPS if is_undirected else HOPS).index(name)
        passing = convolution_array(graph.with_direction("both") if is_undirected else graph)
    for first in range(0, max(1, columns.shape[1]), COLUMNS_AT_ONCE):  # one block if there are no features
        block = columns[:, first : first + COLUMNS_AT_ONCE].astype(np.float64)
        for _ in range(num_hops):
            block = passing @ (block if _is_sparse(block) else _dense(block))
        yield block


def _unit_rows(blocks: Iterable[Any], dtype: np.dtype[Any]) -> tuple[Any, Bool[np.ndarray, " nodes"]]:
    """Return rows of unit length from blocks of their columns, sparse if few are filled, and which have a length."""
    kept, squares = [], np.zeros(())
    for block in blocks:
        squares = squares + (block.multiply(block) if scipy.sparse.issparse(block) else block**2).sum(axis=1)
        kept.append((block if _is_sparse(block) else _dense(block)).astype(dtype))
    lengths = np.sqrt(squares)
    factors = (1.0 / np.where(lengths > 0, lengths, 1.0)).astype(dtype)
    ends = np.cumsum([block.shape[1] for block in kept])
    if sum(map(_num_filled, kept)) <= MOST_FILLED * len(lengths) * ends[-1]:
        joined = scipy.sparse.hstack([scipy.sparse.csr_array(block) for block in kept], format="csr")
        return (scipy.sparse.diags_array(factors) @ joined).tocsr(), lengths > 0
    rows = np.empty((len(lengths), ends[-1]), dtype)
    for end in ends:
        block = kept.pop(0)  # so that blocks and rows are never there as a whole
        np.multiply(_dense(block), factors[:, None], out=rows[:, end - block.shape[1] : end])
    return rows, lengths > 0


def _is_sparse(block: Any) -> bool:
    """Return whether few entries of a block are filled. Those of a dense block all are."""
    return bool(_num_filled(block) <= MOST_FILLED * block.shape[0] * block.shape[1])


def _num_filled(block: Any) -> int:
    return int(block.nnz if scipy.sparse.issparse(block) else block.size)


def _dense(block: Any) -> Any:
    return block.toarray() if scipy.sparse.issparse(block) else block


def _num_bytes(view: Any) -> int:
    parts = (view.data, view.indices, view.indptr) if scipy.sparse.issparse(view) else (view,)
    return sum(part.nbytes for part in parts)
