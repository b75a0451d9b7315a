"""Batches on benchmarks: one line per dataset, way to train and split, compared with the whole graph."""

import json
import os

import numpy as np
import pytest

from tdegnn.experiments import mini_batches
from tdegnn.experiments.mini_batches import (
    BATCH_LINES,
    DATASETS,
    NEIGHBORHOODS,
    PARTITIONS,
    SHORT_MESSAGES,
    SMALL_PARTITIONS,
    WAYS,
    WHOLE,
    WHOLE_AS_LONG,
    compare_batches,
    shares_of_nodes,
)
from tdegnn.experiments.records import read_lines
from tests.batches_page import SHARES
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset

MIRROR = os.environ.get("TDEGNN_MIRROR", "")


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
        SMALL_PARTITIONS: 12,
    }
    # Each of 32 batches per epoch is seen once at most.
    assert {line["system"]: line["epochs"] for line in lines} == {
        WHOLE: 3,
        SHORT_MESSAGES: 3,
        WHOLE_AS_LONG: 12,
        PARTITIONS: 3,
        NEIGHBORHOODS: 3,
        SMALL_PARTITIONS: 1,
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


def test_smaller_batches_see_fewer_nodes(monkeypatch):
    monkeypatch.setattr(mini_batches, "load_nodes", lambda name: make_dataset(num_nodes=600))
    shares = {way: shares_of_nodes("any", way) for way in WAYS if WAYS[way]}
    assert {way: len(own) for way, own in shares.items()} == {PARTITIONS: 4, NEIGHBORHOODS: 4, SMALL_PARTITIONS: 32}
    # A batch has its inner nodes, and no more than all.
    assert 2 / 64 <= max(shares[SMALL_PARTITIONS]) < min(shares[PARTITIONS]) <= 1
    assert all(1 / 8 < share <= 1 for way in (PARTITIONS, NEIGHBORHOODS) for share in shares[way])


@pytest.mark.slow
@pytest.mark.skipif(not MIRROR, reason="TDEGNN_MIRROR names no folder with the benchmark files")
@pytest.mark.parametrize("dataset", DATASETS)
def test_recorded_shares_are_those_of_the_recipe(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_CACHE", str(tmp_path))
    monkeypatch.setenv("TDEGNN_MIRROR", MIRROR)
    recorded = json.loads(SHARES.read_text())["shares"][dataset]
    assert shares_of_nodes(dataset, NEIGHBORHOODS) == recorded[NEIGHBORHOODS]
    # Another version of METIS may cut elsewhere.
    for way in (PARTITIONS, SMALL_PARTITIONS):
        assert np.mean(shares_of_nodes(dataset, way)) == pytest.approx(np.mean(recorded[way]), rel=0.05)
