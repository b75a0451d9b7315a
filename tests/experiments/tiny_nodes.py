"""A dataset of two dozen nodes whose classes can be learned in a few steps."""

import numpy as np

from tdegnn import Graph
from tdegnn.data.nodes import NodeDataset


def make_tiny_nodes(num_nodes=24, num_splits=4, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(num_nodes) % 3
    features = (np.eye(3)[labels] + random.normal(size=(num_nodes, 3))).astype(np.float32)
    places = np.stack([random.permutation(num_nodes) for _ in range(num_splits)]) / num_nodes
    edges = random.integers(0, num_nodes, (2, 40))
    parts = places < 0.5, (places >= 0.5) & (places < 0.75), places >= 0.75
    return NodeDataset("tiny", features, Graph(edges, num_nodes), labels.astype(np.int64), *parts)
