from dataclasses import replace
from pathlib import Path

import pytest

from tdegnn import InputError
from tdegnn.experiments import operator_rules, row_search
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.operator_rules import (
    EULER,
    RULES,
    complete_datasets,
    describe_best,
    summarize_rules,
    train_rules,
    with_rule,
)
from tdegnn.experiments.recipe_files import read_recipes, write_recipes
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.row_search import FINAL, TRIAL_LINES, adopt_rows, read_row_searches, search_row
from tdegnn.experiments.side_by_side import compute_cells
from tdegnn.experiments.table1 import DATASETS
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.devices import choose_placement
from tests.node_datasets import make_dataset

CPU = choose_placement("cpu")
SEARCHES = read_row_searches()


@pytest.fixture
def made_up(monkeypatch):
    for module in (row_search, operator_rules):
        monkeypatch.setattr(module, "load_nodes", lambda name: make_dataset())
    monkeypatch.setattr(row_search, "NUM_STEPS", 4)
    monkeypatch.setattr(row_search, "CONFIGS_PER_SHAPE", 2)


@pytest.mark.parametrize("system", SEARCHES)
def test_every_search_makes_configurations(system):
    search = SEARCHES[system]
    assert {*search.published, *search.rerun, *search.near} <= set(DATASETS)
    for dataset in DATASETS:
        by_shape = search.drawn(dataset)
        num_shapes = len(search.shapes) + len(search.near.get(dataset, ()))
        assert [len({config.shape for config in configs}) for configs in by_shape] == [1] * num_shapes
        assert by_shape == search.drawn(dataset)
        assert all(config.system == system for configs in by_shape for config in (*configs, *search.known(dataset)))
        for config in (*(configs[0] for configs in by_shape), *search.known(dataset)):
            config.build(config.prepare(make_dataset()), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["GRAFF", "GPRGNN"])
def test_a_row_is_searched_once_and_adopted(made_up, tmp_path, system):
    trials, runs, table = (tmp_path / f"{name}.jsonl" for name in ("trials", "runs", "table"))
    for _ in range(2):
        search_row("cora", system, trials, runs, placement=CPU)
    lines = read_lines(trials, TRIAL_LINES)
    finals = [line for line in lines if line["stage"] == FINAL]
    assert (len(lines) - len(finals), len(finals)) == (4, 3)  # of each shape the best, and the published settings
    assert adopt_rows(trials, runs, tmp_path, table) == [("cora", system)]
    best = max(finals, key=lambda line: line["validation_accuracy"])
    assert read_recipes("cora", tmp_path / "cora.toml")[system].to_record() == best["configuration"]
    assert len(read_lines(table, NODE_LINES)) == make_dataset().num_splits


@pytest.mark.slow
def test_settings_of_a_rerun_are_trained_and_replace_no_recipe_of_another_search(made_up, tmp_path):
    trials, runs = tmp_path / "trials.jsonl", tmp_path / "runs.jsonl"
    for dataset in ("film", "cora"):  # none is known for Cora
        search_row(dataset, "GCNII", trials, runs, placement=CPU)
    (line,) = read_lines(trials, TRIAL_LINES)
    assert (line["dataset"], line["stage"]) == ("film", FINAL)
    assert line["configuration"] == SEARCHES["GCNII"].known("film")[0].to_record()
    assert adopt_rows(trials, runs, tmp_path, tmp_path / "table.jsonl") == []


@pytest.mark.slow
def test_what_is_added_is_trained_alone(made_up, monkeypatch, tmp_path):
    trials, runs = tmp_path / "trials.jsonl", tmp_path / "runs.jsonl"
    search_row("cora", "GRAFF", trials, runs, placement=CPU)
    before = read_lines(trials, TRIAL_LINES)
    wider = replace(SEARCHES["GRAFF"], shapes=[*SEARCHES["GRAFF"].shapes, {"hidden_channels": 8, "num_layers": 3}])
    monkeypatch.setattr(row_search, "read_row_searches", lambda: {"GRAFF": wider})
    search_row("cora", "GRAFF", trials, runs, placement=CPU)
    added = read_lines(trials, TRIAL_LINES)[len(before) :]
    assert [line["stage"] for line in added] == [row_search.RANDOM] * 2 + [FINAL]
    assert {line["configuration"]["hidden_channels"] for line in added} == {8}
    known = replace(wider, published={"cora": {**wider.published["cora"], "hidden_channels": 4}})
    monkeypatch.setattr(row_search, "read_row_searches", lambda: {"GRAFF": known})
    search_row("cora", "GRAFF", trials, runs, placement=CPU)
    (last,) = read_lines(trials, TRIAL_LINES)[len(before) + len(added) :]
    assert (last["stage"], last["configuration"]["hidden_channels"]) == (FINAL, 4)


def test_an_unknown_row_is_refused(tmp_path):
    with pytest.raises(InputError, match="Expected system to be one of GRAND, .*, got 'GRANT'"):
        search_row("cora", "GRANT", tmp_path / "t.jsonl", tmp_path / "r.jsonl", placement=CPU)


RECIPE = NodeConfig("GRAFF", 8, 2, 1, "euler", "graff", num_steps=4)


@pytest.mark.slow
def test_all_rules_are_trained_once_and_compared(made_up, monkeypatch, tmp_path):
    write_recipes(tmp_path / "cora.toml", {"GRAFF": RECIPE})
    monkeypatch.setattr(operator_rules, "read_recipes", lambda name: read_recipes(name, tmp_path / "cora.toml"))
    path = tmp_path / "rules.jsonl"
    train_rules("cora", "GRAFF", path, placement=CPU)
    before = path.read_text()
    train_rules("cora", "GRAFF", path, placement=CPU)
    assert path.read_text() == before
    cells = summarize_rules(read_lines(path))
    assert set(cells["cora", "GRAFF"].cells) == set(RULES)
    assert describe_best(cells, "cora").startswith("cora: on the best operator by validation, GRAFF (")
    assert complete_datasets(cells, ["cora"]) == ["cora"]
    write_recipes(tmp_path / "cora.toml", {"GRAFF": RECIPE, "GREAD": replace(RECIPE, system="GREAD")})
    assert complete_datasets(cells, ["cora"]) == []


def test_networks_with_all_rules_start_with_the_same_weights():
    dataset = make_dataset()
    drawn = {rule: dict(with_rule(RECIPE, rule).build(dataset, seed=3).named_parameters()) for rule in RULES}
    shared = [name for name in drawn[EULER] if not name.startswith("coefficients")]
    assert {"embedding.weight", "readout.weight"} <= set(shared)
    assert all((own[name] == drawn[EULER][name]).all() for own in drawn.values() for name in shared)


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_cells_are_computed_side_by_side(tmp_path, num_workers):
    cells, done = [(tmp_path / str(number), "text") for number in range(4)], []
    compute_cells(Path.write_text, cells, num_workers, done.append)
    assert sorted(done) == cells
    assert all(path.read_text() == "text" for path, _ in cells)
    with pytest.raises(FileNotFoundError):
        compute_cells(Path.write_text, [(tmp_path / "none" / "file", "text")], num_workers)
