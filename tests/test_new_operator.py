"""A new operator is one file and one line of the registry: then it is known by name everywhere."""

import importlib
import json
import re
import runpy
import sys

import numpy as np
import pytest
import torch
from benchmarks.operators import why_not_large

from tdegnn import Forecaster, NodeClassifier, cli, operators, read_panel
from tdegnn.experiments.operator_rules import RULE_LINES
from tdegnn.experiments.recipe_files import read_recipes, write_recipe
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.zoo import collect_zoo
from tdegnn.nodes.settings import NodeConfig
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tests import operators_page, results_page, test_subgraph, zoo
from tests.core.checkers import CHANNELS, check_members, check_operator, check_relabeling, small_graph
from tests.experiments.test_zoo import check_entry
from tests.experiments.tiny_nodes import make_tiny_nodes
from tests.operators import test_memory
from tests.pages import ROOT

NODES = 12


@pytest.fixture
def repulsion(monkeypatch, tmp_path):
    """The class of the guide in a file of operators/, and the line in the registry."""
    guide = (ROOT / "docs" / "your_own_operator.md").read_text()
    (written,) = re.findall(r"^(class Repulsion.*?)\n\n\n", guide, flags=re.DOTALL | re.MULTILINE)
    assert len(written.splitlines()) <= 20
    imports = "import torch\nfrom torch import nn\n\nfrom tdegnn.core.operator import SpatialOperator\n\n\n"
    (tmp_path / "operators").mkdir()
    (tmp_path / "operators" / "repulsion.py").write_text(f"{imports}{written}\n")
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(tmp_path / "operators")])
    monkeypatch.setattr(operators, "repulsion", None, raising=False)  # taken away again with the module
    monkeypatch.setitem(sys.modules, "tdegnn.operators.repulsion", None)
    del sys.modules["tdegnn.operators.repulsion"]
    made = importlib.import_module("tdegnn.operators.repulsion").Repulsion
    monkeypatch.setitem(OPERATORS._members, "repulsion", Part(made))
    return made


