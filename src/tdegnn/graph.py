"""The graph `G` of the equation: who receives from whom, and the normalized operators built from that.

`A[i, j]` is the weight of the edge i -> j. `direction` says whose states a node receives: `out`, the nodes it
points to (row i of A); `in`, the nodes that point to it (row i of A^T); `both`, row i of max(A, A^T). The
operators `P = D_r^-1/2 A' D_c^-1/2` and `L = I - P` are built once per graph and kept for each device and precision.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeGuard, get_args

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from torch import Tensor

from tdegnn import assembly
from tdegnn.assembly import (
    ListedEntries,
    chunks_of,
    column_sums,
    compress,
    in_threads,
    index_type,
    join_both_ways,
    row_sums,
    turn,
)
from tdegnn.errors import LARGEST_VALUE, InputError, check_count
from tdegnn.files import check_memory
from tdegnn.scaled_rows import Scaling, scale_large
from tdegnn.sparse import SparseMatrix
from tdegnn.sparse_checks import check_sparse

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


State: TypeAlias = Float[Tensor, "*batch nodes channels"]
Direction = Literal["out", "in", "both"]
Axis = Literal[0, 1]
MatrixName = Literal["_normalized", "_relaxed", "_identity"]
EdgeEnds: TypeAlias = Int[np.ndarray, " edges"]
EdgeWeights: TypeAlias = Shaped[np.ndarray, " edges"]

# Up to this many nodes, a dense matrix is faster than a sparse one and needs fewer calls.
SMALL_GRAPH = 64

# The types of numbers that SciPy's matrices can hold, of those that a file may have. Not float16, for example.
SCIPY_TYPES = [np.dtype(name) for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]
# Bytes that a graph takes per node and per edge while it and its propagation are made, measured. The last number is for
# an edge of a large graph without weights.
NODE_COST = 100
EDGE_COST = 100
PLAIN_EDGE_COST = 50


class NeighborLists(NamedTuple):
    """Neighbors of each node, one list after another.

    Attributes:
        starts: Where the list of each node starts in `nodes`, and where the last one ends.
        nodes: The neighbors.
    """

    starts: Int[np.ndarray, " nodes_plus_one"]
    nodes: Int[np.ndarray, " entries"]


class Graph:
    """A graph with a direction, and its propagation and Laplacian.

    Args:
        edge_index: Two rows, the sources and the targets of the edges.
        num_nodes: Number of nodes. If None, one more than the largest index in `edge_index`.
        edge_weight: One non-negative weight per edge. If None, the graph is unweighted.
        direction: Whose states a node receives: `"out"`, those of the nodes it points to; `"in"`, those of
            the nodes that point to it; `"both"`.
        keep_self_loops: Whether edges from a node to itself count. They are dropped by default.

    Edges listed more than once count once in an unweighted graph and are summed in a weighted one.

    Example:
        >>> path = Graph([[0, 1], [1, 2]])
        >>> path.propagate(torch.tensor([[1.0], [0.0], [0.0]])).flatten().tolist()
        [0.0, 0.7071067690849304, 0.0]
    """

    def __init__(
        self,
        edge_index: Tensor | ArrayLike,
        num_nodes: int | None = None,
        edge_weight: Tensor | ArrayLike | None = None,
        direction: Direction = "both",
        *,
        keep_self_loops: bool = False,
    ) -> None:
        if direction not in get_args(Direction):
            raise InputError(f"Expected direction to be 'out', 'in' or 'both', got {direction!r}.")
        sources, targets = _check_edge_index(edge_index)
        self.is_weighted = edge_weight is not None
        self.num_nodes = _check_num_nodes(num_nodes, sources, targets, is_weighted=self.is_weighted)
        self.direction: Direction = direction
        weights = None if edge_weight is None else _check_weights(edge_weight, len(sources))
        self._adjacency = _assemble(sources, targets, weights, self.num_nodes, keep_self_loops=keep_self_loops)
        self._start_keeping()

    def _start_keeping(self) -> None:
        """Prepare to keep what is made from the edges later. Called by every constructor."""
        self._matrices: dict[tuple[str, torch.device, torch.dtype], SparseMatrix | Tensor] = {}
        self._copied_messages: tuple[tuple[int, torch.device, torch.dtype], Tensor, Tensor] | None = None
        self._received_sums: dict[tuple[Axis, Direction], Float[np.ndarray, " nodes"]] = {}

    @classmethod
    def from_scipy(
        cls,
        adjacency: scipy.sparse.sparray | scipy.sparse.spmatrix | np.ndarray,
        direction: Direction = "both",
        *,
        keep_self_loops: bool = False,
    ) -> Graph:
        """Make a graph from an adjacency matrix (SciPy sparse or dense): entry (i, j) weighs the edge i -> j.

        A matrix of booleans makes an unweighted graph.
        """
        matrix = _as_coordinates(adjacency)
        edges = np.stack([matrix.row, matrix.col])
        weights = None if matrix.dtype == bool else matrix.data
        return cls(edges, matrix.shape[0], weights, direction, keep_self_loops=keep_self_loops)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        direction: Direction = "both",
        *,
        weight: str = "weight",
        keep_self_loops: bool = False,
    ) -> Graph:
        """Make a graph from a networkx graph, with nodes in the order of `graph.nodes`.

        Args:
            graph: Any networkx graph. The edges of an undirected one go both ways.
            direction: See `Graph`.
            weight: Edge attribute that holds the weights. If no edge has it, the graph is unweighted.
            keep_self_loops: See `Graph`.
        """
        index = {node: position for position, node in enumerate(graph.nodes)}
        one_way = graph if graph.is_directed() else graph.to_directed()
        edges = [(index[source], index[target]) for source, target in one_way.edges()]
        weights = [data.get(weight) for _, _, data in one_way.edges(data=True)]
        if None in weights and any(value is not None for value in weights):
            raise InputError(f"Expected the attribute {weight!r} on all edges or on none, got some edges without it.")
        edge_index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        has_weights = bool(weights) and weights[0] is not None
        edge_weight = np.array(weights) if has_weights else None
        return cls(edge_index, len(index), edge_weight, direction, keep_self_loops=keep_self_loops)

    @classmethod
    def from_pyg(cls, data: Data, direction: Direction = "both", *, keep_self_loops: bool = False) -> Graph:
        """Make a graph from PyG data: its `edge_index`, weights (if it has any) and `num_nodes`.

        Weights are `edge_weight`, or an `edge_attr` that holds one real number per edge.
        """
        if getattr(data, "edge_index", None) is None:
            raise InputError(f"Expected PyG data with an edge_index, got {type(data).__name__} without one.")
        return cls(
            data.edge_index,
            data.num_nodes,
            _weights_of_pyg(data),
            direction,
            keep_self_loops=keep_self_loops,
        )

    def to_pyg(self) -> Data:
        """Return PyG data with `edge_index`, `num_nodes` and, for a weighted graph, `edge_weight`."""
        from torch_geometric.data import Data

        data = Data(edge_index=self.edge_index, num_nodes=self.num_nodes)
        if self.is_weighted:
            data.edge_weight = self.edge_weight.to(torch.get_default_dtype())
        return data

    def without_weights(self) -> Graph:
        """Return a graph with the same edges and direction, unweighted."""
        return Graph(self.edge_index, self.num_nodes, direction=self.direction, keep_self_loops=True)

    def with_direction(self, direction: Direction) -> Graph:
        """Return a graph with the same edges and weights, received along another direction."""
        # Not from `edge_index`: NumPy cannot read a tensor that is made while members are batched.
        weights = self._adjacency.data if self.is_weighted else None
        return Graph(self._edge_ends, self.num_nodes, weights, direction, keep_self_loops=True)

    def with_self_loops(self) -> Graph:
        """Return a graph whose nodes also receive from themselves. New self-loops weigh 1; others keep their weight."""
        missing = torch.as_tensor(np.flatnonzero(self._adjacency.diagonal() == 0))
        edges = torch.cat([self.edge_index, missing.expand(2, -1)], dim=1)
        weights = torch.cat([self.edge_weight, torch.ones(len(missing), dtype=torch.float64)])
        return Graph(edges, self.num_nodes, weights if self.is_weighted else None, self.direction, keep_self_loops=True)

    def equals(self, other: Graph) -> bool:
        """Return whether two graphs have the same nodes, edges, weights and direction."""
        return (
            (self.num_nodes, self.direction, self.is_weighted) == (other.num_nodes, other.direction, other.is_weighted)
            and torch.equal(self.edge_index, other.edge_index)
            and torch.equal(self.edge_weight, other.edge_weight)
        )

    def arrays(self) -> Iterator[Shaped[np.ndarray, "..."]]:
        """Yield the edges and their weights as arrays, for a checksum."""
        yield self.edge_index.numpy()
        yield self.edge_weight.numpy()

    @property
    def num_edges(self) -> int:
        """Number of edges, each direction counted, after merging duplicates."""
        return int(self._adjacency.nnz)

    @cached_property
    def edge_index(self) -> Int[Tensor, "2 edges"]:
        """Sources and targets of the edges, sorted by source."""
        return _kept(self._edge_ends, torch.int64)

    @property
    def _edge_ends(self) -> Int[np.ndarray, "2 edges"]:
        return np.stack(self._adjacency.tocoo(copy=False).coords)

    @cached_property
    def edge_weight(self) -> Float[Tensor, " edges"]:
        """Weight of each edge in `edge_index`, in float64; ones for an unweighted graph."""
        return _kept(self._adjacency.data, torch.float64)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether each edge also goes the other way, with the same weight."""
        return bool((self._adjacency != self._adjacency.T).nnz == 0)

    @cached_property
    def received(self) -> scipy.sparse.coo_array:
        """A': row i weighs what node i receives."""
        entries = self._received_by_row.tocoo(copy=False)
        entries.data = entries.data.astype(np.float64, copy=False)
        return entries

    @cached_property
    def _received_by_row(self) -> scipy.sparse.csr_array:
        """A' in compressed rows. Without weights, its values are booleans, as those of A: a byte per entry."""
        return self._assemble_received()

    def _assemble_received(self) -> scipy.sparse.csr_array:
        if self.direction == "out":
            return self._adjacency
        return turn(self._adjacency) if self.direction == "in" else join_both_ways(self._adjacency)

    def _assemble_sent(self) -> scipy.sparse.csr_array:
        """Return A' transposed, in compressed rows: the same object if A' is symmetric."""
        if self.direction == "both":
            return self._received_by_row
        return self._adjacency if self.direction == "in" else turn(self._adjacency)

    @property
    def num_whole_nodes(self) -> int:
        """Number of nodes of the graph that this one was cut from (`Subgraph`). Of a whole graph, its own."""
        return self.num_nodes

    def of_its_nodes(self, values: Shaped[Tensor, "whole ..."]) -> Shaped[Tensor, "nodes ..."]:
        """Return the rows of this graph's nodes, given one row per node of the whole graph."""
        return values

    def sums(
        self, matrix: scipy.sparse.csr_array, axis: Axis, turned: scipy.sparse.csr_array | None = None
    ) -> Float[np.ndarray, " nodes"]:
        """Return the row sums (axis 1) or column sums (axis 0) of A', or of A' with self-loops.

        A `Subgraph` returns those of the whole graph, so that a node has the same degree in all of them. `turned` is
        the transposed matrix, if it is known.
        """
        return row_sums(matrix) if axis == 1 else column_sums(matrix, turned)

    def received_sums(self, axis: Axis, direction: Direction) -> Float[np.ndarray, " nodes"]:
        """Return the row sums (axis 1) or column sums (axis 0) of A' along a direction. They are kept."""
        if (axis, direction) not in self._received_sums:
            directed = self if direction == self.direction else self.with_direction(direction)
            received = directed._received_by_row
            sent = directed._assemble_sent() if received.nnz >= assembly.LARGE else None
            self._received_sums[1, direction] = row_sums(received)
            self._received_sums[0, direction] = column_sums(received, sent)
        return self._received_sums[axis, direction]

    def rows_of(self, nodes: Int[np.ndarray, " some"]) -> scipy.sparse.csr_array:
        """Return some rows of A."""
        return self._adjacency[nodes]

    @cached_property
    def neighbor_lists(self) -> tuple[NeighborLists, ...]:
        """The neighbors of each node, along the edges and against them, in one list or in two."""
        if self.direction == "both":
            matrices = [self._received_by_row]
        else:
            matrices = [self._adjacency] if self.is_symmetric else [self._adjacency, turn(self._adjacency)]
        return tuple(NeighborLists(matrix.indptr, matrix.indices) for matrix in matrices)

    @cached_property
    def messages(self) -> tuple[Int[Tensor, "2 messages"], Float[Tensor, " messages"]]:
        """Edges and weights for code that sends from source to target, as PyG does: the target receives."""
        received = self.received
        edges = _kept(np.stack([received.col, received.row]), torch.int64)
        return edges, _kept(received.data, torch.float64)

    @property
    def _normalized(self) -> scipy.sparse.csr_array:
        """P, in float64. It is not kept: `_matrix` keeps it in the precision and on the device that are used.

        A node that receives nothing, or that no node receives, has zeros: nothing is divided by 0.
        """
        received = self._received_by_row
        row_scale = _inverse_square_root(self.sums(received, 1))
        column_scale = _inverse_square_root(self.sums(received, 0))
        # Values are scaled where they are, because a product of sparse matrices takes several copies of them.
        values = np.repeat(row_scale, np.diff(received.indptr))
        values *= received.data
        values *= column_scale[received.indices]
        return scipy.sparse.csr_array((values, received.indices, received.indptr), received.shape)

    @property
    def _relaxed(self) -> scipy.sparse.csr_array:
        """I - L: equal to P, but a node that receives nothing keeps its own state. It is not kept either."""
        receives_nothing = self.sums(self._received_by_row, 1) == 0
        if not receives_nothing.any():
            return self._normalized
        return (self._normalized + scipy.sparse.diags_array(receives_nothing.astype(float))).tocsr()

    def messages_of_copies(
        self, num_copies: int, state: Tensor
    ) -> tuple[Int[Tensor, "2 messages"], Float[Tensor, " messages"]]:
        """Return the messages of separate copies of the graph, on the device and in the dtype of `state`."""
        key = (num_copies, state.device, state.dtype)
        if self._copied_messages is None or self._copied_messages[0] != key:
            with torch.inference_mode(False):  # as in `_kept`
                edges, weights = (each.to(state.device) for each in self.messages)
                offsets = torch.arange(num_copies, device=state.device) * self.num_nodes
                copies = (edges[:, None, :] + offsets[None, :, None]).flatten(1)
                self._copied_messages = (key, copies, weights.to(state.dtype).repeat(num_copies))
        return self._copied_messages[1:]

    @property
    def _identity(self) -> scipy.sparse.dia_array:
        return scipy.sparse.eye_array(self.num_nodes)

    def _scale_large(self, name: MatrixName, dtype: torch.dtype) -> SparseMatrix:
        """Return `_normalized` or `_relaxed` of a large graph, by several threads and without a copy in float64."""
        received, sent = self._received_by_row, self._assemble_sent()
        sums = self.sums(received, 1)
        receives_nothing = sums == 0
        has_loops = name == "_relaxed" and receives_nothing.any()
        scaling = Scaling(
            _inverse_square_root(sums),
            _inverse_square_root(self.sums(received, 0, sent)),
            receives_nothing if has_loops else None,
        )
        return scale_large(received, sent, scaling, dtype)

    def _make_matrix(self, name: MatrixName, state: Tensor) -> SparseMatrix | Tensor:
        is_small = self.num_nodes <= SMALL_GRAPH
        if name != "_identity" and not is_small and self._received_by_row.nnz >= assembly.LARGE:
            return self._scale_large(name, state.dtype).to(state.device, state.dtype)
        matrix: scipy.sparse.sparray = getattr(self, name)
        if not is_small:
            return SparseMatrix.from_scipy(matrix).to(state.device, state.dtype)
        dense = np.ascontiguousarray(matrix.toarray(), dtype=np.float64)
        return torch.from_numpy(dense).to(state.device, state.dtype)

    def _matrix(self, name: MatrixName, state: Tensor) -> SparseMatrix | Tensor:
        key = (name, state.device, state.dtype)
        if key not in self._matrices:
            with torch.inference_mode(False):  # as in `_kept`
                self._matrices[key] = self._make_matrix(name, state)
        return self._matrices[key]

    def propagate(self, state: Float[Tensor, "*batch nodes channels"]) -> Float[Tensor, "*batch nodes channels"]:
        """Return `P F`, what each node receives. Zero for a node that receives nothing."""
        self.check_state(state)
        return self._matrix("_normalized", state) @ state

    def laplacian(self, state: Float[Tensor, "*batch nodes channels"]) -> Float[Tensor, "*batch nodes channels"]:
        """Return `L F = F - P F`.

        Deviation: the paper does not say what happens to a node that receives nothing. Here its row of L is zero, so
        that its state stays as it is.
        """
        self.check_state(state)
        return state - self._matrix("_relaxed", state) @ state

    def diffuse(
        self, state: Float[Tensor, "*batch nodes channels"], step_size: float | Float[Tensor, ""]
    ) -> Float[Tensor, "*batch nodes channels"]:
        """Return `F - h L F`, one explicit step of the heat equation."""
        self.check_state(state)
        weight = step_size.to(state.dtype) if isinstance(step_size, Tensor) else step_size
        relaxed = self._matrix("_relaxed", state)
        if isinstance(relaxed, Tensor):
            # Both terms go into one matrix, which is smaller than a state.
            identity = self._matrix("_identity", state)
            assert isinstance(identity, Tensor)  # dense, as the other one is
            return torch.lerp(identity, relaxed, weight) @ state
        return torch.lerp(state, relaxed @ state, weight)

    def check_state(self, state: Tensor) -> None:
        """Raise an `InputError` unless `state` is a tensor (*batch, nodes, channels) in float32 or float64."""
        check_precision(state)
        if state.dim() < 2 or state.shape[-2] != self.num_nodes:
            raise InputError(
                f"Expected a state of shape (*batch, {self.num_nodes} nodes, channels), got {tuple(state.shape)}."
            )

    def __repr__(self) -> str:
        weighted = ", weighted" if self.is_weighted else ""
        return f"Graph(nodes={self.num_nodes}, edges={self.num_edges}, direction={self.direction!r}{weighted})"


