"""Made-up nodes to classify, for tests that train."""

import numpy as np
import scipy.sparse

from tdegnn import Graph
from tdegnn.data.nodes import NodeDataset


def make_dataset(seed=0, num_splits=3, num_nodes=40, num_features=12, num_classes=3):
    """Random features, labels and edges, and splits of 50 / 25 / 25 %."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, num_classes, num_nodes)
    dense = random.random((num_nodes, num_features)) * (random.random((num_nodes, num_features)) < 0.4)
    parts = np.array([random.permutation(num_nodes) % 4 for _ in range(num_splits)])
    graph = Graph(random.integers(0, num_nodes, (2, 3 * num_nodes)), num_nodes, direction="out")
    features = scipy.sparse.csr_array(dense).astype(np.float32)
    return NodeDataset("made up", features, graph, labels.astype(np.int64), parts <= 1, parts == 2, parts == 3)
