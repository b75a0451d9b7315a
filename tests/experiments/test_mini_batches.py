"""Batches on benchmarks: one line per dataset, way to train and split, compared with the whole graph."""

import json

import pytest

from tdegnn.experiments import mini_batches
from tdegnn.experiments.mini_batches import (
    BATCH_LINES,
    NEIGHBORHOODS,
    PARTITIONS,
    SHORT_MESSAGES,
    WAYS,
    WHOLE,
    WHOLE_AS_LONG,
    compare_batches,
)
from tdegnn.experiments.records import read_lines
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset


@pytest.mark.slow
def test_lines_are_written_once_and_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mini_batches, "load_nodes", lambda name: make_dataset(num_nodes=100))
    monkeypatch.setattr(mini_batches, "RECIPE", mini_batches.RECIPE | {"hidden_channels": 8})
    path = tmp_path / "lines.jsonl"
    command = ["reproduce", "mini-batches", "--dataset", "pubmed", "--splits", "2", "--epochs", "3"]
    command += ["--out", str(path), "--device", "cpu"]
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert "within one deviation" in out
    lines = read_lines(path, BATCH_LINES)
    assert [(line["system"], line["split"]) for line in lines] == [(name, split) for split in (0, 1) for name in WAYS]
    assert {line["system"]: line["configuration"]["num_steps"] for line in lines} == {
        WHOLE: 3,
        SHORT_MESSAGES: 3,
        WHOLE_AS_LONG: 12,
        PARTITIONS: 12,
        NEIGHBORHOODS: 12,
    }
    run(capsys, *command, "--quiet")
    assert read_lines(path, BATCH_LINES) == lines
    code, out, _ = run(capsys, *command, "--report", "--json")
    assert json.loads(out)["pubmed"][WHOLE]["difference"] == 0


def test_differences_are_those_of_splits_that_both_have():
    def line(system, split, accuracy):
        scores = {"test_accuracy": accuracy, "validation_accuracy": accuracy, "seconds": 1.0}
        scores["configuration"] = {"num_steps": 3}
        return {"dataset": "a", "system": system, "split": split, **scores}

    lines = [line(WHOLE_AS_LONG, 0, 0.5), line(WHOLE_AS_LONG, 1, 0.7), line(PARTITIONS, 1, 0.65)]
    lines += [line(NEIGHBORHOODS, 2, 0.9), line(WHOLE, 1, 0.3), line(SHORT_MESSAGES, 1, 0.2)]
    found = compare_batches(lines, "a")
    assert found[PARTITIONS].difference == pytest.approx(-5)
    assert found[PARTITIONS].is_within
    assert found[NEIGHBORHOODS].difference is None
    # Fewer steps are compared with as few.
    assert found[SHORT_MESSAGES].difference == pytest.approx(-10)
    # Without a longer training, with the shorter one.
    few = [line for line in lines if line["system"] != WHOLE_AS_LONG]
    assert compare_batches(few, "a")[PARTITIONS].difference == pytest.approx(35)
    assert compare_batches(lines, "b") == {}