def _weights_of_pyg(data: Data) -> Tensor | None:
    weights: Tensor | None = data.get("edge_weight")
    attributes = data.get("edge_attr")
    if weights is not None or not isinstance(attributes, Tensor) or not attributes.is_floating_point():
        return weights
    return attributes.flatten() if attributes.numel() == len(attributes) else None


def check_precision(state: Tensor) -> None:
    """Raise an `InputError` unless `state` is a tensor in float32 or float64: c needs that many digits."""
    if not isinstance(state, Tensor) or state.dtype not in (torch.float32, torch.float64):
        came = state.dtype if isinstance(state, Tensor) else type(state).__name__
        raise InputError(f"Expected the state to be a tensor in float32 or float64, got {came}. Convert it first.")


def _kept(values: Shaped[np.ndarray, "..."], dtype: torch.dtype) -> Tensor:
    """Make a tensor that is kept. Not in inference mode: no gradient could pass through it later."""
    with torch.inference_mode(False):
        return torch.as_tensor(values, dtype=dtype)


def _as_numpy(values: Tensor | ArrayLike, name: str) -> Shaped[np.ndarray, "..."]:
    if isinstance(values, Tensor):
        dense = values.detach().cpu()
        # NumPy does not know bfloat16.
        return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"Expected {name} to be a rectangular array of numbers, got {type(values).__name__}."
        ) from error


