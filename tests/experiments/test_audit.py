import math
from dataclasses import replace

import numpy as np
import pytest

from tdegnn.experiments import direction, without_rows
from tdegnn.experiments.audit import find_twins, report_selection, report_twins
from tdegnn.experiments.direction import DIRECTION_LINES, DIRECTIONS, summarize_directions, train_directions
from tdegnn.experiments.recipe_files import read_recipes, write_recipes
from tdegnn.experiments.records import read_lines, write_records
from tdegnn.graph import Graph
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import choose_placement
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset

CPU = choose_placement("cpu")


def with_links(links, labels, training, test):
    """A dataset of five nodes: links by node, labels, and the nodes of one split."""
    dataset = make_dataset()
    ends = np.array([(node, to) for node, own in links.items() for to in own]).T
    masks = {name: np.isin(np.arange(5), nodes)[None] for name, nodes in (("t", training), ("e", test))}
    return replace(
        dataset,
        features=np.eye(5),
        graph=Graph(ends, 5, direction="out"),
        labels=np.array(labels),
        training_masks=masks["t"],
        validation_masks=np.zeros((1, 5), bool),
        test_masks=masks["e"],
    )


def test_twins_have_the_same_links_in_any_order():
    dataset = with_links({0: [3, 4], 1: [4, 3], 2: [3]}, [0, 0, 1, 1, 1], [0], [1, 2, 3])
    groups = find_twins(dataset)
    assert groups[0] == groups[1] != groups[2]
    assert groups[3] == groups[4] == -1  # no links: nothing to compare


def test_labels_are_looked_up_at_twins_of_the_training_part_only():
    links = {0: [3, 4], 1: [3, 4], 2: [3, 4]}
    found = report_twins(with_links(links, [0, 0, 1, 1, 1], [0], [1, 2]))
    assert (found.twins, found.covered, found.accuracy) == (3 / 5, 1.0, 0.5)
    nothing = report_twins(with_links(links, [0, 0, 1, 1, 1], [3], [1, 2]))
    assert nothing.covered == 0
    assert math.isnan(nothing.accuracy)


def trial(number, validation, test):
    return {
        "dataset": "cora",
        "system": "GCN",
        "stage": "random",
        "validation_accuracy": validation,
        "test_accuracy": test,
        "configuration": {"number": number},
    }


def test_a_choice_by_test_adds_what_validation_does_not_choose(capsys, tmp_path):
    lines = [trial(number, number / 100, 0.5) for number in range(11)]
    assert report_selection(lines) == []  # too few
    (found,) = report_selection([*lines, trial(11, 0.0, 0.625)])
    assert (found.num_searches, found.num_configurations, found.mean_gain) == (1, 12, 12.5)


def test_searches_that_are_not_there_are_said_in_one_line(capsys, tmp_path):
    code, out, err = run(capsys, "reproduce", "audit", "--searches", str(tmp_path / "none.jsonl"))
    assert (code, out) == (2, "")
    assert err == f"Error: Expected lines of a search at {tmp_path / 'none.jsonl'}, got no such file. Check the path.\n"


def test_the_audit_prints_both_tables(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tdegnn.data.benchmarks.load.load_nodes", lambda name: make_dataset())
    lines = [trial(number, number / 100, 0.5) for number in range(12)]
    write_records(tmp_path / "lines.jsonl", lines)
    code, out, err = run(capsys, "reproduce", "audit", "--dataset", "cora", "--searches", str(tmp_path / "lines.jsonl"))
    assert (code, err) == (0, "")
    assert "test nodes with a twin in training" in out
    assert "1 datasets and 1 searches looked at." in out


@pytest.mark.slow
def test_directions_are_trained_once(monkeypatch, tmp_path):
    recipe = NodeConfig("DE-GNN", 4, 1, 1, "euler", "diffusion", num_steps=2)
    write_recipes(tmp_path / "recipes.toml", {"DE-GNN": recipe})
    monkeypatch.setattr(direction, "read_recipes", lambda name: read_recipes(name, tmp_path / "recipes.toml"))
    monkeypatch.setattr(direction, "load_nodes", lambda name: make_dataset())
    path = tmp_path / "lines.jsonl"
    train_directions("chameleon", "DE-GNN", path, CPU)
    before = path.read_text()
    train_directions("chameleon", "DE-GNN", path, CPU)
    assert path.read_text() == before
    cells = summarize_directions(read_lines(path, DIRECTION_LINES))
    assert {key[2] for key in cells} == {*DIRECTIONS}
    assert len(cells["chameleon", "DE-GNN", "in"].test_accuracies) == make_dataset().num_splits


@pytest.mark.slow
def test_recipes_are_trained_without_rows_once(monkeypatch, tmp_path):
    recipe = NodeConfig("DE-GNN", 4, 1, 1, "euler", "diffusion", adjacency_features=True, num_steps=2)
    write_recipes(tmp_path / "recipes.toml", {"DE-GNN": recipe})
    monkeypatch.setattr(without_rows, "read_recipes", lambda name: read_recipes(name, tmp_path / "recipes.toml"))
    monkeypatch.setattr(without_rows, "load_nodes", lambda name: make_dataset())
    path = tmp_path / "lines.jsonl"
    for _ in range(2):
        without_rows.train_without_rows("chameleon", "DE-GNN", path, CPU)
    lines = read_lines(path, without_rows.ROWLESS_LINES)
    assert len(lines) == make_dataset().num_splits
    assert not any(line["configuration"]["adjacency_features"] for line in lines)
    cells = without_rows.summarize_rowless(lines)
    assert {key: len(cell.test_accuracies) for key, cell in cells.items()} == {("chameleon", "DE-GNN"): len(lines)}