def tell(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert stop.value.code == 0, printed.err
    return printed.out


@pytest.mark.slow
def test_estimators_and_their_folders_take_it_by_name(repulsion, tmp_path):
    features, ring = np.eye(NODES, dtype=np.float32), np.roll(np.eye(NODES), 1, axis=0)
    small = dict(operator="repulsion", hidden_channels=4, num_steps=3, device="cpu")
    model = NodeClassifier(coefficients="stable", **small).fit(features, np.arange(NODES) % 2, graph=ring)
    assert isinstance(model.network_.operator, repulsion)
    model.save(tmp_path / "nodes")
    loaded = NodeClassifier.load(tmp_path / "nodes")
    assert loaded.operator == "repulsion"
    np.testing.assert_array_equal(loaded.predict_proba(features, graph=ring), model.predict_proba())
    panel = read_panel(ROOT / "examples" / "cases.csv", ROOT / "examples" / "borders.csv")
    forecaster = Forecaster(window=4, num_members=1, **small).fit(panel)
    forecaster.save(tmp_path / "series")
    again = Forecaster.load(tmp_path / "series")
    assert again.operator == "repulsion"
    np.testing.assert_array_equal(again.predict(panel=panel).values, forecaster.predict().values)


@pytest.mark.slow
def test_commands_take_it_by_name(repulsion, tmp_path, capsys):
    features = "node,a\n" + "".join(f"n{node},{node % 2}\n" for node in range(NODES))
    labels = "node,label\n" + "".join(f"n{node},{'xy'[node % 2]}\n" for node in range(NODES))
    edges = "source,target\n" + "".join(f"n{node},n{(node + 1) % NODES}\n" for node in range(NODES))
    files = []
    for name, text in {"features": features, "labels": labels, "edges": edges}.items():
        (tmp_path / f"{name}.csv").write_text(text)
        files += [f"--{name}", tmp_path / f"{name}.csv"]
    small = ("--operator", "repulsion", "--steps", "3", "--hidden-channels", "4", "--device", "cpu")
    tell(capsys, "classify", *files, *small, "--out", tmp_path / "run", "--quiet")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["operator"] == "repulsion"
    tell(capsys, "predict", tmp_path / "run", "--out", tmp_path / "classes.csv", "--quiet")
    tables = (ROOT / "examples" / "cases.csv", "--edges", ROOT / "examples" / "borders.csv")
    few = ("--window", "4", "--members", "1", "--horizon", "1")
    tell(capsys, "fit", *tables, *small, *few, "--out", tmp_path / "series", "--quiet")
    assert "repulsion (operator)" in tell(capsys, "zoo", "repulsion")
    assert '"repulsion"' in tell(capsys, "zoo", "--json")


def test_recipes_take_it_by_name(repulsion, tmp_path):
    write_recipe(tmp_path / "own.toml", NodeConfig(operator=Part("repulsion", num_layers=3)))
    recipe = read_recipes("own", tmp_path / "own.toml")["TDE-GNN_D"]
    assert recipe.operator == Part("repulsion", num_layers=3)
    assert isinstance(recipe.build_network(4, 2, seed=0).operator, repulsion)


@pytest.mark.slow
def test_a_sweep_takes_it_by_name(repulsion, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tdegnn.data.benchmarks.load.load_nodes", lambda _: make_tiny_nodes())
    best = tmp_path / "best.toml"
    few = ("--trials", "2", "--batch", "2", "--finalists", "1", "--splits", "1", "--steps", "3", "--device", "cpu")
    kept = ("--storage", tmp_path / "study.journal", "--recipe", best)
    tell(capsys, "sweep", "cora", "--system", "TDE-GNN_S", "--operator", "repulsion", *few, *kept, "--quiet")
    assert read_recipes("own", best)["TDE-GNN_S"].operator == "repulsion"


def test_it_keeps_the_contract_of_all_operators(repulsion):
    check_operator(repulsion(CHANNELS, 2), torch.device("cpu"))
    check_members(lambda: repulsion(CHANNELS, 2))
    check_relabeling(repulsion(CHANNELS, 2), [small_graph("out")])
    assert test_subgraph.is_local("repulsion")
    test_subgraph.check_reach("repulsion", "out")
    assert why_not_large("repulsion") is None


def test_the_site_and_the_zoo_have_it_without_a_change(repulsion):
    list_registered = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["list_registered"]
    reference, gallery = (
        list_registered((ROOT / "docs" / page).read_text(), page) for page in ("parts/operators.md", "zoo.md")
    )
    assert f"\n::: {repulsion.__module__}\n" in reference
    assert f"| `repulsion` | `{repulsion.equation}` | {repulsion.citation} |" in gallery
    page = zoo.PAGE.read_text()
    assert zoo.renew(page) == page
    (entry,) = [entry for entry in collect_zoo() if entry.name == "repulsion"]
    check_entry(entry)


def test_the_tables_of_results_stay_as_they_are(repulsion, monkeypatch):
    """Those of operators; `test_results.py` looks at all tables with one operator more."""
    page = results_page.PAGE.read_text()
    assert operators_page.renew_operators(page, results_page.PAGE.parent) == page
    without_row = operators_page.render_without_row(read_lines(zoo.RULES_LINES, RULE_LINES))
    assert f"<!-- row-less operators -->\n{without_row}\n<!--" in page
    # Also if it refuses a large graph.
    monkeypatch.setattr(
        operators_page, "why_not_large", lambda name: "no" if name == "repulsion" else why_not_large(name)
    )
    assert operators_page.renew_operators(page, results_page.PAGE.parent) == page


def test_its_steps_need_the_memory_that_is_usual(repulsion):
    for direction in ("both", "out"):
        test_memory.test_an_operator_makes_no_tensor_that_its_equation_does_not_need("repulsion", direction)
        test_memory.test_a_step_needs_no_more_memory_at_its_peak_than_its_equation("repulsion", direction)