def _as_coordinates(adjacency: Any) -> scipy.sparse.coo_array:
    """Return a square adjacency matrix as its entries. Nothing is converted before it was checked."""
    is_sparse = scipy.sparse.issparse(adjacency)
    try:
        given: Any = check_sparse(adjacency, "an adjacency matrix") if is_sparse else np.asarray(adjacency)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Expected an adjacency matrix, got {type(adjacency).__name__}.") from error
    if given.dtype == object or given.ndim == 0:
        raise InputError(f"Expected an adjacency matrix, got {type(adjacency).__name__}.")
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise InputError(f"Expected a square adjacency matrix, got shape {given.shape}.")
    if given.dtype.kind not in "biuf":
        raise InputError(f"Expected edge weights to be real numbers, got {given.dtype}.")
    num_edges = int(given.nnz if is_sparse else np.count_nonzero(given))
    check_size(given.shape[0], num_edges, is_weighted=given.dtype != bool)
    if not is_sparse and given.dtype not in SCIPY_TYPES:
        given = given.astype(np.float64)
    return scipy.sparse.coo_array(given)


def check_size(num_nodes: int, num_edges: int, *, is_weighted: bool = True) -> None:
    """Raise an `InputError` if a graph takes more memory than an input may take."""
    edge_cost = EDGE_COST if is_weighted or num_edges < assembly.LARGE else PLAIN_EDGE_COST
    check_memory(num_nodes * NODE_COST + num_edges * edge_cost, f"a graph of {num_nodes:,} nodes")


