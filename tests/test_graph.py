import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import get_laplacian

from tdegnn import Graph, InputError
from tdegnn.sparse import SparseMatrix
from tests.golden import CASES, graph_of, tensor_of


@pytest.mark.parametrize("case", CASES["propagation"], ids=lambda case: case["direction"])
def test_operators_agree_with_golden_cases(case, device):
    graph, state = graph_of(case), tensor_of(case["state"]).to(device)
    close = {"atol": 1e-9, "rtol": 0}
    torch.testing.assert_close(graph.propagate(state).cpu(), tensor_of(case["propagated"]), **close)
    torch.testing.assert_close(graph.laplacian(state).cpu(), tensor_of(case["laplacian_applied"]), **close)
    diffused = state.cpu() - 0.3 * tensor_of(case["laplacian_applied"])
    torch.testing.assert_close(graph.diffuse(state, 0.3).cpu(), diffused, **close)


def random_edges(num_nodes=12, num_edges=30, seed=0):
    edges = np.random.default_rng(seed).integers(0, num_nodes, (2, num_edges))
    return edges[:, edges[0] != edges[1]]


def test_laplacian_of_both_directions_is_that_of_pyg_where_a_node_has_neighbors():
    edges = random_edges()
    both_ways = torch.as_tensor(np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1))
    index, weight = get_laplacian(both_ways, normalization="sym", num_nodes=12, dtype=torch.float64)
    dense = torch.sparse_coo_tensor(index, weight, (12, 12), check_invariants=True).to_dense()
    ours = Graph(edges, 12).laplacian(torch.eye(12, dtype=torch.float64))
    has_neighbors = torch.bincount(both_ways[0], minlength=12) > 0
    assert has_neighbors.any()
    torch.testing.assert_close(ours[has_neighbors], dense[has_neighbors])


def test_node_that_receives_nothing_has_zero_rows():
    graph = Graph([[0, 1], [1, 2]], num_nodes=4, direction="out")
    state = torch.randn(4, 3)
    for node in (2, 3):
        assert (graph.propagate(state)[node] == 0).all()
        assert (graph.laplacian(state)[node] == 0).all()
        torch.testing.assert_close(graph.diffuse(state, 0.5)[node], state[node])


def test_relabelled_graph_gives_relabelled_result():
    edges, state = random_edges(), torch.randn(12, 3, dtype=torch.float64)
    permutation = np.random.default_rng(1).permutation(12)
    for direction in ("out", "in", "both"):
        plain = Graph(edges, 12, direction=direction).propagate(state)
        renamed = Graph(permutation[edges], 12, direction=direction).propagate(state[np.argsort(permutation)])
        torch.testing.assert_close(renamed[permutation], plain)


def test_unweighted_duplicates_count_once_and_weighted_ones_are_summed():
    duplicated = [[0, 0, 1], [1, 1, 2]]
    state = torch.randn(3, 2, dtype=torch.float64)
    torch.testing.assert_close(Graph(duplicated).propagate(state), Graph([[0, 1], [1, 2]]).propagate(state))
    summed = Graph([[0, 1], [1, 2]], edge_weight=[5.0, 1.0])
    torch.testing.assert_close(Graph(duplicated, edge_weight=[2.0, 3.0, 1.0]).propagate(state), summed.propagate(state))


def test_self_loops_are_kept_only_on_request():
    edges = [[0, 0], [0, 1]]
    assert Graph(edges).num_edges == 1
    assert Graph(edges, keep_self_loops=True).num_edges == 2


def test_batch_axes_ride_along(device):
    graph = Graph(random_edges(), 12, direction="out")
    states = torch.randn(2, 5, 12, 3, dtype=torch.float64, device=device)
    together = graph.laplacian(states)
    for i in range(2):
        for j in range(5):
            torch.testing.assert_close(together[i, j], graph.laplacian(states[i, j]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_result_keeps_precision_and_device(dtype, device):
    result = Graph(random_edges(), 12).propagate(torch.randn(12, 2, dtype=dtype, device=device))
    assert (result.dtype, result.device.type) == (dtype, device.type)


def test_gradients_of_the_sparse_product_pass_gradcheck():
    graph = Graph(random_edges(), 12, direction="out")
    state = torch.randn(2, 12, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(graph.propagate, (state,))
    assert torch.autograd.gradgradcheck(graph.laplacian, (state,))


def test_members_of_vmap_are_folded_into_channels():
    graph = Graph(random_edges(), 12, direction="out")
    states = torch.randn(4, 12, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(graph.propagate)(states), graph.propagate(states))
    loss = lambda state: graph.propagate(state).square().sum()  # noqa: E731
    gradients = torch.func.vmap(torch.func.grad(loss))(states)
    torch.testing.assert_close(gradients[1], torch.func.grad(loss)(states[1]))


def test_pyg_round_trip_keeps_edges_weights_and_nodes():
    graph = Graph([[0, 1, 2], [1, 2, 0]], 5, [1.0, 2.0, 3.0], "out")
    again = Graph.from_pyg(graph.to_pyg(), "out")
    state = torch.randn(5, 2)
    assert (again.num_nodes, again.num_edges, again.is_weighted) == (5, 3, True)
    torch.testing.assert_close(again.propagate(state), graph.propagate(state))
    assert not Graph.from_pyg(Data(edge_index=graph.edge_index, num_nodes=5)).is_weighted


def test_networkx_and_scipy_graphs_agree():
    source = networkx.DiGraph()
    source.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 1.0), ("c", "a", 0.5)])
    adjacency = networkx.to_scipy_sparse_array(source)
    state = torch.randn(3, 2)
    for direction in ("out", "in", "both"):
        torch.testing.assert_close(
            Graph.from_networkx(source, direction).propagate(state),
            Graph.from_scipy(adjacency, direction).propagate(state),
        )
    assert Graph.from_scipy(scipy.sparse.csr_matrix(adjacency)).num_edges == 3
    assert Graph.from_networkx(networkx.path_graph(4)).num_edges == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(edge_index=[[0, 1], [1, 5]], num_nodes=3), r"between 0 and 2, got 5"),
        (dict(edge_index=[[0, -1], [1, 0]]), r"got -1"),
        (dict(edge_index=[[0, 1], [1, 2], [2, 0]]), r"shape \(2, edges\), got \(3, 2\). Transpose it"),
        (dict(edge_index=[[0.5], [1.0]]), r"hold integers, got float64"),
        (dict(edge_index=[[0, 1], [1]]), r"rectangular array"),
        (dict(edge_index=np.empty((2, 0), int)), r"at least one node"),
        (dict(edge_index=[[0], [1]], edge_weight=[float("nan")]), r"finite and not negative, got nan at edge 0"),
        (dict(edge_index=[[0], [1]], edge_weight=[-1.0]), r"got -1.0 at edge 0"),
        (dict(edge_index=[[0], [1]], edge_weight=[1.0, 2.0]), r"each of the 1 edges, got shape \(2,\)"),
        (dict(edge_index=[[0], [1]], edge_weight=["heavy"]), r"real numbers"),
    ],
)
def test_wrong_edges_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Graph(**arguments)


