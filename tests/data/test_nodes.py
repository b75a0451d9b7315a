import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch_geometric.data import Data

from tdegnn import Graph, InputError
from tdegnn.data.nodes import NodeDataset

EDGES = [[0, 0, 1, 3], [1, 2, 2, 0]]
FEATURES = np.array([[1, 3, 0], [0, 0, 0], [0, 2, 0], [1, 0, 0]], dtype=np.float32)
SUBSETS = ("training_masks", "validation_masks", "test_masks")


def masks(*splits):
    """Masks of 4 nodes, one split for each tuple of the nodes in it."""
    return np.array([[node in split for node in range(4)] for split in splits], dtype=bool).reshape(-1, 4)


def make(**changes):
    parts = {
        "name": "four",
        "features": scipy.sparse.csr_array(FEATURES),
        "graph": Graph(EDGES, 4, direction="out"),
        "labels": np.array([0, 2, 1, -1]),
        "training_masks": masks((0,), (1,)),
        "validation_masks": masks((1,), (2,)),
        "test_masks": masks((2,), ()),
    }
    return NodeDataset(**parts | changes)


def dense(dataset):
    return dataset.features.toarray() if scipy.sparse.issparse(dataset.features) else dataset.features


def assert_same(first, second):
    np.testing.assert_array_equal(dense(first), dense(second))
    np.testing.assert_array_equal(first.labels, second.labels)
    for subset in SUBSETS:
        np.testing.assert_array_equal(getattr(first, subset), getattr(second, subset))
    assert first.graph.direction == second.graph.direction
    assert torch.equal(first.graph.edge_index, second.graph.edge_index)
    torch.testing.assert_close(first.graph.edge_weight, second.graph.edge_weight)


def test_sizes_are_counted():
    dataset = make()
    assert (dataset.num_nodes, dataset.num_features, dataset.num_classes, dataset.num_splits) == (4, 3, 3, 2)
    assert "nodes=4, features=3, classes=3, splits=2" in repr(dataset)


@pytest.mark.parametrize("features", [FEATURES, scipy.sparse.csr_array(FEATURES)], ids=["dense", "sparse"])
def test_normalized_features_sum_to_one_and_nothing_stays_nothing(features):
    normalized = make(features=features).with_normalized_features()
    assert type(normalized.features) is type(features)
    expected = np.array([[0.25, 0.75, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=np.float32)
    np.testing.assert_array_equal(dense(normalized), expected)


@pytest.mark.slow
@settings(deadline=None)
@given(arrays(np.float32, (4, 3), elements=st.floats(0, 2.0**100, width=32)), st.booleans())
def test_normalized_features_always_sum_to_one(features, is_sparse):
    dataset = make(features=scipy.sparse.csr_array(features) if is_sparse else features)
    sums = dense(dataset.with_normalized_features()).sum(axis=1)
    np.testing.assert_allclose(sums, features.any(axis=1), atol=1e-6)


def test_negative_features_are_not_normalized():
    with pytest.raises(InputError, match="features that are not negative"):
        make(features=-FEATURES).with_normalized_features()


@pytest.mark.parametrize("features", [FEATURES, scipy.sparse.csr_array(FEATURES)], ids=["dense", "sparse"])
@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_adjacency_features_are_what_a_node_receives_from(direction, features):
    forward = np.zeros((4, 4))
    forward[tuple(EDGES)] = 1
    received = {"out": forward, "in": forward.T, "both": np.maximum(forward, forward.T)}[direction]
    joined = make(features=features).with_direction(direction).with_adjacency_features()
    assert isinstance(joined.features, scipy.sparse.csr_array)
    np.testing.assert_array_equal(dense(joined), np.hstack([FEATURES, received]))
    # What a linear map of these columns sees is what a layer receives.
    columns = torch.as_tensor(dense(joined)[:, 3:])
    assert torch.equal(columns > 0, joined.graph.propagate(torch.eye(4)) > 0)


def test_another_direction_leaves_edges_and_weights():
    graph = Graph(EDGES, 4, [1.0, 2.0, 3.0, 4.0], "out")
    turned = make(graph=graph).with_direction("in").graph
    assert (turned.direction, graph.direction) == ("in", "out")
    assert torch.equal(turned.edge_index, graph.edge_index)
    assert torch.equal(turned.edge_weight, graph.edge_weight)
    assert not turned.without_weights().with_direction("both").is_weighted


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0, 4.0]])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_pyg_and_back(weights, is_sparse):
    features = scipy.sparse.csr_array(FEATURES) if is_sparse else FEATURES
    dataset = make(features=features, graph=Graph(EDGES, 4, weights, "out"))
    data = dataset.to_pyg()
    assert data.validate()
    assert data.x.dtype == torch.float32
    assert data.train_mask.shape == (4, 2)
    assert ("edge_weight" in data) == (weights is not None)
    assert_same(NodeDataset.from_pyg(data, direction="out"), dataset)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_pyg_data_with_sparse_features_and_one_split(layout):
    data = make().to_pyg()
    data.x = data.x.to_sparse(layout=layout) if layout != torch.strided else data.x
    for key in ("train_mask", "val_mask", "test_mask"):
        data[key] = data[key][:, 0]
    data.y = data.y[:, None].int()
    dataset = NodeDataset.from_pyg(data, direction="out", name="one")
    assert isinstance(dataset.features, np.ndarray) == (layout == torch.strided)
    first = {subset: getattr(make(), subset)[:1] for subset in SUBSETS}
    assert_same(dataset, make(**first))
    assert dataset.name == "one"


