import json

import numpy as np
import pytest

from tdegnn import Graph
from tdegnn.data.panel import Panel
from tdegnn.data.times.seasons import Season
from tdegnn.experiments import paper, records, series_rows, series_tasks, table2
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.rivals.series.config import SeriesRivalConfig
from tdegnn.training.devices import choose_placement
from tests.cli.test_commands import run

CPU = choose_placement("cpu")
SMALL = SeriesConfig(hidden_channels=4, num_steps=12)
NUM_STEPS, NUM_NODES = 64, 5


def make_panel(name="chickenpox"):
    draw = np.random.default_rng(0)
    season = np.sin(2 * np.pi * np.arange(NUM_STEPS) / 8)[:, None]
    values = season + 0.3 * draw.standard_normal((NUM_STEPS, NUM_NODES))
    edges = np.array([range(NUM_NODES - 1), range(1, NUM_NODES)])
    return Panel.from_array(values, graph=Graph(edges, NUM_NODES), name=name)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    for module in (table2, series_rows):
        monkeypatch.setattr(module, "load_panel", make_panel)
    for name in list(series_tasks.TASKS):
        monkeypatch.delitem(series_tasks.TASKS, name)
    task = series_tasks.SeriesTask((Season(8.0, 2),), 8, num_steps=12)
    monkeypatch.setitem(series_tasks.TASKS, "chickenpox", task)


def test_the_test_steps_are_those_of_the_paper_whatever_the_window():
    prepared = {window: series_rows.prepare_series("chickenpox", window, CPU) for window in (4, 9)}
    steps = {window: each.windows.predicting(range(58, 64)).first_target_steps for window, each in prepared.items()}
    assert steps == {4: range(58, 64), 9: range(58, 64)}
    assert prepared[9].split.test == range(58, 64)


def test_a_line_of_the_reconstruction_is_shown_as_one():
    older, original = {"dataset": "wikimath"}, {"dataset": "wikimath", "panel": "wikimath"}
    newer = {**original, "panel": "wikimath (reconstructed)"}
    assert series_rows.shown_names([{"dataset": "pedalme"}, older]) == {
        "pedalme": "pedalme",
        "wikimath": newer["panel"],
    }
    assert series_rows.shown_names([original]) == {"wikimath": "wikimath"}
    assert series_rows.shown_names([newer, original]) == {"wikimath": newer["panel"]}


@pytest.mark.slow
def test_lines_say_how_they_were_made_and_are_not_made_again(tmp_path):
    path = tmp_path / "table2.jsonl"
    table2.train_row("chickenpox", SMALL, path, placement=CPU, seeds=[0, 1])
    lines = records.read_lines(path)
    needed = {
        "dataset",
        "system",
        "seed",
        "protocol",
        "window",
        "panel",
        "validation_mse",
        "test_mse",
        "configuration",
        "versions",
    }
    assert all(line.keys() >= needed for line in lines)
    assert [line["seed"] for line in lines] == [0, 1]
    assert np.mean(lines[0]["test_mse_by_step"]) == pytest.approx(lines[0]["test_mse"])
    table2.train_row("chickenpox", SMALL, path, placement=CPU, seeds=[0, 1, 2])
    assert [line["seed"] for line in records.read_lines(path)] == [0, 1, 2]


@pytest.mark.slow
def test_a_seed_alone_gets_what_it_gets_among_others(tmp_path):
    table2.train_row("chickenpox", SMALL, tmp_path / "three", placement=CPU, seeds=[0, 1, 2])
    table2.train_row("chickenpox", SMALL, tmp_path / "one", placement=CPU, seeds=[1])
    alone, among = records.read_lines(tmp_path / "one")[0], records.read_lines(tmp_path / "three")[1]
    assert (alone["seed"], alone["epoch"]) == (among["seed"], among["epoch"])
    assert alone["test_mse"] == pytest.approx(among["test_mse"], rel=1e-3)


