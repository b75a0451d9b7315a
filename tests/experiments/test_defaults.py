"""The table of defaults: one fit per split, baselines from it, and the tuned row from the lines of Table 1."""

import json
from functools import partial

import pytest

from tdegnn import NodeClassifier
from tdegnn.experiments import defaults, table1
from tdegnn.experiments.defaults import COLUMNS, DEFAULT_LINES, compare_defaults, try_defaults
from tdegnn.experiments.records import read_lines
from tests.best_page import renew_defaults
from tests.cli.test_commands import run
from tests.experiments.test_table1 import SMALL
from tests.experiments.tiny_nodes import make_tiny_nodes


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(defaults, "load_nodes", lambda name: make_tiny_nodes())
    monkeypatch.setattr(defaults, "NodeClassifier", partial(NodeClassifier, num_steps=6))
    monkeypatch.setattr(table1, "read_recipes", lambda name: {"TDE-GNN_A": SMALL, "TDE-GNN_D": SMALL})


def tuned_line(system, split, validation):
    return dict(
        dataset="cora", system=system, split=split, validation_accuracy=validation, test_accuracy=0.5 + split / 10,
        configuration=SMALL.to_record(),
    )  # fmt: skip


@pytest.mark.slow
def test_lines_are_written_once_and_compared_with_the_tuned_row(tiny, tmp_path, capsys):
    path, tuned = tmp_path / "defaults.jsonl", tmp_path / "table1.jsonl"
    arguments = ["reproduce", "defaults", "--dataset", "cora", "--splits", "2", "--table1", str(tuned)]
    tuned.write_text("".join(json.dumps(tuned_line("TDE-GNN_D", split, 0.7)) + "\n" for split in range(4)))
    code, out, err = run(capsys, *arguments, "--out", str(path))
    assert (code, err) == (0, "")
    assert "default over tuned" in out
    assert "55.00" in out  # the mean of the two splits that were tried, of four
    lines = read_lines(path, DEFAULT_LINES)
    assert [line["system"] for line in lines] == [name for name in COLUMNS if name != "tuned"] * 2
    try_defaults("cora", 0, path, "cpu")
    assert read_lines(path, DEFAULT_LINES) == lines
    code, out, _ = run(capsys, *arguments, "--out", str(path), "--report", "--json")
    assert {record["column"] for record in json.loads(out)} == {*COLUMNS}
    page = renew_defaults("", lines, read_lines(tuned))
    own = [line["test_accuracy"] for line in lines if line["system"] == "default"]
    assert f"| Cora | {50 * sum(own):.2f} ± " in page
    assert "| 55.00 ± 5.00 | " in page
    assert page.count("| Cora | ") == 1


def test_the_tuned_row_is_chosen_by_validation(tiny):
    lines = [
        dict(dataset="cora", system="default", split=0, validation_accuracy=0.5, test_accuracy=0.6, configuration={})
    ]
    rows = [tuned_line("TDE-GNN_D", 0, 0.6), tuned_line("TDE-GNN_D", 1, 0.9), tuned_line("DE-GNN", 0, 0.99)]
    cells = compare_defaults(lines, rows)
    assert cells["cora", "tuned"].test_accuracies == {0: 50.0}
    assert ("cora", "tuned") not in compare_defaults(lines, [])
