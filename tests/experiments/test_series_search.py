import numpy as np
import pytest

from tdegnn.data.times.seasons import Season
from tdegnn.experiments import records, series_rows, series_search, series_tasks
from tdegnn.experiments.series_search import ROW, RULES, TRIAL, WINDOW_RULES, SeriesCell
from tdegnn.training.devices import choose_placement
from tests.cli.test_commands import run
from tests.experiments.test_table2 import make_panel

CPU = choose_placement("cpu")


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    monkeypatch.setattr(series_rows, "load_panel", make_panel)
    for name in list(series_tasks.TASKS):
        monkeypatch.delitem(series_tasks.TASKS, name)
    task = series_tasks.SeriesTask((Season(8.0, 2),), 8, num_steps=6)
    monkeypatch.setitem(series_tasks.TASKS, "chickenpox", task)
    monkeypatch.setattr(series_search, "NUM_SEEDS", 2)


def numbers_of(config):
    return (config.embedding.learning_rate, config.embedding.weight_decay, config.dropout)


def test_every_system_is_tried_with_the_same_number_of_configurations_and_the_same_numbers():
    drawn = {system: SeriesCell("chickenpox", 4, system).drawn() for system in series_search.SYSTEMS}
    for system, shapes in drawn.items():
        configs = [config for shape in shapes for config in shape]
        assert len(configs) == series_search.NUM_CONFIGS
        assert {config.system for config in configs} == {system}
        assert [numbers_of(config) for config in configs] == [
            numbers_of(config) for shape in drawn["DE-GNN"] for config in shape
        ]
        assert all(len({config.shape for config in shape}) == 1 for shape in shapes)


@pytest.mark.slow
def test_the_best_on_validation_is_trained_with_all_seeds_and_test_steps_see_nothing_else(tmp_path):
    path = tmp_path / "searched.jsonl"
    series_search.search_cell(SeriesCell("chickenpox", 4, "TDE-GNN_D"), path, CPU)
    lines = records.read_lines(path, series_search.SEARCHED_LINES)
    trials = [line for line in lines if line["stage"] == TRIAL]
    rows = [line for line in lines if line["stage"] == ROW]
    assert (len(trials), len(rows)) == (2 * series_search.NUM_CONFIGS, 2)
    assert all(line["test_mse"] is None for line in trials)
    means = {}
    for line in trials:
        means.setdefault(str(line["configuration"]), []).append(line["validation_mse"])
    best = min(means, key=lambda config: np.mean(means[config]))
    assert {str(line["configuration"]) for line in rows} == {best}
    # The row begins with the same seeds as its trials.
    assert [line["validation_mse"] for line in rows] == pytest.approx(means[best], rel=1e-3)
    series_search.search_cell(SeriesCell("chickenpox", 4, "TDE-GNN_D"), path, CPU)
    assert len(records.read_lines(path)) == len(lines)


@pytest.mark.slow
def test_rules_differ_in_c_alone_and_need_all_of_our_searches(tmp_path, capsys):
    path = tmp_path / "searched.jsonl"
    series_search.search_cell(SeriesCell("chickenpox", 4, "DE-GNN"), path, CPU)
    series_search.train_rules("chickenpox", 4, path, CPU)
    assert not series_search.summarize_searched(records.read_lines(path), RULES)
    systems = [word for system in series_tasks.OURS for word in ("--system", system)]
    command = ("reproduce", "series-rows", *systems, "--out", str(path), "--device", "cpu")
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert "lower by" in out
    lines = records.read_lines(path, series_search.SEARCHED_LINES)
    stages = {stage: series_search.summarize_searched(lines, stage) for stage in (RULES, WINDOW_RULES)}
    networks = {stage: rules["chickenpox", 4, "DE-GNN"][0]["configuration"] for stage, rules in stages.items() if rules}
    is_one_network = networks[RULES]["states"] == "windows"
    assert set(networks) == ({RULES} if is_one_network else {RULES, WINDOW_RULES})
    assert is_one_network or networks[WINDOW_RULES]["states"] == "windows"
    worth = series_search.worth_of_rules(lines)
    for stage, network in networks.items():
        rules = stages[stage]
        assert {key[2] for key in rules} == {*series_tasks.OURS}
        assert all({**own[0]["configuration"], "system": ""} == {**network, "system": ""} for own in rules.values())
        euler, learned = (
            np.mean([line["test_mse"] for line in rules["chickenpox", 4, name]]) for name in ("DE-GNN", "TDE-GNN_D")
        )
        assert worth["chickenpox", 4, network["states"], "TDE-GNN_D"].mean == pytest.approx(euler - learned)
    assert {key[3] for key in worth} == {*series_tasks.OURS} - {series_search.EULER}
    assert run(capsys, *command, "--json")[0] == 0
    assert len(records.read_lines(path)) == len(lines)


def test_a_rival_is_compared_with_the_learned_rule_that_validation_chooses():
    def cell(validation, by_step):
        return [
            {"validation_mse": validation, "test_mse_by_step": [step + shift for step in by_step]} for shift in (-1, 1)
        ]

    cells = {
        ("chickenpox", 4, "GC-LSTM"): cell(0.3, [1.0, 2.0, 3.0]),
        ("chickenpox", 4, "DE-GNN"): cell(0.1, [0.0, 0.0, 0.0]),
        ("chickenpox", 4, "TDE-GNN_D"): cell(0.2, [1.0, 1.0, 1.0]),
        ("chickenpox", 4, "TDE-GNN_A"): cell(0.25, [0.0, 0.0, 0.0]),
        ("pedalme", 4, "GC-LSTM"): cell(0.3, [1.0, 2.0, 3.0]),
    }
    (lead,) = series_search.leads_over_rivals(cells).items()
    assert lead[0] == ("chickenpox", 4, "GC-LSTM")
    assert (lead[1].ours, lead[1].gain.mean) == ("TDE-GNN_D", 1.0)