@pytest.mark.slow
def test_nothing_of_the_test_part_is_learned_from_under_the_honest_protocol(tmp_path, monkeypatch):
    """With other test values, forecasts are the same: so the errors differ by what the values differ by alone."""
    table2.train_row("chickenpox", SMALL, tmp_path / "as it is", placement=CPU, seeds=[0])
    panel = make_panel()
    panel.values[63] += 100.0  # the last step: no other forecast sees it
    monkeypatch.setattr(series_rows, "load_panel", lambda name: panel)
    table2.train_row("chickenpox", SMALL, tmp_path / "other", placement=CPU, seeds=[0])
    before, after = (records.read_lines(tmp_path / name)[0] for name in ("as it is", "other"))
    assert before["validation_mse"] == pytest.approx(after["validation_mse"])
    np.testing.assert_allclose(before["test_mse_by_step"][:-1], after["test_mse_by_step"][:-1], rtol=1e-5)
    assert after["test_mse_by_step"][-1] > 5_000


@pytest.mark.slow
def test_the_papers_protocol_never_has_a_higher_error_than_its_last_step(tmp_path):
    path = tmp_path / "table2.jsonl"
    for protocol in table2.PROTOCOLS:
        table2.train_row("chickenpox", SMALL, path, placement=CPU, seeds=[0, 1], protocol=protocol)
    cells = table2.summarize(records.read_lines(path))
    assert set(cells) == {("chickenpox", "TDE-GNN_D", protocol, 4) for protocol in table2.PROTOCOLS}
    published = [line for line in records.read_lines(path) if line["protocol"] == "paper"]
    assert all(line["validation_mse"] is None for line in published)


def test_classical_rows_are_solved_once(tmp_path):
    path = tmp_path / "table2.jsonl"
    table2.solve_classical("chickenpox", path)
    table2.solve_classical("chickenpox", path)
    lines = records.read_lines(path)
    assert [line["system"] for line in lines] == list(series_tasks.CLASSICAL)
    by_system = {line["system"]: line["test_mse"] for line in lines}
    assert by_system["AR + season (ridge)"] < by_system["constant"]
    assert by_system["constant"] == pytest.approx(float(np.mean(make_panel().values[58:] ** 2)))


def test_every_row_of_the_table_has_settings():
    task = series_tasks.SeriesTask((), 4, batch_size=2)
    for system in series_tasks.SYSTEMS[len(series_tasks.CLASSICAL) :]:
        config = task.config(system)
        assert (config.system, config.batch_size) == (system, 2)
        assert isinstance(config, SeriesConfig if system in series_tasks.OURS else SeriesRivalConfig)
    # TDE-GNN_S is ours.
    assert set(paper.FORECAST_ERRORS) == set(series_tasks.SYSTEMS) - {*series_tasks.CLASSICAL, "TDE-GNN_S"}


@pytest.mark.slow
def test_the_command_trains_reports_and_shows_the_papers_numbers(capsys, tmp_path):
    path = tmp_path / "table2.jsonl"
    chosen = ("--dataset", "chickenpox", "--system", "TDE-GNN_A", "--system", "constant", "--seeds", "2")
    code, out, err = run(capsys, "reproduce", "table2", *chosen, "--out", str(path))
    assert (code, err) == (0, "")
    assert "0.787" in out  # the paper's
    lines = path.read_text()
    code, out, _ = run(capsys, "reproduce", "table2", *chosen, "--out", str(path), "--report", "--json")
    assert path.read_text() == lines
    assert {(record["system"], record["protocol"]) for record in json.loads(out)} >= {
        ("TDE-GNN_A", "honest"), ("TDE-GNN_A", "paper"), ("constant", "honest"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "measles"], "Expected a dataset among chickenpox"),
        (["--system", "LSTM"], "Expected a system among constant"),
        (["--protocol", "best"], "Expected a protocol among honest, paper, got 'best'"),
        (["--report", "--out", "nothing.jsonl"], "Expected result lines in nothing.jsonl"),
    ],
)
def test_mistakes_give_one_line(capsys, arguments, message):
    code, _, err = run(capsys, "reproduce", "table2", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