def test_wrong_direction_matrix_and_state_are_refused():
    with pytest.raises(InputError, match="'out', 'in' or 'both', got 'up'"):
        Graph([[0], [1]], direction="up")
    with pytest.raises(InputError, match=r"square adjacency matrix, got shape \(2, 3\)"):
        Graph.from_scipy(np.ones((2, 3)))
    with pytest.raises(InputError, match="Data without one"):
        Graph.from_pyg(Data(num_nodes=3))
    partly_weighted = networkx.Graph([(0, 1, {"weight": 1.0}), (1, 2)])
    with pytest.raises(InputError, match="got some edges without it"):
        Graph.from_networkx(partly_weighted)
    graph = Graph([[0], [1]])
    with pytest.raises(InputError, match=r"2 nodes, channels\), got \(3, 4\)"):
        graph.check_state(torch.zeros(3, 4))
    with pytest.raises(InputError, match=r"float32 or float64, got torch.int64"):
        graph.check_state(torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(InputError, match="float32 or float64, got list"):
        graph.check_state([[1.0], [2.0]])


def test_repr_shows_sizes():
    assert repr(Graph([[0], [1]], edge_weight=[2.0])) == "Graph(nodes=2, edges=1, direction='both', weighted)"


def test_edges_of_weight_zero_are_none():
    graph = Graph([[0, 1], [1, 2]], edge_weight=[0.0, 2.0])
    assert graph.num_edges == 1
    assert graph.num_nodes == 3


def test_weights_can_be_left_out():
    graph = Graph([[0, 1], [1, 2]], edge_weight=[5.0, 2.0], direction="out")
    state = torch.randn(3, 2)
    plain = Graph([[0, 1], [1, 2]], direction="out")
    torch.testing.assert_close(graph.without_weights().propagate(state), plain.propagate(state))
    assert not Graph.from_scipy(np.eye(3, k=1, dtype=bool)).is_weighted


@pytest.mark.parametrize("name", ["edge_index", "edge_weight", "messages"])
def test_what_a_graph_keeps_can_be_differentiated_through_later(name):
    graph = Graph([[0, 1], [1, 2]])
    with torch.inference_mode():
        getattr(graph, name)
    kept = getattr(graph, name)
    for part in kept if isinstance(kept, tuple) else (kept,):
        assert not part.is_inference()


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_self_loops_are_added_where_there_are_none(direction):
    bare = Graph([[0, 1], [1, 2]], 4, direction=direction)
    looped = bare.with_self_loops()
    np.testing.assert_array_equal(looped.received.toarray(), bare.received.toarray() + np.eye(4))
    assert (looped.direction, looped.is_weighted) == (direction, False)
    assert looped.with_self_loops().equals(looped)
    weighted = Graph([[0, 1, 2], [1, 2, 2]], 4, [0.5, 2.0, 3.0], direction, keep_self_loops=True)
    diagonal = weighted.with_self_loops().received.diagonal()
    assert diagonal.tolist() == [1.0, 1.0, 3.0, 1.0]


def test_a_symmetric_matrix_keeps_its_two_halves_once():
    draw = np.random.default_rng(0)
    dense = np.triu(draw.random((7, 7)) < 0.4, 1).astype(float)
    for matrix in (dense, dense + dense.T, dense + 2 * dense.T):
        sparse = SparseMatrix.from_scipy(scipy.sparse.csr_array(matrix)).to(torch.device("cpu"), torch.float32)
        has_same_pattern = ((matrix != 0) == (matrix != 0).T).all()
        assert (sparse.transposed_columns is sparse.columns) == has_same_pattern
        assert (sparse.transposed_values is sparse.values) == bool((matrix == matrix.T).all())
        state = torch.as_tensor(draw.random((7, 2)), dtype=torch.float32)
        expected = torch.as_tensor(matrix, dtype=torch.float32)
        torch.testing.assert_close(sparse @ state, expected @ state)
        torch.testing.assert_close(sparse.transposed @ state, expected.mT @ state)


def test_indices_take_half_of_the_memory_where_that_suffices():
    graph = Graph(random_edges(), 12)
    assert graph.received.row.dtype == np.int32
    assert graph.edge_index.dtype == torch.int64
