"""Features in files: read by rows, scaled as those in memory are, checked in chunks."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from tdegnn import Graph, InputError, NodeClassifier, StoredGraph, map_tensor
from tdegnn.data import mapped_features
from tdegnn.data.mapped_features import MappedFeatures, map_matrix
from tdegnn.data.nodes import FeatureScaling, NodeDataset, is_mapped
from tdegnn.nodes.inputs import as_node_input

NODES = 50
DRAW = np.random.default_rng(0)
FEATURES = np.column_stack(
    [DRAW.normal(5, 2, NODES), DRAW.integers(0, 2, NODES), np.full(NODES, 3.0), DRAW.random(NODES)]
).astype(np.float32)
EDGES = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES])
LABELS = np.arange(NODES) // 25


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_features, "CHUNK", 28)
    np.save(tmp_path / "x.npy", FEATURES)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def test_a_mapped_array_is_known(mapped):
    assert is_mapped(mapped)
    assert is_mapped(np.asarray(mapped)[3:])
    assert not is_mapped(np.array(mapped))
    features = as_node_input(mapped, EDGES).nodes.features
    assert isinstance(features, MappedFeatures)
    assert features.shape == FEATURES.shape
    assert len(list(features.chunks())) > 5


def test_scaling_is_that_of_features_in_memory(mapped):
    found, expected = FeatureScaling.of(MappedFeatures(mapped)), FeatureScaling.of(FEATURES)
    np.testing.assert_allclose(found.center, expected.center, rtol=1e-6)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    assert found.scale[1] == found.scale[2] == 1.0
    rows = np.array([3, 40])
    scaled = found.apply(MappedFeatures(mapped))
    np.testing.assert_allclose(scaled[rows], expected.apply(FEATURES[rows]), rtol=1e-5)
    assert scaled[rows].dtype == np.float32


def test_features_that_are_mostly_zero_are_left_alone(tmp_path):
    sparse = np.zeros((NODES, 4), dtype=np.float32)
    sparse[::7] = 1.5
    np.save(tmp_path / "s.npy", sparse)
    assert FeatureScaling.of(MappedFeatures(np.load(tmp_path / "s.npy", mmap_mode="r"))) is None


def test_wrong_numbers_are_found_in_any_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_features, "CHUNK", 28)
    for number, message in {
        np.nan: "finite features, got NaN for node 45, feature 2",
        1e200: "got 1e\\+200 for node 45, feature 2",
    }.items():
        wrong = FEATURES.astype(np.float64)
        wrong[45, 2] = number
        np.save(tmp_path / "w.npy", wrong)
        with pytest.raises(InputError, match=message):
            as_node_input(np.load(tmp_path / "w.npy", mmap_mode="r"), EDGES)


def test_a_classifier_of_files_is_that_of_arrays(mapped, tmp_path):
    settings = dict(num_steps=8, hidden_channels=6, network=None, device="cpu", batches="neighborhoods")
    graph = StoredGraph.write(tmp_path / "graph", EDGES, NODES)
    files = NodeClassifier(**settings).fit(mapped, LABELS, graph=graph, run=tmp_path / "run")
    arrays = NodeClassifier(**settings, baselines=False).fit(FEATURES, LABELS, graph=Graph(EDGES, NODES))
    np.testing.assert_allclose(files.predict_proba(), arrays.predict_proba(), atol=1e-4)
    assert "The features are in a file" in files.notes_[-1]
    loaded = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.predict_proba(mapped, graph=graph), files.predict_proba(), atol=1e-6)
    again = NodeClassifier(**settings).fit(mapped, LABELS, graph=graph, run=tmp_path / "run", resume=True)
    np.testing.assert_allclose(again.predict_proba(), files.predict_proba(), atol=1e-6)


def test_without_batches_a_file_is_read_at_once(mapped):
    settings = dict(num_steps=8, hidden_channels=6, device="cpu", baselines=False)
    models = [NodeClassifier(**settings).fit(each, LABELS, graph=EDGES) for each in (mapped, FEATURES)]
    np.testing.assert_allclose(*(model.predict_proba() for model in models), atol=1e-4)


def test_what_needs_features_in_memory_says_so(mapped):
    nodes = as_node_input(mapped, EDGES).nodes
    assert nodes.has_negative_features == bool((FEATURES < 0).any())
    with pytest.raises(InputError, match="Expected features in memory, to scale their sums to one, got a file"):
        nodes.with_normalized_features()
    with pytest.raises(InputError, match="Expected features in memory, for adjacency features, got a file"):
        nodes.with_adjacency_features()
    assert NodeDataset.to_pyg(nodes).x.shape == FEATURES.shape


def test_tensors_are_mapped_by_name(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"x": FEATURES, "y": LABELS}, path)
    found = map_tensor(path, "x")
    assert is_mapped(found)
    assert np.array_equal(found, FEATURES)
    assert np.array_equal(map_tensor(path, "y"), LABELS)
    with pytest.raises(InputError, match="Expected a tensor of numbers 'z' in .*, got x, y"):
        map_tensor(path, "z")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="which is damaged"):
        map_tensor(path, "x")
    path.write_bytes(b"no header at all")
    with pytest.raises(InputError, match="Expected a "):
        map_tensor(path, "y")


def test_features_of_a_table_may_be_in_either_kind_of_file(mapped, tmp_path):
    save_file({"features": FEATURES, "other": LABELS}, tmp_path / "x.safetensors")
    for name in ("x.npy", "x.safetensors"):
        found = map_matrix(tmp_path / name)
        assert isinstance(found, np.memmap)
        assert np.array_equal(found, FEATURES)
    save_file({"other": LABELS}, tmp_path / "y.safetensors")
    with pytest.raises(
        InputError, match="^Expected a tensor of numbers 'features' in .*y.safetensors, got other. Pass"
    ):
        map_matrix(tmp_path / "y.safetensors")
