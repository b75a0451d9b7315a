from dataclasses import replace

import numpy as np
import pytest

from tdegnn import Graph, NodeDataset
from tdegnn.experiments import as_published
from tdegnn.experiments.as_published import (
    NUM_SPLITS,
    PUBLISHED_LINES,
    PublishedWay,
    read_published_ways,
    summarize_published_ways,
    train_as_published,
)
from tdegnn.experiments.recipe_files import read_recipes, write_recipes
from tdegnn.experiments.records import read_lines
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.training.devices import choose_placement
from tests.node_datasets import make_dataset

CPU = choose_placement("cpu")
WAYS = read_published_ways()
# Two components: a path of four nodes, and a pair.
LABELS = np.array([0, 1, 0, 1, 0, -1])
MASKS = np.eye(6, dtype=bool)


def make_two_components():
    graph = Graph([[0, 1, 2, 4], [1, 2, 3, 5]], num_nodes=6)
    return NodeDataset("made up", np.ones((6, 2)), graph, LABELS, MASKS[[0]], MASKS[[1]], MASKS[[3]] | MASKS[[4]])


@pytest.mark.parametrize("key", WAYS)
def test_every_way_makes_a_network(key):
    way = WAYS[key]
    config = way.config()
    dataset = config.prepare(way.prepare(make_dataset()))
    config.build(dataset, seed=0)
    assert way.made[0].isupper()
    assert not way.made.endswith(".")


def test_nodes_outside_of_the_largest_component_are_left_out():
    dataset = PublishedWay("GCN", "cora", "Nodes", data=["largest component"]).prepare(make_two_components())
    assert np.flatnonzero(dataset.test_masks[0]).tolist() == [3]
    assert dataset.training_masks.tolist() == make_two_components().training_masks.tolist()


def test_random_splits_hold_all_nodes_of_known_class_once():
    drawn = make_dataset()
    empty = np.zeros_like(drawn.training_masks)
    labels = np.where(np.arange(drawn.num_nodes) == 0, -1, drawn.labels)
    given = replace(drawn, labels=labels, training_masks=empty, validation_masks=empty, test_masks=empty)
    dataset = PublishedWay("GCN", "cora", "Splits", data=["random splits"]).prepare(given)
    together = sum(mask.astype(int) for mask in (dataset.training_masks, dataset.validation_masks, dataset.test_masks))
    assert (together == (given.labels >= 0)).all()
    assert len(dataset.training_masks) == NUM_SPLITS
    for label in range(given.num_classes):
        of_class = given.labels == label
        assert (dataset.training_masks[:, of_class].sum(axis=1) == round(0.6 * of_class.sum())).all()
    assert (dataset.training_masks[0] != dataset.training_masks[1]).any()


def test_identity_features_tell_nodes_apart():
    dataset = PublishedWay("GCN", "cora", "Features", data=["identity features"]).prepare(make_two_components())
    assert (dataset.features.toarray() == np.eye(6)).all()


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["validation", "test", "last step"])
def test_a_cell_is_trained_once_and_a_step_chosen_as_said(monkeypatch, tmp_path, choice):
    recipe = RivalConfig("GCN", hidden_channels=4, num_steps=6, outer_dropout=0.0, hidden_dropout=0.0)
    write_recipes(tmp_path / "recipes.toml", {"GCN": recipe})
    monkeypatch.setattr(as_published, "read_recipes", lambda name: read_recipes(name, tmp_path / "recipes.toml"))
    monkeypatch.setattr(as_published, "load_nodes", lambda name: make_dataset())
    settings = {"num_steps": 6, "learning_rate": 0.5, "weight_decay": 0.0}
    way = PublishedWay("GCN", "cora", "Settings", settings, choice=choice, num_splits=2)
    monkeypatch.setattr(as_published, "read_published_ways", lambda: {("GCN", "cora"): way})
    path = tmp_path / "lines.jsonl"
    for _ in range(2):
        train_as_published(way, path, CPU)
    lines = read_lines(path, PUBLISHED_LINES)
    assert [line["split"] for line in lines] == [0, 1]
    assert {line["protocol"] for line in lines} == {"as published"}
    assert all(line["configuration"]["embedding"]["learning_rate"] == 0.5 for line in lines)
    if choice == "last step":
        assert [line["epoch"] for line in lines] == [6, 6]
    ((found, cell),) = summarize_published_ways(lines).values()
    assert found == way
    assert cell.mean == pytest.approx(100 * np.mean([line["test_accuracy"] for line in lines]))
    if choice == "test":
        # No other step has a higher accuracy on the test nodes than the one that they chose.
        train_as_published(replace(way, made="Last", choice="last step"), path, CPU)
        last = [line for line in read_lines(path, PUBLISHED_LINES) if line["made"] == "Last"]
        assert all(one["test_accuracy"] >= other["test_accuracy"] for one, other in zip(lines, last, strict=True))
