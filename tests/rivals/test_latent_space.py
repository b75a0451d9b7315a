import networkx
import numpy as np
import pytest
import scipy.sparse

from tdegnn import Graph, InputError
from tdegnn.data.benchmarks.geom_gcn import read_relations
from tdegnn.rivals.nodes import latent_space
from tdegnn.rivals.nodes.latent_space import relations_of, use_relations
from tests.core.checkers import weighted_graph


def positions_of(graph):
    links = latent_space._links(graph.with_direction("both").received)
    components = scipy.sparse.csgraph.connected_components(links, directed=False)[1]
    return latent_space._place_nodes(links, components)


def random_graph(num_nodes=60, seed=1, direction="out"):
    edges = np.random.default_rng(seed).integers(0, num_nodes, (2, 2 * num_nodes))
    return Graph(edges, num_nodes + 1, direction=direction)


def check_relabeling(graph, seed=0):
    permutation = np.random.default_rng(seed).permutation(graph.num_nodes)
    renamed = Graph(permutation[graph.edge_index], graph.num_nodes, direction=graph.direction)
    for before, after in zip(relations_of(graph), relations_of(renamed), strict=True):
        np.testing.assert_array_equal(after.toarray()[np.ix_(permutation, permutation)], before.toarray())


def cut_grid():
    """A corner is cut off, or the mirror images of the grid would leave no position determined."""
    grid = networkx.grid_2d_graph(7, 12)
    grid.remove_nodes_from([(0, 0), (0, 1), (1, 0)])
    return Graph.from_networkx(networkx.convert_node_labels_to_integers(grid, label_attribute="place"))


def test_a_grid_keeps_its_shape():
    found = positions_of(cut_grid())
    given = np.array([(column, row) for row in range(7) for column in range(12) if row + column > 1], dtype=float)
    for dimension in range(2):
        assert abs(np.corrcoef(found[:, dimension], given[:, dimension])[0, 1]) > 0.95


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_relations_split_the_neighbors_by_quadrant(direction):
    graph = random_graph(direction=direction)
    relations = [relation.toarray() for relation in relations_of(graph)]
    received = (graph.received.toarray() != 0).astype(float)
    np.testing.assert_array_equal(sum(relations[:4]), received)
    np.testing.assert_array_equal(relations[8], np.eye(graph.num_nodes))
    latent = sum(relations[4:8])
    links = graph.with_direction("both").received.toarray() != 0
    assert set(np.unique(latent)) == {0.0, 1.0}
    assert (latent == latent.T).all()
    assert not (latent * (links + np.eye(graph.num_nodes))).any()
    assert 0.9 * received.sum() < latent.sum() <= received.sum()
    positions = positions_of(graph)
    right, up = np.moveaxis(positions[None, :] - positions[:, None], -1, 0)
    for space in (relations[:4], relations[4:8]):
        assert [((up[each > 0] >= 0).all(), (right[each > 0] > 0).all()) for each in space] == [
            (True, False),
            (True, True),
            (False, False),
            (False, True),
        ]
    # Latent neighbors are the nearest nodes that are not linked.
    distances = np.hypot(right, up)
    others = (latent == 0) & ~links & (distances > 0)
    components = scipy.sparse.csgraph.connected_components(links, directed=False)[1]
    others &= components[:, None] == components[None, :]
    assert distances[latent > 0].max() <= distances[others].min() + 1e-5


def test_a_node_that_is_isolated_is_related_to_itself_only():
    relations = relations_of(weighted_graph())
    assert [relation[[-1]].nnz for relation in relations] == [0] * 8 + [1]


def test_relabeling_changes_nothing():
    check_relabeling(random_graph())


@pytest.mark.parametrize(
    "symmetric",
    [networkx.cycle_graph(9), networkx.star_graph(6), networkx.path_graph(5), networkx.complete_graph(5)],
    ids=["cycle", "star", "path", "complete"],
)
def test_relabeling_changes_nothing_in_symmetric_graphs(symmetric):
    check_relabeling(Graph.from_networkx(symmetric))


def test_landmarks_are_enough(monkeypatch):
    exact = positions_of(cut_grid())
    monkeypatch.setattr(latent_space, "MOST_LANDMARKS", 40)
    near = positions_of(cut_grid())
    assert not np.allclose(near, exact)
    assert np.corrcoef(near[:, 0], exact[:, 0])[0, 1] > 0.95
    check_relabeling(random_graph())


def test_landmarks_that_all_tie_are_taken_in_order(monkeypatch):
    monkeypatch.setattr(latent_space, "MOST_LANDMARKS", 5)
    links = latent_space._links(Graph.from_networkx(networkx.cycle_graph(9)).received)
    assert latent_space._choose_landmarks(links).tolist() == [0, 1, 2, 3, 4]


def test_many_nodes_at_one_place_are_no_latent_neighbors():
    hub = np.zeros(2_000, dtype=np.int64)
    relations = relations_of(Graph([hub, np.arange(1, 2_001)], direction="both"))
    assert sum(relation.nnz for relation in relations[4:8]) == 0


def test_relations_are_made_once_and_are_those_given():
    graph = weighted_graph()
    relations = relations_of(graph)
    assert relations_of(graph) is relations
    use_relations(graph, relations)
    with pytest.raises(InputError, match="Expected a graph without relations, got one that has others already. Make"):
        use_relations(graph, relations[::-1])
    with pytest.raises(InputError, match=r"Expected 9 relations of shape \(7, 7\), got shapes \[\(7, 7\)\]"):
        use_relations(weighted_graph(), relations[:1])


def test_a_table_of_relations_is_read(tmp_path):
    path = tmp_path / "relations.txt"
    path.write_text(
        "node1,node2\tspace\trelation_type\n0,1\tgraph\t3\n1,0\tgraph\t0\n2,1\tgraph\t1\n2,1\tlatent_space\t2\n"
    )
    relations = read_relations(path, 3)
    entries = {number: np.argwhere(relation.toarray()).tolist() for number, relation in enumerate(relations)}
    # The receiver comes first. The pair in two spaces has the relation of its last line.
    expected = {0: [[0, 1]], 3: [[1, 0]], 6: [[1, 2]], 8: [[0, 0], [1, 1], [2, 2]]}
    assert {number: pairs for number, pairs in entries.items() if pairs} == expected