def _check_edge_index(edge_index: Tensor | ArrayLike) -> tuple[EdgeEnds, EdgeEnds]:
    edges = _as_numpy(edge_index, "edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = " Transpose it." if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise InputError(f"Expected edge_index to have shape (2, edges), got {edges.shape}.{hint}")
    if edges.size and not np.issubdtype(edges.dtype, np.integer):
        raise InputError(f"Expected edge_index to hold integers, got {edges.dtype}.")
    return (edges[0], edges[1]) if edges.size else (np.zeros(0, dtype=np.int32),) * 2


def _check_num_nodes(num_nodes: int | None, sources: EdgeEnds, targets: EdgeEnds, *, is_weighted: bool) -> int:
    smallest, largest = _extremes(sources, targets)
    # Before any conversion, in which a number beyond int64 would become negative.
    if largest > np.iinfo(np.int64).max:
        raise InputError(f"Expected node indices that fit in 64 bits, got {largest} in edge_index.")
    if smallest < 0:
        raise InputError(f"Expected node indices from 0 on, got {smallest} in edge_index.")
    if num_nodes is None and largest < 0:
        raise InputError("Expected a graph with at least one node, got no edges and no num_nodes.")
    count = largest + 1 if num_nodes is None else num_nodes
    check_count(num_nodes=count)
    if largest >= count:
        raise InputError(f"Expected node indices between 0 and {count - 1}, got {largest} in edge_index.")
    check_size(int(count), len(sources), is_weighted=is_weighted)
    return int(count)


def _extremes(sources: EdgeEnds, targets: EdgeEnds) -> tuple[int, int]:
    """Return the smallest and the largest number of a node; 0 and -1 if there are no edges."""
    if len(sources) == 0:
        return 0, -1
    parts = [ends[part] for ends in (sources, targets) for part in chunks_of(len(sources))]
    found = in_threads(lambda part: (int(part.min()), int(part.max())), parts)
    return min(least for least, _ in found), max(most for _, most in found)


def _check_weights(edge_weight: Tensor | ArrayLike, num_edges: int) -> EdgeWeights:
    """Return the weights in the type that they came in."""
    weights = _as_numpy(edge_weight, "edge_weight")
    if weights.shape != (num_edges,):
        raise InputError(f"Expected one weight for each of the {num_edges} edges, got shape {weights.shape}.")
    if not (np.issubdtype(weights.dtype, np.number) or weights.dtype == bool) or np.iscomplexobj(weights):
        raise InputError(f"Expected edge weights to be real numbers, got {weights.dtype}.")
    wrong = in_threads(lambda part: _find_wrong(weights, part), chunks_of(num_edges))
    if (first := next((place for place in wrong if place is not None), None)) is not None:
        weight = float(weights[first])
        is_large = np.isfinite(weight) and weight > 0
        expected = f"at most {LARGEST_VALUE:g}" if is_large else "finite and not negative"
        raise InputError(f"Expected edge weights to be {expected}, got {weight} at edge {first}.")
    return weights


def _find_wrong(weights: EdgeWeights, part: slice) -> int | None:
    """Return the place of the first wrong weight in a part of them."""
    values = weights[part].astype(np.float64, copy=False)
    is_wrong = ~((values >= 0) & (values <= LARGEST_VALUE))
    return part.start + int(np.argmax(is_wrong)) if is_wrong.any() else None


def _assemble(
    sources: EdgeEnds,
    targets: EdgeEnds,
    weights: Shaped[np.ndarray, " edges"] | None,
    num_nodes: int,
    *,
    keep_self_loops: bool,
) -> scipy.sparse.csr_array:
    """Return A, with edges that are listed more than once counted once, or summed if there are weights."""
    shape = (num_nodes, num_nodes)
    if len(sources) >= assembly.LARGE:
        entries = ListedEntries(sources, targets, weights, shape)
        return compress(entries, without_loops=not keep_self_loops, without_zeros=weights is not None)
    # Half of the memory where it suffices.
    kind = index_type(shape, len(sources))
    sources, targets = sources.astype(kind, copy=False), targets.astype(kind, copy=False)
    # Booleans take an eighth of the memory, and their sum is true.
    values = np.ones(len(sources), dtype=bool) if weights is None else weights.astype(np.float64, copy=False)
    if not keep_self_loops and not (keep := sources != targets).all():
        sources, targets, values = sources[keep], targets[keep], values[keep]
    summed = scipy.sparse.coo_array((values, (sources, targets)), shape=shape).tocsr()
    if weights is not None:
        # Nothing is received along an edge of weight zero.
        summed.eliminate_zeros()
    return summed


def _inverse_square_root(sums: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    is_positive = sums > 0
    return np.where(is_positive, 1.0 / np.sqrt(np.where(is_positive, sums, 1.0)), 0.0)


def is_pyg_data(value: Any) -> TypeGuard[Data]:
    """Return whether a value is PyG data."""
    module = sys.modules.get("torch_geometric.data")
    return module is not None and isinstance(value, module.Data)
