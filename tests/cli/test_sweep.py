import json

import pytest
import typer

from tdegnn import Part, cli
from tdegnn.cli import commands
from tdegnn.cli.sweep import sweep
from tdegnn.data.benchmarks import load
from tdegnn.experiments.recipe_files import read_recipes
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
    code, out, err = run(capsys, "tiny", *FEW)
    assert (code, err) == (0, "")
    assert "Best settings on tiny" in out
    assert "tiny-TDE-GNN_D: the best of 4 trials is" in out
    recipes = read_recipes("tiny", tmp_path / "runs/sweeps/tiny-TDE-GNN_D.toml")
    assert [(system, config.num_steps) for system, config in recipes.items()] == [("TDE-GNN_D", 3)]
    code, again, _ = run(capsys, "tiny", *FEW, "--quiet")
    assert (code, again) == (0, out.splitlines()[-1] + "\n")


@pytest.mark.slow
def test_a_sweep_of_an_operator_keeps_it_in_the_recipe(capsys, tmp_path):
    options = ("--operator", "near-identity", "--set", "batch_norm=true")
    code, out, err = run(capsys, "tiny", *FEW, *options)
    assert (code, err) == (0, "")
    assert "tiny-TDE-GNN_D-near-identity: the best of 4 trials is" in out
    recipes = read_recipes("tiny", tmp_path / "runs/sweeps/tiny-TDE-GNN_D-near-identity.toml")
    assert recipes["TDE-GNN_D"].operator == Part("near-identity", batch_norm=True)


@pytest.mark.slow
def test_json_has_all_of_it(capsys, tmp_path):
    options = ("--json", "--finalists", "2", "--study", "mine", "--storage", "file", "--recipe", "best.toml")
    code, out, err = run(capsys, "tiny", *FEW, *options)
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
        (("--system", "GCN"), "'GCN' is not one of"),
        (("--splits", "9"), "Expected at most 4 splits"),
        (("--operator", "difusion"), "Did you mean 'diffusion'?"),
        (("--operator", "diffusion", "--set", "norm=true"), "got 'norm'."),
        (("--operator", "gcnii", "--space", "families"), "Expected no operator with the space families"),
        (("--trials", "0"), "Input should be greater than or equal to 1"),
    ],
)
def test_mistakes_are_one_line(capsys, options, message):
    code, out, err = run(capsys, "tiny", *FEW, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
