"""Large matrices are made by several threads, a range of rows at a time: as SciPy makes them at once, bit for bit."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tdegnn import Graph, InputError, assembly
from tdegnn.assembly import ListedEntries, column_sums, compress, join_both_ways, row_sums, sort_by_range, turn
from tdegnn.sparse import plain_products
from tdegnn.subgraph import Subgraph

DIRECTIONS = ("out", "in", "both")
MATRICES = ("_normalized", "_relaxed")
PARTS = (
    "row_pointers",
    "columns",
    "values",
    "transposed_row_pointers",
    "transposed_columns",
    "transposed_values",
    "transposed_order",
)


@pytest.fixture
def small_is_large(monkeypatch):
    """Every graph is a large one, of many chunks and ranges. Returns a function that sets the number of threads."""
    for name, value in {"LARGE": 1, "CHUNK": 29, "RANGE": 17, "MOST_RANGES": 16, "MOST_GROUPS": 64}.items():
        monkeypatch.setattr(assembly, name, value)
    return lambda number: monkeypatch.setattr(torch, "get_num_threads", lambda: number)


def draw_edges(seed, num_nodes, num_edges, kind):
    """Draw edges with duplicates, self-loops and nodes without edges."""
    draw = np.random.default_rng(seed)
    edges = draw.integers(0, max(1, num_nodes - 3), (2, num_edges))
    if kind == "power":
        edges[1] = (num_nodes * draw.random(num_edges) ** 4).astype(np.int64)
    if kind == "symmetric":
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    edges = np.concatenate([edges, edges[:, : num_edges // 3], edges[:, : num_edges // 5]], axis=1)
    weights = draw.random(edges.shape[1]) * (draw.random(edges.shape[1]) < 0.9)
    return edges, weights


def assert_same_matrices(one, other):
    assert one.shape == other.shape
    for name in ("indptr", "indices", "data"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def assert_same_graphs(large, make_small):
    """Compare a graph that threads made with one that SciPy made, and what is made from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "LARGE", 10**9)
        small = make_small()
        expected = {
            (name, dtype): small._matrix(name, torch.zeros(0, dtype=dtype))
            for name in MATRICES
            for dtype in (torch.float32, torch.float64)
        }
        sums = [small.received_sums(axis, direction) for axis in (0, 1) for direction in DIRECTIONS]
        lists = small.neighbor_lists
        small.received  # noqa: B018 - it is kept
    assert_same_matrices(large._adjacency, small._adjacency)
    assert_same_matrices(large._received_by_row, small._received_by_row)
    assert large.equals(small)
    for (name, dtype), matrix in expected.items():
        mine = large._matrix(name, torch.zeros(0, dtype=dtype))
        for part in PARTS:
            assert torch.equal(getattr(mine, part).to(getattr(matrix, part).dtype), getattr(matrix, part)), part
        assert mine.values.dtype == dtype
        assert mine.columns.dtype == torch.int32
    found = [large.received_sums(axis, direction) for axis in (0, 1) for direction in DIRECTIONS]
    for mine, theirs in zip(found, sums, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(large.neighbor_lists, lists, strict=True):
        np.testing.assert_array_equal(mine.starts, theirs.starts)
        np.testing.assert_array_equal(mine.nodes, theirs.nodes)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("kind", ["random", "power", "symmetric"])
def test_threads_make_the_graph_that_scipy_makes(small_is_large, direction, is_weighted, kind):
    small_is_large(4)
    for seed, (num_nodes, num_edges) in enumerate([(70, 400), (300, 200)]):
        edges, weights = draw_edges(seed, num_nodes, num_edges, kind)
        arguments = edges, num_nodes, weights if is_weighted else None, direction
        for keep in (False, True):
            make = lambda: Graph(*arguments, keep_self_loops=keep)  # noqa: B023, E731
            assert_same_graphs(make(), make)


@settings(max_examples=25, deadline=None)
@given(
    num_nodes=st.integers(65, 300),
    num_edges=st.integers(1, 400),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["random", "power", "symmetric"]),
    direction=st.sampled_from(DIRECTIONS),
    is_weighted=st.booleans(),
    sizes=st.tuples(st.integers(1, 500), st.integers(1, 500), st.integers(1, 256), st.integers(1, 512)),
    num_threads=st.integers(1, 8),
)
def test_any_chunks_ranges_and_threads_make_the_same_graph(
    num_nodes, num_edges, seed, kind, direction, is_weighted, sizes, num_threads
):
    edges, weights = draw_edges(seed, num_nodes, num_edges, kind)
    make = lambda: Graph(edges, num_nodes, weights if is_weighted else None, direction)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: num_threads)
        for name, value in zip(("CHUNK", "RANGE", "MOST_RANGES", "MOST_GROUPS"), sizes, strict=True):
            patch.setattr(assembly, name, value)
        patch.setattr(assembly, "LARGE", 1)
        graph = make()
        if graph._received_by_row.nnz:
            assert_same_graphs(graph, make)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_parts_of_a_large_graph_are_those_of_a_small_one(small_is_large, direction, is_weighted):
    small_is_large(3)
    edges, weights = draw_edges(0, 300, 900, "random")
    make = lambda: Subgraph(  # noqa: E731
        Graph(edges, 300, weights if is_weighted else None, direction), np.arange(20, 280, 2)
    )
    assert_same_graphs(make(), make)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("precision", [np.float16, np.float32, np.int64, bool])
