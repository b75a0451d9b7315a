"""Features of some nodes: rows of dense, sparse and mapped features, in the precision of the placement."""

import numpy as np
import scipy.sparse
import torch

from tdegnn.data.mapped_features import MappedFeatures
from tdegnn.sparse import SparseMatrix
from tdegnn.training.devices import choose_placement
from tdegnn.training.node_rows import NodeRows

FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_rows_are_those_of_the_nodes(tmp_path):
    np.save(tmp_path / "x.npy", FEATURES)
    nodes, expected = np.array([1, 3]), torch.as_tensor(FEATURES[[1, 3]]).double()
    placement = choose_placement("cpu", "64-true")
    for features in (FEATURES, MappedFeatures(np.load(tmp_path / "x.npy", mmap_mode="r"))):
        assert torch.equal(NodeRows(features, placement).take(nodes), expected)
    sparse = NodeRows(scipy.sparse.csr_array(FEATURES), placement).take(nodes)
    assert isinstance(sparse, SparseMatrix)
    assert torch.equal(sparse.to_dense(), expected)
