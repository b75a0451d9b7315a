"""Defaults on ten graphs: one line per system and seed, compared seed by seed."""

import json

import numpy as np
import pytest

from tdegnn.experiments import ten_graphs
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.ten_graphs import COLUMNS, DEFAULT, FEATURES, GRAPH_LINES, GRAPHS, LONG, compare, mean_scores
from tests.cli.test_commands import run


@pytest.mark.slow
def test_lines_are_written_once_and_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ten_graphs, "TRAINED", {DEFAULT: {"num_steps": 3}, LONG: {"num_steps": 6, "patience": None}})
    path = tmp_path / "ten.jsonl"
    command = [
        "reproduce",
        "ten-graphs",
        "--graph",
        "karate club",
        "--seeds",
        "1",
        "--out",
        str(path),
        "--device",
        "cpu",
    ]
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert "over features (seeds)" in out
    lines = read_lines(path, GRAPH_LINES)
    assert {line["system"] for line in lines} == {*COLUMNS}
    assert {line["score"] for line in lines} == {"roc-auc"}
    assert [line["steps"] for line in lines if line["system"] == LONG] == [6]
    run(capsys, *command, "--quiet")
    assert read_lines(path, GRAPH_LINES) == lines
    code, out, _ = run(capsys, *command, "--report", "--json")
    found = json.loads(out)["karate club"]
    assert found["ahead"][FEATURES] == pytest.approx(found["scores"][DEFAULT] - found["scores"][FEATURES])


def test_seeds_are_compared_one_by_one():
    def line(system, seed, score):
        return {"graph": "a", "system": system, "seed": seed, "test_score": score}

    lines = [line(DEFAULT, 0, 0.5), line(DEFAULT, 1, 0.9), line(FEATURES, 1, 0.8), line(DEFAULT, 1, 0.7)]
    found = compare(lines, "a", FEATURES)
    assert (found.gain, found.num_seeds) == (pytest.approx(-10), 1)
    assert np.isnan(found.error)
    both = compare([*lines, line(FEATURES, 0, 0.4)], "a", FEATURES)
    assert both == (pytest.approx(0), pytest.approx(10), 2)
    assert str(both) == "+0.0 ± 10.0 (2)"
    assert compare(lines, "a", LONG) is compare(lines, "b", FEATURES) is None
    assert mean_scores(lines, "a") == {DEFAULT: pytest.approx(60), FEATURES: pytest.approx(80)}


@pytest.mark.parametrize("name", [name for name in GRAPHS if "2,000" not in name])
def test_every_graph_is_drawn_from_its_seed(name):
    drawn = GRAPHS[name](0)
    assert len(drawn.features) == len(drawn.labels) == drawn.graph.num_nodes
    assert drawn.labels.min() == 0