def test_edges_and_weights_may_have_any_type(small_is_large, kind, precision):
    small_is_large(2)
    edges, weights = draw_edges(0, 100, 300, "random")
    given_weights = (10 * weights).astype(precision)
    large = Graph(edges.astype(kind), 100, given_weights)
    expected = Graph(edges, 100, given_weights.astype(np.float64))
    assert torch.equal(large.edge_index, expected.edge_index)
    # Weights in float32 stay so. Edges that are listed more than once are summed in float64, and rounded once.
    is_short = precision is np.float32
    assert large._adjacency.dtype == (np.float32 if is_short else np.float64)
    weights = expected.edge_weight.float().double() if is_short else expected.edge_weight
    assert torch.equal(large.edge_weight, weights)
    assert Graph(np.asfortranarray(edges.astype(kind)), 100, given_weights).equals(large)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_large_graph_of_weights_in_float32_is_one_of_the_same_weights_in_float64(small_is_large, direction):
    small_is_large(3)
    edges, weights = draw_edges(0, 300, 900, "random")
    edges, places = np.unique(edges, axis=1, return_index=True)  # nothing is summed
    short = weights[places].astype(np.float32)
    one, other = (Graph(edges, 300, each, direction) for each in (short, short.astype(np.float64)))
    assert one._received_by_row.dtype == np.float32
    assert one.equals(other)
    for axis in (0, 1):
        assert one.received_sums(axis, direction).dtype == np.float64
        np.testing.assert_array_equal(one.received_sums(axis, direction), other.received_sums(axis, direction))
    for name in MATRICES:
        mine, theirs = (graph._matrix(name, torch.zeros(0, dtype=torch.float64)) for graph in (one, other))
        assert torch.equal(mine.values, theirs.values)


def test_weights_in_float32_take_half_of_the_memory_unless_sums_would_not_fit():
    num_edges = assembly.LARGE
    ends = np.arange(num_edges, dtype=np.int32)
    peaks = {}
    for kind in (np.float32, np.float64):
        weights = np.ones(num_edges, dtype=kind)
        tracemalloc.start()
        graph = Graph(np.stack([ends, ends[::-1]]), num_edges, weights, "out")
        peaks[kind] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert graph._adjacency.data.nbytes == weights.nbytes
        assert graph._adjacency.dtype == kind
    assert peaks[np.float64] - peaks[np.float32] > 3.5 * num_edges
    weights = np.full(num_edges, 3e38, dtype=np.float32)
    graph = Graph(np.zeros((2, num_edges), dtype=np.int32), 1, weights, keep_self_loops=True)
    assert graph.edge_weight.item() == pytest.approx(num_edges * 3e38, rel=1e-6)


