"""`tdegnn order` and `tdegnn reproduce order-found`."""

import json
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from tdegnn import Panel, cli, simulate_wave, write_edges, write_series
from tdegnn.analysis.order_trials import OrderTrial
from tdegnn.cli.order import _trial_row
from tdegnn.data.simulators.physics import random_graph

FAST = ("--resamples", "40")


@pytest.fixture
def run(capsys):
    """Run a command in this process; return its exit code, what it printed, and what it complained about."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A damped wave on 20 nodes with noise and a few gaps, and its edges."""
    folder = tmp_path_factory.mktemp("tables")
    simulation = simulate_wave(random_graph(20), num_trajectories=1, num_steps=520, damping=0.2)
    values = simulation.states.numpy()[0]
    values = values + 0.002 * values.std() * np.random.default_rng(0).standard_normal(values.shape)
    values[np.random.default_rng(1).random(values.shape) < 0.005] = np.nan
    panel = Panel.from_array(values, nodes=[f"town {place}" for place in range(20)], graph=simulation.graph)
    write_series(panel, folder / "heights.csv")
    write_edges(panel.graph, panel.nodes, folder / "edges.csv")
    return folder / "heights.csv", folder / "edges.csv"


def test_the_order_of_a_table_is_said_in_words(run, tables):
    series, edges = tables
    code, out, err = run("order", series, "--edges", edges, "--step-size", "0.1", *FAST)
    assert (code, err) == (0, "")
    assert "Second order, in " in out
    assert "Equation: F'' + 0.2 F' = s(F; G)" in out
    assert "D_1 = 0.02 (" in out
    assert "takes part" in out
    assert "were filled." in out


def test_a_share_just_below_the_threshold_is_not_printed_as_if_it_reached_it():
    trial = OrderTrial(1, 0.9496, 0.9296, 0.9999, 0.9496, 0.12, 0.0312, (3, 6))
    assert _trial_row(trial) == ["1", "94.9 %", "92.9 % to 99.9 %", "3.1 %", "12 %"]


def test_each_order_that_is_tried_is_shown(monkeypatch, run, tables):
    shown = []

    @contextmanager
    def watched(*, is_quiet):
        yield lambda *given: shown.append(given)

    monkeypatch.setattr(sys.modules["tdegnn.cli.order"], "progress_stages", watched)
    assert run("order", tables[0], "--edges", tables[1], "--max-order", "3", *FAST)[0] == 0
    assert shown == [("reading tables", 0, None), *(("orders", done, 3) for done in range(4))]


def test_quiet_is_the_verdict(run, tables):
    series, edges = tables
    code, out, _ = run("order", series, "--edges", edges, "--quiet", *FAST)
    assert code == 0
    assert out.startswith("Second order, in ")
    assert out.count("\n") == 1


def test_without_edges_nodes_are_judged_alone(run, tables):
    code, out, _ = run("order", tables[0], "--max-order", "2", *FAST)
    assert code == 0
    assert "Note: No edges are known" in out


@pytest.mark.slow
def test_json_and_the_folder_hold_the_same(run, tables, tmp_path):
    series, edges = tables
    folder = tmp_path / "new" / "folder"
    code, out, _ = run("order", series, "--edges", edges, "--json", "--out", folder, "--seed", "3", *FAST)
    assert code == 0
    record = json.loads(out)
    assert (record["order"], len(record["trials"])) == (2, 4)
    assert record == json.loads((folder / "order.json").read_text())
    assert (folder / "order.png").stat().st_size > 10_000


def test_data_that_cannot_tell_are_no_error(run, tmp_path):
    noise = Panel.from_array(np.random.default_rng(0).standard_normal((200, 5)), nodes=list("abcde"))
    write_series(noise, tmp_path / "noise.csv")
    code, out, err = run("order", tmp_path / "noise.csv", "--out", tmp_path / "out", *FAST)
    assert (code, err) == (0, "")
    assert "The data cannot tell their order: noise hides even the first differences." in out
    assert "hidden by noise" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["order"], "Missing argument"),
        (["order", "nowhere.csv"], "Expected a file at nowhere.csv, got none"),
        (["order", "chickenpocks"], "Did you mean 'chickenpox'?"),
        (["order", "{series}", "--max-order", "9"], "Invalid value for '--max-order'"),
        (["order", "{series}", "--step-size", "0"], "Expected --step-size to be positive, got 0.0."),
        (
            ["order", "{short}"],
            "Expected at least 52 steps (4 pieces of 13, to fit some and judge by the others), got 30",
        ),
        (["reproduce", "order-found", "--system", "tea"], "Expected a system among heat, wave, "),
        (["reproduce", "order-found", "--report", "--out", "none.jsonl"], "Expected result lines in none.jsonl"),
    ],
)
def test_mistakes_are_one_line(run, tables, tmp_path, arguments, message):
    short = tmp_path / "short.csv"
    write_series(Panel.from_array(np.random.default_rng(0).standard_normal((30, 3)), nodes=list("abc")), short)
    places = {"{series}": tables[0], "{short}": short}
    code, out, err = run(*(places.get(argument, argument) for argument in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.slow
def test_reproduce_order_found_goes_on_and_reports(run, tmp_path):
    path = tmp_path / "order_found.jsonl"
    asked = ("reproduce", "order-found", "--system", "white noise", "--out", path)
    assert run(*asked, "--seeds", "1", "--quiet") == (0, f"1 runs in {path}; 0 verdicts are wrong.\n", "")
    code, out, _ = run(*asked, "--seeds", "2")
    assert code == 0
    assert "2/2" in out
    _, out, _ = run(*asked, "--report", "--json")
    (cell,) = json.loads(out)
    assert cell == {"system": "white noise", "noise": 0.0, "num_runs": 2, "num_right": 2, "num_wrong": 0}
