"""Answers that need no network stand beside the score of one, and a note says if they do as well."""

import numpy as np
import pytest
import scipy.sparse
import torch

from tdegnn import Graph, InputError, NodeClassifier, NodeDataset, NodeRegressor
from tdegnn.nodes import baselines
from tdegnn.nodes.baselines import BaselineTask, measure_baselines
from tdegnn.training.devices import single_thread
from tdegnn.training.node_training import Classification

NODES = 120
SMALL = dict(hidden_channels=8, num_steps=9, device="cpu")
draw = np.random.default_rng(0)
CODES = np.arange(NODES) % 2
NOISE = draw.standard_normal((NODES, 3)).astype(np.float32)
TELLING = (2.0 * CODES[:, None] + NOISE).astype(np.float32)
# Two circles of nodes of one class, each with chords: neighbors have the same class.
HOPS = np.concatenate([np.arange(NODES) + hop for hop in (2, 4, 6, 8)]) % NODES
EDGES = np.stack([np.tile(np.arange(NODES), 4), HOPS])
SUBSETS = draw.permutation(NODES) % 4
TRAINING, VALIDATION, TEST = SUBSETS <= 1, SUBSETS == 2, SUBSETS == 3


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def measure(features, codes=CODES, outputs=None, edges=EDGES, score="accuracy"):
    num_classes = int(codes.max()) + 1
    task = Classification(torch.as_tensor(codes), score=score)
    masks = [np.zeros((0, NODES), dtype=bool)] * 3
    nodes = NodeDataset("", features, Graph(edges, NODES), np.full(NODES, -1), *masks)
    seen = BaselineTask(nodes, task.targets(num_classes), False, TRAINING)
    outputs = np.eye(num_classes)[codes] if outputs is None else outputs
    return measure_baselines(task, seen, VALIDATION, TEST, outputs)


def test_each_baseline_sees_one_part_of_the_data():
    by_features, by_links = measure(TELLING, edges=np.zeros((2, 0), dtype=int)), measure(NOISE)
    assert list(by_links.scores) == ["the most frequent class", "logistic regression", "a perceptron", "kernel ridge"]
    assert "kernel ridge" not in by_features.scores  # there are no links
    assert by_features.scores["logistic regression"]["test"] > 0.85
    assert by_links.scores["logistic regression"]["test"] < 0.75
    assert by_features.scores["a perceptron"]["test"] > 0.75
    assert by_links.scores["a perceptron"]["test"] < 0.75
    assert by_links.scores["kernel ridge"] == {"validation": 1.0, "test": 1.0}
    frequent = np.bincount(CODES[TRAINING]).argmax()
    assert by_links.scores["the most frequent class"]["test"] == pytest.approx((CODES[TEST] == frequent).mean())


def test_notes_say_who_does_as_well_as_the_network_or_better():
    perfect, blind = measure(NOISE).notes, measure(NOISE, outputs=np.zeros((NODES, 2))).notes
    assert perfect == ("The links alone (kernel ridge) do as well: 100.0% on validation, the network 100.0%.",)
    assert blind[-1].startswith("The links alone (kernel ridge) do better: 100.0% on validation, the network ")
    assert any(note.startswith("Always answering the most frequent class does") for note in blind)
    found = measure(TELLING, outputs=np.eye(2)[CODES] + 0.9 * NOISE[:, :1] * [0, 1]).notes
    assert any(note.startswith("The features alone (logistic regression) do") for note in found)


def test_areas_sparse_features_and_classes_without_training_nodes():
    rare = CODES.copy()
    rare[np.flatnonzero(VALIDATION)[0]] = 2
    sparse = scipy.sparse.csr_array(np.abs(TELLING).round())
    by_class = measure(sparse, rare).scores
    assert min(by_class[name]["test"] for name in ("logistic regression", "a perceptron")) > 0.5
    by_area = measure(TELLING, score="roc-auc").scores
    assert by_area["the most frequent class"] == {"validation": 0.5, "test": 0.5}
    assert min(by_area[name]["test"] for name in ("logistic regression", "a perceptron")) > 0.9


def test_only_a_perceptron_sees_what_is_not_linear(monkeypatch):
    monkeypatch.setattr(baselines, "FEWEST_STEPS", 40)
    features = draw.standard_normal((NODES, 2)).astype(np.float32)
    found = measure(features, (features.prod(axis=1) > 0).astype(int), np.zeros((NODES, 2)))
    assert found.scores["logistic regression"]["test"] < 0.7
    assert found.scores["a perceptron"]["test"] > 0.8
    assert any(note.startswith("The features alone (a perceptron) do better: ") for note in found.notes)


def test_a_standard_error_is_that_of_the_formula():
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 2, 4000)
    outputs = np.where(draw.random((4000, 1)) < 0.8, np.eye(2)[labels], np.eye(2)[1 - labels])
    error = baselines.standard_error(Classification(torch.as_tensor(labels)), outputs, np.ones(4000, dtype=bool))
    assert error == pytest.approx(np.sqrt(0.8 * 0.2 / 4000), rel=0.5)


def test_large_graphs_leave_out_what_would_take_long(monkeypatch):
    monkeypatch.setattr(baselines, "MOST_ENTRIES", 10)
    monkeypatch.setattr(baselines, "MOST_KERNEL", 10)
    found = measure(NOISE)
    assert list(found.scores) == ["the most frequent class"]
    assert found.notes[:3] == (
        "The graph is too large to compare with logistic regression in a few seconds.",
        "The graph is too large to compare with a perceptron in a few seconds.",
        "The graph is too large to compare with kernel ridge in a few seconds.",
    )


@pytest.mark.slow
def test_an_estimator_keeps_its_baselines(tmp_path):
    model = NodeClassifier(**SMALL).fit(TELLING, CODES, graph=EDGES, test=TEST, validation=VALIDATION)
    model.save(tmp_path / "run")
    kept = NodeClassifier.load(tmp_path / "run").summary_
    assert kept == model.summary_
    assert kept["baselines"]["kernel ridge"] == {"validation": 1.0, "test": 1.0}
    assert any("The links alone" in note for note in model.notes_)
    without = NodeClassifier(**SMALL, baselines=False).fit(TELLING, CODES, graph=EDGES)
    assert without.summary_["baselines"] == {}
    with pytest.raises(InputError, match="baselines to be True or False"):
        NodeClassifier(baselines="all").fit(TELLING, CODES, graph=EDGES)


@pytest.mark.slow
def test_numbers_are_compared_with_the_mean_and_a_ridge():
    model = NodeRegressor(**SMALL).fit(NOISE, NOISE @ [1.0, 2.0, 3.0], graph=EDGES, test=TEST, validation=VALIDATION)
    scores = model.summary_["baselines"]
    assert scores["ridge regression"]["test"] > -0.01 > scores["the mean"]["test"]
    assert any(
        note.startswith("The features alone (ridge regression) do better: squared error ") for note in model.notes_
    )
    assert "kernel ridge" in scores
