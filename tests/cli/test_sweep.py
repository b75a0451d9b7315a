import json
import re
import shlex
import tomllib

import numpy as np
import pandas as pd
import pytest
import typer

from tdegnn import Forecaster, Part, cli
from tdegnn.cli import commands
from tdegnn.cli.sweep import sweep
from tdegnn.data.benchmarks import load
from tdegnn.experiments.forecaster_space import ForecasterSweepSettings
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.studies import open_study
from tests.experiments.tiny_nodes import make_tiny_nodes

FEW = ("--system", "TDE-GNN_D", "--trials", "4", "--batch", "4", "--splits", "2", "--steps", "3", "--device", "cpu")


@pytest.fixture(autouse=True)
def _tiny(tmp_path, monkeypatch):
    """The sweep command alone, on a tiny dataset, in an empty folder."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(sweep)
    app.callback()(lambda: None)
    monkeypatch.setattr(commands, "app", app)
    monkeypatch.setattr(load, "load_nodes", lambda name: make_tiny_nodes())
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", *arguments])
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.mark.slow
def test_a_sweep_prints_a_table_and_writes_a_recipe(capsys, tmp_path):
    code, out, err = run(capsys, "cora", *FEW)
    assert (code, err) == (0, "")
    assert "Best settings on cora" in out
    assert "cora-TDE-GNN_D: the best of 4 trials is" in out
    recipes = read_recipes("cora", tmp_path / "runs/sweeps/cora-TDE-GNN_D.toml")
    assert [(system, config.num_steps) for system, config in recipes.items()] == [("TDE-GNN_D", 3)]
    code, again, _ = run(capsys, "cora", *FEW, "--quiet")
    assert (code, again) == (0, out.splitlines()[-1] + "\n")


@pytest.mark.slow
def test_a_sweep_of_an_operator_keeps_it_in_the_recipe(capsys, tmp_path):
    options = ("--operator", "near-identity", "--set", "batch_norm=true")
    code, out, err = run(capsys, "cora", *FEW, *options)
    assert (code, err) == (0, "")
    assert "cora-TDE-GNN_D-near-identity: the best of 4 trials is" in out
    recipes = read_recipes("cora", tmp_path / "runs/sweeps/cora-TDE-GNN_D-near-identity.toml")
    assert recipes["TDE-GNN_D"].operator == Part("near-identity", batch_norm=True)


@pytest.mark.slow
def test_json_has_all_of_it(capsys, tmp_path):
    options = ("--json", "--finalists", "2", "--study", "mine", "--storage", "file", "--recipe", "best.toml")
    code, out, err = run(capsys, "cora", *FEW, *options)
    record = json.loads(out)
    assert (code, err) == (0, "")
    assert (record["study"], record["num_finished"], record["recipe"]) == ("mine", 4, "best.toml")
    first, second = record["finalists"]
    assert first["validation_accuracy"] >= second["validation_accuracy"]
    assert len(first["test_accuracies"]) == 4
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--storage", "ftp://somewhere"), "Expected storage to be a file or a URL of sqlite, postgresql, mysql"),
        (("--storage", "sqlite:////nowhere/at/all.db"), "Expected a sqlite database that answers"),
        (
            ("--storage", "postgresql:/me:secret@host"),
            "Expected storage to be a file or a URL such as postgresql://USER",
        ),
        (("--system", "GCN"), "got 'GCN'."),
        (("--system", "attention"), "Expected --system for the benchmark cora, one of DE-GNN, TDE-GNN_D"),
        (("--layers", "3"), "Expected no --layers for the benchmark cora, whose nodes have none. Leave it out."),
        (("--direction", "in"), "Expected no --direction for the benchmark cora"),
        (("--splits", "9"), "Expected at most 4 splits"),
        (("--operator", "difusion"), "Did you mean 'diffusion'?"),
        (("--operator", "diffusion", "--set", "norm=true"), "got 'norm'."),
        (("--operator", "gcnii", "--space", "families"), "Expected no operator with the space families"),
        (("--trials", "0"), "Input should be greater than or equal to 1"),
    ],
)
def test_mistakes_are_one_line(capsys, options, message):
    code, out, err = run(capsys, "cora", *FEW, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


QUICK = ("--trials", "2", "--batch", "2", "--finalists", "1", "--steps", "3", "--members", "1", "--device", "cpu")
ON_TABLE = ("sales.csv", "--edges", "links.csv", "--horizon", "2", "--loss", "huber:0.5", *QUICK)


@pytest.fixture
def table(tmp_path):
    """A table of series and one of edges."""
    values = np.random.default_rng(0).normal(size=(80, 3)).cumsum(axis=0)
    times = pd.date_range("2020-01-01", periods=80).astype(str)
    frame = pd.DataFrame(values, columns=["a b", "c", "d"])
    frame.insert(0, "time", times)
    frame.to_csv(tmp_path / "sales.csv", index=False)
    (tmp_path / "links.csv").write_text("source,target\na b,c\nc,d\n")
    return tmp_path / "sales.csv"


@pytest.mark.slow
def test_a_sweep_on_a_table_shows_its_stages_in_a_pipe(capsys, table, monkeypatch):
    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.001)
    monkeypatch.setattr("tdegnn.cli.output.NEXT_LINE", 0.001)
    code, _, err = run(capsys, *ON_TABLE)
    assert code == 0
    shown = [re.fullmatch(r"([a-z ]+?)(?:, step (\d) of (\d))? \(\d+ s\)", line).groups() for line in err.splitlines()]
    # What came before may take no time.
    assert [*dict.fromkeys(stage for stage, *_ in shown)][-3:] == ["trials", "finalists", "test"]
    # Two trials; one finalist and the default; the best settings and the default ones, on steps that chose nothing.
    assert {(stage, total) for stage, done, total in shown if done is not None} == {
        ("trials", "2"),
        ("finalists", "2"),
        ("test", "2"),
    }


@pytest.mark.slow
def test_a_sweep_on_a_table_ends_with_the_command_that_trains_the_best(capsys, table, monkeypatch):
    code, out, err = run(capsys, *ON_TABLE)
    assert (code, err) == (0, "")
    assert "Best settings, chosen by the loss on held-out steps before the test part" in out
    assert "from 15 origins, which chose nothing" in out
    *_, verdict, command = out.splitlines()
    assert verdict.startswith("sales: ")
    assert "MAE on the test part, which chose nothing" in verdict
    code, printed, _ = run(capsys, *ON_TABLE, "--json")
    record = json.loads(printed)
    assert (code, record["command"], record["num_finished"]) == (0, command, 2)
    monkeypatch.undo()
    monkeypatch.chdir(table.parent)
    words = shlex.split(command)
    assert words[:5] == ["tdegnn", "fit", "sales.csv", "--edges", "links.csv"]
    with pytest.raises(SystemExit):
        cli.main([*words[1:], "--out", "run", "--device", "cpu", "--json"])
    trained = json.loads((table.parent / "run/config.json").read_text())["settings"]
    best = record["finalists"][0]["settings"]
    assert {name: trained[name] for name in best} == best
    recipe = tomllib.loads((table.parent / record["recipe"]).read_text())["Forecaster"]
    assert Forecaster.from_record(recipe).to_record() == trained | {"device": "auto"}


def test_a_study_of_another_table_is_refused(capsys, table):
    storage = table.parent / "runs/sweeps/sales.journal"
    fixed = {"horizon": 2, "loss": Part("huber", delta=0.5), "num_steps": 3, "num_members": 1}
    other = "80 steps of 3 nodes, 2 edges (both), checksum 0"
    open_study(storage, "sales", other, ForecasterSweepSettings(fixed, num_steps=3)).close()
    code, out, err = run(capsys, *ON_TABLE)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"Expected the settings study 'sales' was started with, dataset = {other}, got dataset = 80 steps" in err
    assert err.endswith("Use those, or another --study.\n")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sale",), "got 'sale', which is neither. Did you mean"),
        (("nothing",), "Expected a file, or a benchmark (cora, citeseer,"),
        (("sales.csv", "--splits", "2"), "Expected no --splits for series, which have one split and one space."),
        (("sales.csv", "--space", "wide"), "Expected no --space for series"),
        (("sales.csv", "--network", "walks"), "Expected no --network in a search"),
        (("sales.csv", "--states", "physical"), "Train them without a search."),
    ],
)
def test_mistakes_about_tables_are_one_line(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