def test_products_with_a_large_graph_and_their_gradients_are_those_of_a_small_one(small_is_large):
    edges, weights = draw_edges(0, 100, 300, "random")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "LARGE", 10**9)
        small = Graph(edges, 100, weights, "out")
        small.propagate(torch.zeros(100, 1)), small.diffuse(torch.zeros(100, 1), 0.1)
    small_is_large(2)
    large = Graph(edges, 100, weights, "out")
    states = [torch.randn(2, 100, 3, requires_grad=True)]
    states.append(states[0].detach().clone().requires_grad_())
    for graph, state in zip((small, large), states, strict=True):
        graph.diffuse(graph.propagate(state), 0.3).square().sum().backward()
    assert torch.equal(states[0].grad, states[1].grad)
    members = states[0].detach()
    assert torch.equal(torch.func.vmap(large.propagate)(members), torch.func.vmap(small.propagate)(members))
    one, other = (graph._matrix("_normalized", members) for graph in (large, small))
    values = torch.rand(one.values.numel())
    for make in (lambda matrix: matrix, lambda matrix: matrix.with_values(values), lambda matrix: matrix.copies(2)):
        assert torch.equal(make(one).to_dense(), make(other).to_dense())
        assert torch.equal(make(one).transposed.to_dense(), make(other).transposed.to_dense())
    with plain_products():
        assert torch.equal(one @ members, other @ members)
    # Devices without our kernels have indices of 64 bits.
    assert one.to(torch.device("meta"), torch.float32).columns.dtype == torch.int64
    with pytest.raises(InputError, match="got nan at edge 200"):
        Graph(edges, 100, np.where(np.arange(len(weights)) == 200, np.nan, weights))


def test_a_large_symmetric_graph_keeps_its_matrices_once(small_is_large):
    small_is_large(2)
    edges, _ = draw_edges(0, 100, 300, "symmetric")
    graph = Graph(edges, 100)
    assert graph._received_by_row is graph._adjacency
    matrix = graph._matrix("_normalized", torch.zeros(0))
    assert matrix.transposed_columns is matrix.columns
    assert matrix.transposed_values is matrix.values
    assert matrix.columns.data_ptr() == graph._adjacency.indices.ctypes.data


def test_matrices_that_are_not_square_are_compressed_and_turned(small_is_large):
    small_is_large(2)
    draw = np.random.default_rng(0)
    rows, columns = (draw.integers(0, size, 500).astype(np.int32) for size in (50, 90))
    values = draw.random(500)
    expected = scipy.sparse.coo_array((values, (rows, columns)), shape=(50, 90)).tocsr()
    found = compress(ListedEntries(rows, columns, values, (50, 90)))
    assert_same_matrices(found, expected)
    assert_same_matrices(turn(found), expected.T.tocsr())
    np.testing.assert_array_equal(row_sums(found), expected.sum(axis=1))
    np.testing.assert_array_equal(column_sums(found, turn(found)), expected.sum(axis=0))


def test_ranges_have_about_as_many_entries_each_and_keep_their_order(small_is_large):
    small_is_large(3)
    rows = (1000 * np.random.default_rng(0).random(2000) ** 3).astype(np.int64)
    entries = sort_by_range(ListedEntries(rows, np.arange(2000), None, (1000, 2000)))
    lengths = np.diff(entries.starts)
    assert entries.num_ranges == len(lengths) > 3
    for number in range(entries.num_ranges):
        part = slice(entries.starts[number], entries.starts[number + 1])
        assert (np.diff(entries.columns[part]) > 0).all()
        np.testing.assert_array_equal(entries.rows[part] + entries.first_rows[number], rows[entries.columns[part]])
    heaviest = np.bincount(rows >> 4).max()
    assert lengths.max() <= 2000 / assembly.MOST_RANGES + heaviest


def test_one_way_edges_are_joined_with_their_reverse(small_is_large):
    small_is_large(2)
    matrix = scipy.sparse.csr_array(np.triu(np.random.default_rng(0).random((40, 40)), 1))
    np.testing.assert_array_equal(join_both_ways(matrix).toarray(), (matrix + matrix.T).toarray())
