"""Where nodes are drawn."""

import numpy as np
import pandas as pd

from tdegnn import Graph
from tdegnn.reports.layout import edges_between, places_by_graph, places_on_map

# A ring of 90 nodes, a pair, and two nodes without neighbors.
RING = np.arange(90)
GRAPH = Graph(np.array([[*RING, 90], [*np.roll(RING, -1), 91]]), 94, direction="both")


def test_each_pair_of_neighbors_is_drawn_once():
    edges = edges_between(GRAPH, np.arange(94))
    assert edges.shape == (2, 91)
    assert edges_between(GRAPH, np.array([91, 5, 90, 6])).T.tolist() == [[0, 2], [1, 3]]
    assert edges_between(Graph([[0, 0], [0, 1]], 2, keep_self_loops=True), np.arange(2)).shape == (2, 1)


def test_neighbors_are_near_each_other_and_small_parts_stand_below():
    places = places_by_graph(GRAPH, np.arange(94))
    steps = np.linalg.norm(places[RING] - places[np.roll(RING, -1)], axis=1)
    apart = np.linalg.norm(places[RING] - places[np.roll(RING, -30)], axis=1)
    assert steps.mean() < apart.mean() / 2
    assert np.abs(places[RING]).max() <= 1 + 1e-9
    assert places[90:, 1].max() < -1
    assert len(np.unique(places[90:], axis=0)) == 4
    np.testing.assert_array_equal(places, places_by_graph(GRAPH, np.arange(94)))


def test_a_graph_without_edges_is_drawn_in_rows():
    places = places_by_graph(Graph(np.zeros((2, 0), dtype=int), 5), np.arange(5))
    assert len(np.unique(places, axis=0)) == 5


def test_a_map_of_the_globe_has_true_proportions():
    table = pd.DataFrame({"node": ["a", "b", "c"], "lat": [60.0, 60.0, 61.0], "lon": [10.0, 12.0, 10.0]})
    a, b, c = places_on_map(table, ("a", "b", "c"))
    # At 60 degrees, two degrees of longitude are about as long as one of latitude.
    assert 0.95 < (b - a)[0] / (c - a)[1] < 1.05
    np.testing.assert_allclose([(b - a)[1], (c - a)[0]], 0, atol=1e-9)


def test_coordinates_in_a_plane_stay_as_they_are():
    table = pd.DataFrame({"node": ["a", "b"], "x": [1.0, 2.0], "y": [3.0, 5.0]})
    np.testing.assert_array_equal(places_on_map(table, ("b", "a")), [[2.0, 5.0], [1.0, 3.0]])
    line = pd.DataFrame({"node": ["a", "b"], "x": [1.0, 2.0]})
    np.testing.assert_array_equal(places_on_map(line, ("a", "b")), [[1.0, 0.0], [2.0, 0.0]])
