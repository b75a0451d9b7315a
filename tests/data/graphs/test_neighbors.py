import numpy as np
import pytest

from tdegnn import InputError
from tdegnn.data.graphs.neighbors import correlation_graph, neighbor_graph, read_coordinates
from tdegnn.data.panel import Panel


def neighbors_of(graph, node):
    sources, targets = graph.edge_index.numpy()
    return set(targets[sources == node].tolist())


def test_each_node_is_linked_to_its_nearest():
    points = np.random.default_rng(0).normal(size=(30, 3))
    graph = neighbor_graph(points, 4)
    for node in range(30):
        distances = np.linalg.norm(points - points[node], axis=1)
        assert neighbors_of(graph, node) == set(np.argsort(distances)[1:5].tolist())


def test_weights_fall_with_distance():
    graph = neighbor_graph([[0.0], [1.0], [3.0]], 2)
    weights = np.zeros((3, 3))
    weights[tuple(graph.edge_index.numpy())] = graph.edge_weight.numpy()
    assert weights[0, 1] > weights[1, 2] > weights[0, 2] > 0


def test_on_the_globe_the_date_line_is_no_border():
    fiji, samoa, honolulu = (-17.7, 178.0), (-13.8, -171.8), (21.3, -157.9)
    graph = neighbor_graph([fiji, samoa, honolulu], 1, "haversine")
    assert neighbors_of(graph, 0) == {1}
    assert neighbors_of(neighbor_graph([fiji, samoa, honolulu], 1), 1) == {2}


def test_nodes_at_one_place_are_neighbors():
    assert neighbor_graph(np.zeros((3, 2)), 2).num_edges == 6


@pytest.mark.parametrize("has_gaps", [False, True])
def test_correlation_is_that_of_numpy(has_gaps):
    random = np.random.default_rng(1)
    values = random.normal(size=(60, 3)) @ random.normal(size=(3, 8)) + random.normal(size=(60, 8)) + 100
    if has_gaps:
        values[random.random(values.shape) < 0.2] = np.nan
    graph = correlation_graph(Panel.from_array(values), 60, num_neighbors=7)
    dense = np.zeros((8, 8))
    dense[tuple(graph.edge_index.numpy())] = graph.edge_weight.numpy()
    for first in range(8):
        for second in range(8):
            both = ~np.isnan(values[:, first] + values[:, second])
            expected = np.corrcoef(values[both, first], values[both, second])[0, 1] if first != second else 0.0
            assert dense[first, second] == pytest.approx(max(expected, 0.0), abs=1e-9)


def test_a_node_of_another_size_does_not_hide_the_others():
    random = np.random.default_rng(5)
    common = random.normal(size=100)
    values = np.stack([common, common + 0.01 * random.normal(size=100), 1e9 + 1e7 * random.normal(size=100)], axis=1)
    graph = correlation_graph(Panel.from_array(values), 100, 1)
    assert neighbors_of(graph, 0) == {1}
    assert neighbors_of(graph, 1) == {0}


def test_only_the_training_part_is_looked_at():
    random = np.random.default_rng(2)
    values = random.normal(size=(100, 6))
    changed = values.copy()
    changed[80:] = random.normal(size=(20, 6))
    graphs = [correlation_graph(Panel.from_array(series), 80, 2) for series in (values, changed)]
    assert graphs[0].equals(graphs[1])


def test_a_constant_node_has_no_neighbors_by_correlation():
    values = np.random.default_rng(3).normal(size=(50, 4)).cumsum(axis=0)
    values[:, 0] = 0.1
    assert neighbors_of(correlation_graph(Panel.from_array(values), 50, 3), 0) == set()


def test_coordinates_are_read_in_the_order_of_the_nodes(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("lon,name,lat\n2.3,Paris,48.9\n12.5,Rome,41.9\n")
    points, metric = read_coordinates(path, ("Rome", "Paris"))
    assert (points.tolist(), metric) == ([[41.9, 12.5], [48.9, 2.3]], "haversine")
    path.write_text("node,x,population,y\nA,1,2,3\nB,4,5,6\n")
    points, metric = read_coordinates(path, ("A",))
    assert (points.tolist(), metric) == ([[1.0, 3.0]], "euclidean")
    path.write_text("node,country,lat,lon\nA,FR,1,2\n")
    assert read_coordinates(path, ("A",))[0].tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,lat,height\nA,1,2\n", "latitude and longitude, got only one of them"),
        ("node,x,y\nA,1,2\nA,3,4\n", "each node once, got 'A' again in line 3 of places.csv"),
        ("node,a,b,c,d\nA,1,2,3,4\n", "columns latitude and longitude, or x and y"),
    ],
)
def test_wrong_coordinates_are_refused(text, message, tmp_path):
    path = tmp_path / "places.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_coordinates(path, ("A",))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: neighbor_graph([1.0, 2.0]), "coordinates of shape"),
        (lambda: neighbor_graph([[1.0], [np.nan]]), "finite coordinates, got \\[nan\\] for node 1"),
        (lambda: neighbor_graph([[1.0], [2.0]], 2), "fewer neighbors than the 2 nodes, got 2"),
        (lambda: neighbor_graph([[1.0], [2.0]], 0), "num_neighbors to be at least 1, got 0"),
        (lambda: neighbor_graph([[1.0]], 1), "at least two nodes"),
        (lambda: neighbor_graph([[1.0, 400.0], [2.0, 0.0]], 1, "haversine"), "longitudes from -180 to 360"),
        (lambda: neighbor_graph([[1.0], [2.0]], 1, "haversine"), "latitude and longitude, got 1 columns"),
        (lambda: correlation_graph(Panel.from_array(np.zeros((9, 2))), 10, 1), "at most 9 training steps"),
        (lambda: correlation_graph(Panel.from_array(np.zeros((9, 2))), 4, 1), "num_training_steps to be at least 8"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