def test_pyg_data_without_labels_and_masks_has_no_splits():
    dataset = NodeDataset.from_pyg(Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]])))
    assert (dataset.num_classes, dataset.num_splits, dataset.graph.direction) == (0, 0, "both")
    assert "train_mask" not in dataset.to_pyg()


def test_a_subset_that_pyg_data_do_not_have_is_empty():
    data = make().to_pyg()
    del data.val_mask
    dataset = NodeDataset.from_pyg(data)
    assert dataset.num_splits == 2
    assert not dataset.validation_masks.any()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph": EDGES}, "graph to be a Graph, got list"),
        ({"features": FEATURES.tolist()}, "csr_array or a NumPy array of float32 or float64 .*, got list"),
        ({"features": FEATURES.astype(np.float16)}, "got ndarray of float16 and shape .4, 3.. Convert them first"),
        ({"features": scipy.sparse.csc_array(FEATURES)}, "got csc_array of float32"),
        ({"features": FEATURES[0]}, "got ndarray of float32 and shape .3,."),
        ({"features": FEATURES[:3]}, "features of 4 nodes, as in the graph, got 3 rows"),
        ({"features": FEATURES / np.float32(0.5) + np.float32("nan")}, "finite features"),
        ({"labels": [0, 1, 2, 0]}, "labels of int64 and shape .4,., one per node, got list"),
        ({"labels": np.zeros(4)}, "got ndarray of float64"),
        ({"labels": np.zeros(3, np.int64)}, "shape .3,."),
        ({"labels": np.array([0, 1, -2, 0])}, "labels from 0 on, or -1 if unknown, got -2"),
        ({"test_masks": masks((2,))}, r"the same number of splits in all masks, got \[2, 2, 1\]"),
        (
            {"test_masks": masks((2,), ()).astype(int)},
            "test_masks of bool and shape .splits, 4 nodes., got ndarray of int",
        ),
        ({"training_masks": masks((0,), (1,)).T}, "training_masks of bool"),
        ({"validation_masks": masks((1,), (1,))}, "at most one subset of a split, got node 1 in two of split 1"),
        ({"test_masks": masks((2,), (3,))}, "a label for each node in a split"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "x of shape .nodes, features., got NoneType"),
        ({"x": torch.zeros(4)}, "got Tensor of torch.float32 and shape .4,."),
        ({"y": torch.zeros(4)}, "y to hold one whole number per node, got Tensor of torch.float32"),
        ({"y": torch.zeros(4, 2, dtype=torch.long)}, "y to hold one whole number"),
        ({"val_mask": torch.zeros(4, 2, dtype=torch.long)}, "validation_masks of bool"),
        ({"val_mask": torch.zeros(3, dtype=torch.bool)}, "validation_masks of bool and shape .splits, 4 nodes."),
        ({"edge_index": None}, "an edge_index"),
    ],
)
def test_pyg_data_that_do_not_fit_are_refused(changes, message):
    data = make().to_pyg()
    for key, value in changes.items():
        data[key] = value
    with pytest.raises(InputError, match=message):
        NodeDataset.from_pyg(data)
