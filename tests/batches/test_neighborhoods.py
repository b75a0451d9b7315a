"""Batches of neighborhoods: each training node once per epoch, few neighbors of hubs, all neighbors of others."""

import numpy as np
import pytest

from tdegnn import Graph, InputError
from tdegnn.batches.neighborhoods import Neighborhoods
from tdegnn.batches.registry import BATCHES
from tdegnn.parts import Part
from tdegnn.subgraph import nodes_around

NODES = 300


def make_graph(direction="both"):
    draw = np.random.default_rng(0)
    return Graph(draw.integers(0, NODES, (2, 900)), NODES, direction=direction)


def test_each_training_node_is_inner_once_per_epoch():
    training = np.arange(0, NODES, 2)
    plan = Neighborhoods(2, batch_size=40, num_neighbors=3).plan(make_graph(), training, 0)
    assert plan.num_batches == 4
    inner = np.concatenate([plan.choose(step).nodes[plan.choose(step).is_inner] for step in range(4, 8)])
    assert np.array_equal(np.sort(inner), training)


@pytest.mark.parametrize("direction", ["both", "out"])
def test_with_many_neighbors_it_is_the_whole_neighborhood(direction):
    graph = make_graph(direction)
    plan = BATCHES.make(Part("neighborhoods", batch_size=5, num_neighbors=1000), num_layers=2).plan(
        graph, np.arange(NODES), 0
    )
    batch = plan.choose(3)
    assert np.array_equal(batch.nodes, nodes_around(graph, batch.nodes[batch.is_inner], 2))


def test_few_neighbors_of_a_hub_are_drawn_and_others_in_the_next_step():
    hub = Graph(np.stack([np.zeros(NODES - 1, dtype=int), np.arange(1, NODES)]), NODES)
    plan = Neighborhoods(1, batch_size=1, num_neighbors=[4]).plan(hub, np.array([0]), 0)
    batches = [plan.choose(step).nodes for step in (0, 1, 0)]
    assert all(2 <= len(nodes) <= 5 for nodes in batches)
    assert not np.array_equal(batches[0], batches[1])
    assert np.array_equal(batches[0], batches[2])


def test_a_wrong_number_of_neighbors_is_refused():
    with pytest.raises(InputError, match="Expected num_neighbors to be at least 1, got 0"):
        Neighborhoods(2, num_neighbors=[5, 0])
