import json

import pytest

from tdegnn.experiments import ablation, node_results, recipe_files, table1
from tests.cli.test_commands import run
from tests.experiments.test_table1 import SMALL
from tests.node_datasets import make_dataset

OURS = (table1.FIXED, *table1.LEARNED)


@pytest.fixture
def made_up(monkeypatch):
    for module in (node_results, table1):
        monkeypatch.setattr(module, "load_nodes", lambda name: make_dataset())
    small = {system: SMALL.__class__(**{**SMALL.__dict__, "system": system, "order": 1 if system == "DE-GNN" else 2})
             for system in OURS}  # fmt: skip
    for module in (ablation, table1, recipe_files):
        monkeypatch.setattr(module, "read_recipes", lambda name, path=None: small)


@pytest.mark.slow
def test_table_one_trains_reports_and_does_not_train_again(made_up, capsys, tmp_path):
    path = tmp_path / "table1.jsonl"
    code, out, err = run(capsys, "reproduce", "table1", "--dataset", "cora", "--out", str(path))
    assert (code, err) == (0, "")
    assert "TDE-GNN_A" in out
    assert "87.99" in out  # the paper's number beside
    assert "points over DE-GNN" in out
    lines = path.read_text()
    assert len(lines.splitlines()) == 18
    code, out, _ = run(capsys, "reproduce", "table1", "--dataset", "cora", "--out", str(path), "--report", "--json")
    assert path.read_text() == lines
    assert {record["system"] for record in json.loads(out)} == {*OURS, *table1.SOLVED}


@pytest.mark.slow
def test_orders_are_trained_drawn_and_not_trained_again(made_up, capsys, tmp_path):
    path = tmp_path / "ablation.jsonl"
    arguments = ("reproduce", "ablation", "--dataset", "cora", "--out", str(path))
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "16 rows of 10 splits" in out
    assert out.count(" to ") == 14  # an interval for each order above 1, of both rules
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    orders = {(line["system"], line["configuration"]["order"]) for line in lines}
    assert orders == {(system, order) for system in ablation.SYSTEMS for order in range(1, 9)}
    assert (tmp_path / "ablation.png").stat().st_size > 10_000
    code, out, _ = run(capsys, *arguments, "--report", "--json", "--picture", str(tmp_path / "again.png"))
    assert len(path.read_text().splitlines()) == len(lines)
    assert json.loads(out)["picture"].endswith("again.png")
    first, *others = json.loads(out)["orders"]
    assert (first["order"], first["over_order_1"]) == (1, None)
    assert all(record["over_order_1"] for record in others if record["order"] > 1)


def test_an_ablation_without_lines_or_of_an_unknown_dataset_is_refused(capsys):
    for arguments in (["--report", "--out", "nothing.jsonl"], ["--dataset", "coar"]):
        code, _, err = run(capsys, "reproduce", "ablation", *arguments)
        assert code == 2
        assert "Expected" in err
        assert err.count("\n") == 1


@pytest.mark.slow
def test_runtimes_stand_beside_those_of_the_paper(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tdegnn.data.benchmarks.load.load_nodes", lambda name: make_dataset())
    path = tmp_path / "runtimes.jsonl"
    code, out, err = run(capsys, "reproduce", "runtimes", "--repetitions", "1", "--out", str(path))
    assert (code, err) == (0, "")
    assert "34.55" in out  # the paper's
    assert "Slowest is" in out
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "coar"], "Expected a dataset among squirrel, film"),
        (["--system", "GPN"], "Expected a system among LINK-ridge, kernel ridge, MLP"),
        (["--report", "--out", "nothing.jsonl"], "Expected result lines in nothing.jsonl"),
    ],
)
def test_mistakes_give_one_line(capsys, arguments, message):
    code, _, err = run(capsys, "reproduce", "table1", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
