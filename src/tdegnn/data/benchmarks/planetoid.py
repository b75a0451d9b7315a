"""Files of Planetoid: the citation graphs Cora, Citeseer and PubMed.

`allx` and `ally` hold the first nodes, `tx` and `ty` the others, in the order of `test.index`. In Citeseer this index
has gaps: 15 nodes of the graph have neither features nor a label.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse

from tdegnn.data.benchmarks.geom_gcn import read_splits
from tdegnn.data.benchmarks.pickles import read_pickle
from tdegnn.data.nodes import NodeDataset
from tdegnn.graph import Graph


def read(name: str, paths: Mapping[str, Path]) -> NodeDataset:
    """Read a citation graph from its files, by name. A node receives from both directions.

    Nodes in the gaps get zeros for features and class 0, as in published results: the splits include them.
    """
    content = {ending: read_pickle(paths[f"ind.{name}.{ending}"]) for ending in ("allx", "ally", "tx", "ty", "graph")}
    neighbors: dict[int, list[int]] = content["graph"]
    test_index = np.loadtxt(paths[f"ind.{name}.test.index"], dtype=np.int64)

    nodes = np.concatenate([np.arange(content["allx"].shape[0]), test_index])
    listed = scipy.sparse.vstack([content["allx"], content["tx"]]).tocoo()
    entries = (listed.data.astype(np.float32), (nodes[listed.row], listed.col))
    features = scipy.sparse.csr_array(entries, shape=(len(neighbors), listed.shape[1]))
    labels = np.zeros(len(neighbors), np.int64)
    labels[nodes] = np.concatenate([content["ally"], content["ty"]]).argmax(axis=1)

    sources = np.repeat(list(neighbors), [len(targets) for targets in neighbors.values()])
    targets = np.fromiter(chain.from_iterable(neighbors.values()), np.int64)
    graph = Graph(np.stack([sources, targets]), len(neighbors))
    return NodeDataset(name, features, graph, labels, *read_splits(paths))
