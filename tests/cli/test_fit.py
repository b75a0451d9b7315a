"""Forecasting on the command line: fit, predict, backtest, explain."""

import json
import re
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest
import typer

from tdegnn import Part, cli, simulate_wave
from tdegnn.cli.forecaster_options import (
    ARGUMENTS,
    ForecasterOptions,
    ScheduleOption,
    SeriesNetworkOption,
    SeriesSkipOption,
    StatesOption,
    parse_loss,
)
from tdegnn.cli.forecaster_options import LOSSES as LOSS_NAMES
from tdegnn.cli.options import RULES, DeviceOption, SystemOption, rule_argument
from tdegnn.cli.series import read_series
from tdegnn.core.rules import COEFFICIENTS, SYSTEMS
from tdegnn.data.panel import Panel
from tdegnn.data.simulators.hourly_counts import simulate_hourly_counts
from tdegnn.data.tables.series import read_panel, write_series
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.forecasting.intervals import INTERVALS
from tdegnn.forecasting.linear_skip import SKIPS
from tdegnn.forecasting.losses import LOSSES
from tdegnn.forecasting.series_config import States
from tdegnn.forecasting.settings import NetworkName
from tdegnn.forecasting.training import FEWEST_STEPS, MOST_STEPS
from tdegnn.runs.run_folder import METRICS, WEIGHTS
from tdegnn.training.progress import Progress
from tdegnn.training.schedules import ScheduleName

PROGRAM = Path(sys.executable).parent / "tdegnn"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SERIES, EDGES = EXAMPLES / "cases.csv", ("--edges", EXAMPLES / "borders.csv")
SMALL = ("--steps", "12", "--members", "1", "--hidden-channels", "4", "--device", "cpu")
TOWNS = ["Aldermoor", "Brackwater", "Cinderford", "Dunmere", "Elmstead", "Fenwick", "Garrowby", "Hollin"]
NAIVE = ("the mean", "the last value", "the last season")


def call(capsys, *arguments):
    """Run a command in this process; return its exit code, what it printed, and what it complained about."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.fixture
def run(capsys):
    return lambda *arguments: call(capsys, *arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run folder of the examples, as quickly trained as can be."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    with pytest.raises(SystemExit) as stop:
        cli.main([str(part) for part in ("fit", SERIES, *EDGES, *SMALL, "--out", folder, "--quiet")])
    assert stop.value.code == 0
    return folder


def complains(run, *arguments):
    """What a command that fails says: one line, exit code 2."""
    code, out, complaint = run(*arguments)
    assert (code, out) == (2, "")
    assert complaint.count("\n") == 1
    assert complaint.startswith("Error: ")
    return complaint


# The whole way.


@pytest.mark.slow
def test_a_table_becomes_a_forecast_within_a_minute_a_command(tmp_path):
    """Twenty nodes, ten years of weeks, default settings. What others do on the machine meanwhile does not count."""
    nodes = [f"Town {letter}" for letter in "ABCDEFGHIJKLMNOPQRST"]
    draw, values = np.random.default_rng(0), np.zeros((520, 20))
    for step in range(1, 520):
        values[step] = 0.6 * values[step - 1] + 0.3 * np.roll(values[step - 1], 1) + draw.normal(size=20)
    values += 50 + 3 * np.sin(2 * np.pi * np.arange(520) / 52.18)[:, None]
    table = pd.DataFrame(values, columns=nodes)
    table.insert(0, "week", pd.date_range("2014-01-06", periods=520, freq="7D"))
    table.to_csv(tmp_path / "series.csv", index=False)
    edges = pd.DataFrame({"source": nodes, "target": np.roll(nodes, 1)})
    edges.to_csv(tmp_path / "edges.csv", index=False)

    fitted = timed(tmp_path, "fit", "series.csv", "--edges", "edges.csv", "--out", "run")
    assert "better than the last value" in fitted
    forecast = timed(tmp_path, "predict", "run", "--horizon", "4", "--out", "forecast.csv")
    assert "20 nodes, 4 steps from 2023-12-25 to 2024-01-15, in forecast.csv" in forecast
    assert "better than" in timed(tmp_path, "backtest", "series.csv", "--edges", "edges.csv", "--folds", "2")
    assert "latent" in timed(tmp_path, "explain", "run")

    lines = (tmp_path / "forecast.csv").read_text().splitlines()
    assert lines[0] == "time,node,forecast,low,high"
    assert lines[1].startswith("2023-12-25,Town A,")
    assert lines[-1].startswith("2024-01-15,Town T,")
    rows = pd.read_csv(tmp_path / "forecast.csv")
    assert len(rows) == 80
    assert (rows["low"] < rows["forecast"]).all()
    assert (rows["forecast"] < rows["high"]).all()


def timed(folder, *arguments):
    """What a command prints that takes less than a minute of computing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 60
    # Nothing but how far it is, now and then.
    assert all(re.fullmatch(r".+ \(\d+ s\)", line) for line in result.stderr.splitlines()), result.stderr
    return result.stdout


# Training.


@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_the_commands_have_the_defaults_of_the_forecaster(monkeypatch, run, command):
    made = []

    def stop(model, *_, **__):
        made.append(model.get_params())
        raise SystemExit(0)

    monkeypatch.setattr(Forecaster, command, stop)
    assert run(command, SERIES, *EDGES)[0] == 0
    assert run(command, SERIES, *EDGES, "--states", "physical")[0] == 0
    assert run(command, SERIES, *EDGES, "--network", "paper")[0] == 0
    # Values that are defaults elsewhere are given settings here.
    assert run(command, SERIES, *EDGES, "--network", "paper", "--hidden-channels", "64", "--weight-decay", "0")[0] == 0
    expected = [Forecaster(), Forecaster.physical(), Forecaster.paper()]
    expected.append(Forecaster.paper(hidden_channels=64, weight_decay=0.0))
    assert made == [model.get_params() for model in expected]


def test_the_help_shows_defaults_that_depend_on_the_states():
    kinds = Forecaster(), Forecaster.physical()
    hints = get_type_hints(ForecasterOptions, include_extras=True)
    shown = {field.name: get_args(hints[field.name])[1].show_default for field in fields(ForecasterOptions)}
    for name in ("order", "learning_rate", "weight_decay", "members", "hidden_channels", "optimizer", "schedule"):
        usual, physical = (getattr(kind, ARGUMENTS.get(name, name)) for kind in kinds)
        assert shown[name] == f"{usual}, on physical states {physical}"
    for name in ("horizon", "layers", "dropout", "identity_channels", "state_norm", "readout", "step_size"):
        assert shown[name] == str(getattr(kinds[0], ARGUMENTS.get(name, name)))
    limits = f"{FEWEST_STEPS} to {MOST_STEPS} by the length of the series"
    assert shown["steps"] == f"{limits}, on physical states {kinds[1].num_steps}"
    assert (shown["patience"], kinds[1].patience) == (f"{kinds[0].patience}, on physical states never", None)


def test_the_names_of_options_are_those_of_the_forecaster():
    assert tuple(StatesOption) == get_args(States)
    assert tuple(SeriesNetworkOption) == (*get_args(NetworkName), "paper")
    assert tuple(SeriesSkipOption) == SKIPS.names
    assert tuple(ScheduleOption) == get_args(ScheduleName)
    assert set(LOSS_NAMES) == set(LOSSES.names)


@pytest.mark.parametrize(
    ("text", "loss"),
    [("absolute", "absolute"), ("huber:0.5", Part("huber", delta=0.5)), ("quantile:0.9", Part("quantile", level=0.9))],
)
def test_a_loss_may_have_a_number(text, loss):
    options = ForecasterOptions(loss=parse_loss(text))
    assert options.make(0, DeviceOption.CPU).loss == loss


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hubber", "Expected squared, .* got 'hubber'"),
        ("squared:1", "got 'squared:1'"),
        ("huber:x", "a number after huber:"),
    ],
)
def test_a_wrong_loss_is_one_line(text, message):
    with pytest.raises(typer.BadParameter, match=message):
        parse_loss(text)


@pytest.mark.slow
def test_the_facts_of_a_fit_have_all_settings(run, tmp_path):
    options = ("--steps", "4", "--horizon", "2", "--window", "4", "--time-budget", "1h", "--loss", "huber:0.5")
    code, printed, _ = run("fit", SERIES, *EDGES, *options, "--out", tmp_path / "run", "--json")
    facts = json.loads(printed)
    assert code == 0
    names = {ARGUMENTS.get(each.name, each.name) for each in fields(ForecasterOptions)} - {"operator_setting"}
    assert names <= set(facts["settings"])
    assert facts["settings"]["loss"] == {"name": "huber", "settings": {"delta": 0.5}}
    chosen = Forecaster.load(tmp_path / "run").network_choice_
    assert facts["network"] == {"name": chosen.name, "settings": chosen.settings, "scores": chosen.scores}
    assert facts["planned_steps"] == 4
    assert 0 < facts["seconds"] < 600
    code, printed, _ = run("fit", SERIES, *EDGES, *SMALL, "--out", tmp_path / "other", "--json")
    facts = json.loads(printed)
    assert (facts["network"], facts["planned_steps"]) == (None, None)


def test_what_is_said_comes_through(monkeypatch, run):
    made = []

    def stop(model, *_, **__):
        made.append(model)
        raise SystemExit(0)

    monkeypatch.setattr(Forecaster, "fit", stop)
    said = ("--order", "3", "--steps", "7", "--members", "2", "--patience", "9", "--learning-rate", "0.5")
    for states in ("latent", "physical"):
        assert run("fit", SERIES, *said, "--step-size", "0.1", "--states", states, "--system", "TDE-GNN_A")[0] == 0
        model = made.pop()
        assert (model.states, model.system, model.step_size) == (states, "TDE-GNN_A", 0.1)
        assert (model.order, model.num_steps, model.num_members, model.patience) == (3, 7, 2, 9)
        assert model.learning_rate == 0.5
    assert run("fit", SERIES, "--layers", "3", "--dropout", "0")[0] == 0
    assert (made[0].num_layers, made[0].dropout) == (3, 0)


def test_the_names_of_parts_are_those_of_the_library():
    assert COEFFICIENTS.names == RULES
    assert tuple(SystemOption) == SYSTEMS


def test_a_rule_is_a_system_or_coefficients():
    assert rule_argument(None) == {}
    assert rule_argument("TDE-GNN_A") == {"system": "TDE-GNN_A"}
    assert rule_argument("stable-attention") == {"coefficients": "stable-attention"}


@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_parts_of_a_forecaster_are_named(monkeypatch, run, command):
    made = []

    def stop(model, *_, **__):
        made.append(model)
        raise SystemExit(0)

    monkeypatch.setattr(Forecaster, command, stop)
    assert run(command, SERIES, "--coefficients", "leapfrog", "--operator", "diffusion")[0] == 0
    assert (made[0].system, made[0].coefficients, made[0].operator) == (None, "leapfrog", "diffusion")
    assert run(command, SERIES, "--operator", "diffusion", "--set", "batch_norm=true")[0] == 0
    assert made[1].operator == Part("diffusion", batch_norm=True)
    assert "Expected one of DE-GNN, TDE-GNN_D, " in complains(run, command, SERIES, "--system", "LSTM")
    assert "Did you mean 'leapfrog'?" in complains(run, command, SERIES, "--coefficients", "leapfrg")
    assert "Did you mean 'diffusion'?" in complains(run, command, SERIES, "--operator", "difusion")
    assert "Expected --operator with --set, got none." in complains(run, command, SERIES, "--set", "batch_norm=true")


def watch(monkeypatch, command):
    """What a command will show: stage, finished steps, all steps, text."""
    shown = []

    @contextmanager
    def watched(*, is_quiet):
        yield lambda stage, done, total, text="": shown.append((stage, done, total, text))

    monkeypatch.setattr(sys.modules[f"tdegnn.cli.{command}"], "progress_stages", watched)
    return shown


@pytest.mark.slow
def test_each_stage_is_shown_and_the_second_training_is_as_long_as_the_first_was_good(monkeypatch, run, tmp_path):
    shown = watch(monkeypatch, "fit")
    code, out, _ = run("fit", SERIES, *EDGES, *SMALL, "--out", tmp_path / "run", "--json")
    assert code == 0
    by_stage = {stage: [each[1:] for each in shown if each[0] == stage] for stage in dict.fromkeys(s[0] for s in shown)}
    assert [*by_stage][:2] == ["reading tables", "starting"]
    assert [*by_stage][2:] == ["window search", "training", "errors and intervals", "again, with the held-out steps"]
    num_windows, num_steps = len(by_stage["window search"]) - 1, len(by_stage["training"]) - 1
    assert by_stage["window search"][-1][:2] == (num_windows, num_windows)
    assert by_stage["training"][0] == (0, num_steps, "training")
    assert by_stage["training"][-1][2].startswith("training: loss ")
    best_step = json.loads(out)["best_step"]
    assert [done for done, *_ in by_stage["again, with the held-out steps"]] == [*range(best_step + 1)]


@pytest.mark.slow
def test_an_update_shows_its_training(monkeypatch, run, trained, tmp_path):
    shown = watch(monkeypatch, "update")
    weeks = pd.read_csv(SERIES)
    newer = weeks.tail(1).assign(week="2024-01-01")
    pd.concat([weeks, newer]).to_csv(tmp_path / "newer.csv", index=False)
    given = (trained, tmp_path / "newer.csv", "--out", tmp_path / "updated", "--steps", "3", "--device", "cpu")
    assert run("update", *given)[0] == 0
    assert [each[:3] for each in shown] == [
        ("starting", 0, None),
        ("reading tables", 0, None),
        *(("training", done, 3) for done in range(4)),
    ]


@pytest.mark.slow
def test_a_backtest_shows_the_stages_of_each_fit_with_the_name_of_the_method(monkeypatch, run):
    shown = watch(monkeypatch, "backtest")
    options = ("--window", "4", "--horizon", "2", "--folds", "2", "--refit", "--against", "last,ridge")
    assert run("backtest", SERIES, *EDGES, *SMALL, *options)[0] == 0
    of_fit = ("training", "errors and intervals", "again, with the held-out steps", "forecasts")
    assert [*dict.fromkeys(stage for stage, *_ in shown)] == [
        "reading tables",
        "starting",
        *(f"forecaster (1 of 2): {stage}" for stage in of_fit),
        "last (1 of 2)",
        "ridge (1 of 2)",
        *(f"forecaster (2 of 2): {stage}" for stage in of_fit),
        "last (2 of 2)",
        "ridge (2 of 2)",
    ]
    steps = [each[1:3] for each in shown if each[0] == "forecaster (2 of 2): training"]
    assert steps == [(done, 12) for done in range(13)]
    assert all(total is None or done <= total for _, done, total, _ in shown)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["update", "backtest", "order"])
def test_a_slow_table_is_said_to_be_read(monkeypatch, run, trained, tmp_path, command):
    def read_slowly(*_):
        time.sleep(0.5)
        raise SystemExit(0)

    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.05)
    monkeypatch.setattr("tdegnn.cli.output.NEXT_LINE", 0.05)
    monkeypatch.setattr(sys.modules[f"tdegnn.cli.{command}"], "read_series", read_slowly)
    given = (trained, SERIES, "--out", tmp_path / "updated") if command == "update" else (SERIES, *EDGES)
    code, _, err = run(command, *given)
    assert code == 0
    assert re.fullmatch(r"(starting \(\d+ s\)\n)*(reading tables \(\d+ s\)\n)+", err)
    assert run(command, *given, "--quiet") == (0, "", "")


@pytest.mark.slow
def test_the_folder_and_a_line_of_progress_come_before_a_long_search_ends(monkeypatch, run, tmp_path):
    folders = []

    def search_slowly(*given):
        on_progress = given[-1]
        on_progress(Progress("window search", 1, 3))
        folders.append(sorted(path.name for path in (tmp_path / "run").iterdir()))
        time.sleep(0.5)
        return dict.fromkeys(given[3], 1.0)

    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.05)
    monkeypatch.setattr("tdegnn.cli.output.NEXT_LINE", 0.05)
    monkeypatch.setattr("tdegnn.forecasting.held_out.measure_windows", search_slowly)
    code, _, err = run("fit", SERIES, *EDGES, *SMALL, "--out", tmp_path / "run")
    assert (code, folders) == (0, [[".lock", "config.json", "metrics.jsonl"]])
    lines = [line for line in err.splitlines() if "window search" in line]
    assert len(lines) > 1
    assert all(re.fullmatch(r"window search, step 1 of 3 \(\d+ s\)", line) for line in lines)
    code, _, err = run("fit", SERIES, *EDGES, *SMALL, "--out", tmp_path / "other", "--quiet")
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_fit_prints_errors_beside_naive_ones(run, tmp_path):
    code, out, err = run("fit", SERIES, *EDGES, *SMALL, "--window", "5", "--order", "3", "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith(" held-out forecasts of 4 steps, which also chose the step")
    for name in ("the forecaster", *NAIVE, "best step", "largest root", "intervals "):
        assert any(line.startswith(name) for line in lines)
    assert any(line.split() == ["window", "5"] for line in lines)
    (c,) = (line for line in lines if line.startswith("c (mean over layers)"))
    assert c.count(",") == 2
    assert "Note: 0.6% of the values are missing." in lines
    assert lines[-1].startswith("On held-out steps the forecaster is ")
    assert lines[-1].endswith(f"Run folder: {tmp_path / 'run'}/")


@pytest.fixture
def hourly(tmp_path):
    counts = simulate_hourly_counts(num_nodes=4, num_weeks=3, seed=0).panel
    write_series(counts, tmp_path / "counts.csv")
    return tmp_path / "counts.csv"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ((), "window, network and step"),
        (("--window", "4"), "network and step"),
        (("--network", "alone"), "window and step"),
        (("--window", "4", "--network", "alone"), "the step"),
    ],
)
def test_the_headline_says_what_the_held_out_steps_chose(run, tmp_path, options, chosen):
    quick = ("--steps", "2", "--members", "1", "--horizon", "2", "--device", "cpu")
    code, out, _ = run("fit", SERIES, *EDGES, *quick, *options, "--out", tmp_path / "run")
    assert code == 0
    headline = rf"Errors of \d+ held-out forecasts of 2 steps, which also chose {chosen}"
    assert re.fullmatch(headline, out.splitlines()[0])


@pytest.mark.slow
def test_the_headline_speaks_of_steps_that_chose_nothing(run, hourly, tmp_path):
    code, out, err = run("fit", hourly, *SMALL, "--window", "4", "--horizon", "2", "--out", tmp_path / "run")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert re.fullmatch(r"Errors of \d+ held-out forecasts of 2 steps, which chose nothing", lines[0])
    assert any(line.startswith("the mean by hour and weekday ") for line in lines)
    assert any(
        "so no forecast and no interval goes below 0. Pass --lowest for another limit." in line for line in lines
    )
    assert lines[-1].startswith("On held-out steps that chose nothing, the forecaster is ")


@pytest.mark.slow
def test_the_calendar_can_be_left_out(run, hourly, tmp_path):
    command = ("fit", hourly, *SMALL, "--window", "4", "--horizon", "2", "--json", "--out")
    with_it, without = (
        json.loads(run(*command, tmp_path / option, f"--{option}")[1]) for option in ("calendar", "no-calendar")
    )
    assert {"the last season", "the mean by hour and weekday"} <= {*with_it["held_out"]}
    assert not {"the last season", "the mean by hour and weekday"} & {*without["held_out"]}
    message = complains(run, "fit", hourly, "--states", "physical", "--no-calendar")
    assert "Expected no --calendar with physical states, which see only the series that is forecast" in message


@pytest.mark.slow
def test_the_folder_and_a_line_come_while_a_table_is_read(monkeypatch, run, hourly, tmp_path):
    folders = []

    def read_slowly(*given):
        folders.append([*(tmp_path / "runs" / "one").iterdir()])
        time.sleep(0.5)
        return read_series(*given)

    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.05)
    monkeypatch.setattr(sys.modules["tdegnn.cli.fit"], "read_series", read_slowly)
    command = ("fit", hourly, *SMALL, "--window", "4", "--horizon", "2", "--out", tmp_path / "runs" / "one")
    code, _, err = run(*command)
    assert (code, folders) == (0, [[]])
    assert re.match(r"reading tables \(\d+ s\)\n", err)
    # What cannot be written to is said before anything is read.
    assert "with a finished training. Add --resume or" in complains(run, *command)
    assert len(folders) == 1


@pytest.mark.slow
def test_a_wrong_table_leaves_no_folder_and_a_killed_reader_blocks_nothing(monkeypatch, run, hourly, tmp_path):
    command = ("fit", hourly, *SMALL, "--window", "4", "--horizon", "2", "--out", tmp_path / "runs" / "one")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("time,a\n2024-01-01,x\n")
    complains(run, "fit", wrong, *command[2:])
    assert not (tmp_path / "runs").exists()
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["tdegnn.cli.fit"], "read_series", interrupt)
        assert run(*command)[0] == 130
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs" / "one").mkdir(parents=True)  # as a killed process leaves it
    assert run(*command, "--resume")[0] == 0


@pytest.mark.slow
def test_fit_as_json_and_attention(run, tmp_path):
    options = ("--coefficients", "TDE-GNN_A", "--window", "4", "--horizon", "2", "--coverage", "0.8", "--season", "13")
    options += ("--intervals", "normalized")
    code, out, _ = run("fit", SERIES, *EDGES, *SMALL, *options, "--out", tmp_path / "run", "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["window"], facts["horizon"], facts["best_step"] <= 12) == (4, 2, True)
    assert list(facts["held_out"]) == ["steps", "chose_nothing", "forecaster", *NAIVE]
    assert sum(facts["coefficients"]) == pytest.approx(1, abs=1e-5)
    assert facts["notes"][0] == "0.6% of the values are missing."
    model = Forecaster.load(tmp_path / "run")
    assert (model.system, model.coverage, model.season) == ("TDE-GNN_A", 0.8, 13)
    # There are 22 held-out windows: too few to check intervals.
    assert facts["intervals"] == {"method": "normalized", "coverage": None}
    code, out, err = run("fit", SERIES, *EDGES, "--intervals", "wide", "--out", tmp_path / "other")
    assert (code, err.count("\n")) == (2, 1)
    assert "intervals to be one of auto, conformal, normalized, counts, adaptive" in err
    code, out, _ = run("explain", tmp_path / "run", "--json")
    assert (code, json.loads(out)["states"]) == (0, "latent")


@pytest.mark.slow
def test_a_stopped_training_goes_on(run, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    command = ("fit", SERIES, *EDGES, *SMALL, "--window", "4", "--out")
    assert run(*command, whole)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("tdegnn.runs.run_folder.RunFolder.finish", interrupt)
        assert run(*command, parts)[0] == 130
    assert "an unfinished training. Add --resume or choose" in complains(run, *command, parts)
    assert "Continue with --resume" in complains(run, "predict", parts, "--out", tmp_path / "forecast.csv")
    assert run(*command, parts, "--resume")[0] == 0
    for name in (WEIGHTS, METRICS, "summary.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    assert "a finished training" in complains(run, *command, parts)
    assert "got settings.seed = 1 instead of 0" in complains(run, *command, parts, "--resume", "--seed", "1")
    assert run(*command, parts, "--resume")[1] == run(*command, whole, "--resume")[1].replace(str(whole), str(parts))


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_benchmark_is_learned_by_its_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "tdegnn.data.benchmarks.load.load_panel", lambda name: {"pedalme": read_panel(SERIES, EDGES[1])}[name]
    )
    assert run("fit", "pedalme", *SMALL, "--window", "4", "--quiet")[0] == 0
    assert json.loads(Path("runs/fit/config.json").read_text())["data"]["benchmark"] == "pedalme"
    assert "Expected no --edges for the benchmark pedalme" in complains(run, "fit", "pedalme", *EDGES, "--out", "new")
    # A file goes before a benchmark, and that is said.
    Path("pedalme").write_bytes(SERIES.read_bytes())
    code, out, _ = run("fit", "pedalme", *EDGES, *SMALL, "--window", "4", "--out", "other")
    assert code == 0
    assert "Note: pedalme is a file here and also a benchmark: the file was read." in out


@pytest.mark.slow
def test_coordinates_link_neighbors(run, tmp_path):
    places = pd.DataFrame({"node": TOWNS, "x": range(8), "y": 0.0})
    places.to_csv(tmp_path / "places.csv", index=False)
    given = ("--coordinates", tmp_path / "places.csv", "--neighbors", "1", "--window", "4", "--out", tmp_path / "run")
    assert run("fit", SERIES, *SMALL, *given, "--quiet")[0] == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["data"]["edges"] == 8


@pytest.fixture
def towns(tmp_path):
    """A table of towns, as a spreadsheet writes it: in any order, and one that has no series."""
    table = pd.DataFrame({"town": [*reversed(TOWNS), "Ipswell"], "people": range(9), "hill": 0.5})
    table.to_csv(tmp_path / "towns.csv", index=False, sep=";")
    return tmp_path / "towns.csv"


@pytest.mark.slow
def test_node_features_are_learned_from_and_not_asked_for_again(run, towns, tmp_path):
    folder, given = tmp_path / "run", ("--node-features", towns)
    code, out, err = run("fit", SERIES, *EDGES, *SMALL, *given, "--window", "4", "--out", folder)
    assert (code, err) == (0, "")
    assert "Note: towns.csv has nodes that are not in the series, 'Ipswell' first; they are left out." in out
    model = Forecaster.load(folder)
    assert model.node_features_.names == ("people", "hill")
    assert model.node_features_.values[:, 0].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert json.loads((folder / "config.json").read_text())["data"]["node_features_file"] == str(towns)
    towns.unlink()
    for series in ((), ("--series", SERIES)):
        assert run("predict", folder, *series, "--out", tmp_path / "forecast.csv")[0] == 0
        expected = model.predict().to_frame()["forecast"]
        np.testing.assert_allclose(pd.read_csv(tmp_path / "forecast.csv")["forecast"], expected, rtol=1e-6)


@pytest.mark.slow
def test_a_backtest_takes_node_features(run, towns):
    options, given = ("--window", "4", "--horizon", "2", "--folds", "1", "--json"), ("--node-features", towns)
    facts = [json.loads(run("backtest", SERIES, *EDGES, *SMALL, *each, *options)[1]) for each in ((), given)]
    assert facts[0]["means"]["forecaster"] != facts[1]["means"]["forecaster"]
    assert any("'Ipswell' first" in note for note in facts[1]["notes"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "town,people\nAldermoor,1\n",
            "each node of the series in column 'town' of towns.csv, got none called 'Brackw",
        ),
        ("town,people\nAldermoor,many\n", "a number in column 'people', got 'many' in line 2 of towns.csv. Node feat"),
        ("town,value\nAldermoor,1\n", "node features with other names than the channels, got 'value'. Rename one"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_mistakes_in_node_features_are_one_line_and_leave_nothing(run, tmp_path, monkeypatch, command, text, message):
    monkeypatch.chdir(tmp_path)
    Path("towns.csv").write_text(text)
    assert message in complains(run, command, SERIES, *EDGES, *SMALL, "--node-features", "towns.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["towns.csv"]


# Forecasts.


def test_a_run_forecasts_what_comes_after_its_training(run, trained, tmp_path):
    out = tmp_path / "new" / "forecast.csv"
    code, printed, err = run("predict", trained, "--out", out)
    assert (code, err) == (0, "")
    assert printed == f"8 nodes, 4 steps from 2024-01-01 to 2024-01-22, in {out}; intervals aim at 90%\n"
    rows = pd.read_csv(out)
    assert list(rows) == ["time", "node", "forecast", "low", "high"]
    assert rows["node"].tolist() == TOWNS * 4
    expected = Forecaster.load(trained).predict().to_frame()
    np.testing.assert_allclose(rows["forecast"], expected["forecast"], rtol=1e-6)
    assert rows["time"].unique().tolist() == ["2024-01-01", "2024-01-08", "2024-01-15", "2024-01-22"]


def test_a_longer_horizon_has_a_note_and_wider_intervals(run, trained, tmp_path):
    code, printed, _ = run("predict", trained, "--horizon", "5", "--out", tmp_path / "forecast.parquet", "--json")
    facts = json.loads(printed)
    assert (code, facts["steps"], facts["from"], facts["to"]) == (0, 5, "2024-01-01", "2024-01-29")
    assert facts["notes"] == [
        "Steps after the first 4 are forecast from forecasts. "
        "Their intervals are extrapolated: no held-out forecast was that long."
    ]
    rows = pd.read_parquet(tmp_path / "forecast.parquet")
    widths = (rows["high"] - rows["low"]).to_numpy().reshape(5, 8)
    assert (widths[4] >= widths[:4].max(axis=0)).all()
    assert rows["time"].iloc[-1] == pd.Timestamp("2024-01-29")


def test_forecasts_quantiles_and_another_coverage_are_printed_as_json(run, trained, tmp_path):
    out = ("--out", tmp_path / "forecast.csv")
    asked = ("--coverage", "0.5", "--quantile", "0.1", "--quantile", "0.9")
    code, printed, _ = run("predict", trained, *asked, *out, "--json")
    facts, rows = json.loads(printed), pd.read_csv(tmp_path / "forecast.csv")
    assert (code, facts["coverage"], facts["quantiles"]) == (0, 0.5, [0.1, 0.9])
    assert list(rows) == ["time", "node", "forecast", "low", "high", "q0.1", "q0.9"] == list(facts["forecasts"][0])
    assert len(facts["forecasts"]) == len(rows) == 32
    assert facts["forecasts"][8]["time"] == rows["time"][8] == "2024-01-08"
    for name in ("forecast", "low", "q0.9"):
        np.testing.assert_allclose([row[name] for row in facts["forecasts"]], rows[name], rtol=1e-6)
    expected = Forecaster.load(trained).predict(coverage=0.5, quantiles=[0.1, 0.9]).to_frame()
    np.testing.assert_allclose(rows[["low", "high", "q0.1"]], expected[["low", "high", "q0.1"]], rtol=1e-6)
    assert "intervals aim at 50%" in run("predict", trained, "--coverage", "0.5", *out)[1]
    assert "at most 0.99" in complains(run, "predict", trained, "--coverage", "0.995", *out)
    assert "Invalid value for '--quantile'" in complains(run, "predict", trained, "--quantile", "1", *out)


@pytest.mark.slow
def test_a_run_learns_from_newer_series(run, trained, tmp_path):
    table = pd.read_csv(SERIES)
    weeks = pd.date_range(table["week"].iloc[-1], periods=3, freq="7D")[1:].strftime("%Y-%m-%d")
    newer = pd.concat([table, table[:2].assign(week=weeks)])[["week", *reversed(TOWNS)]]
    newer.to_csv(tmp_path / "newer.csv", index=False, sep=";")
    given, out = (trained, tmp_path / "newer.csv", "--separator", ";"), ("--out", tmp_path / "updated")
    code, printed, err = run("update", *given, *out, "--steps", "3", "--device", "cpu", "--quiet")
    assert (code, err) == (0, "")
    assert printed == (
        f"Trained 3 more steps on series with 2 new times, up to 2024-01-08. Run folder: {tmp_path / 'updated'}/\n"
    )
    updated, before = Forecaster.load(tmp_path / "updated"), Forecaster.load(trained)
    assert str(updated.predict().times[0].date()) == "2024-01-15"
    newer[["week", *TOWNS]].to_csv(tmp_path / "newer.csv", index=False, sep=";")
    panel = read_panel(tmp_path / "newer.csv")
    assert not np.allclose(updated.predict().values, before.predict(panel=panel).values)
    by_hand = before.set_params(device="cpu").update(panel, num_steps=3)
    np.testing.assert_allclose(updated.predict().values, by_hand.predict().values, rtol=1e-5)
    assert "Expected a new folder for the run" in complains(run, "update", *given, *out)
    facts = json.loads(run("update", *given, "--out", tmp_path / "again", "--steps", "1", "--json")[1])
    assert facts["run"] == str(tmp_path / "again")
    assert (facts["new_times"], facts["to"], len(facts["coefficients"])) == (2, "2024-01-08", updated.order_)
    old = tmp_path / "old.csv"
    table[:-3].to_csv(old, index=False)
    assert "Give old and new steps together" in complains(run, "update", trained, old, "--out", tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_newer_series_are_forecast_whatever_the_order_of_their_nodes(run, trained, tmp_path):
    table = pd.read_csv(SERIES)
    shuffled = table[["week", *reversed(TOWNS)]].assign(Ipswell=1)
    shuffled.to_csv(tmp_path / "new.csv", index=False, sep=";")
    given = ("--series", tmp_path / "new.csv", "--separator", ";", "--out", tmp_path / "forecast.csv")
    code, printed, _ = run("predict", trained, *given)
    assert code == 0
    assert "Note: new has nodes that were not in the training, 'Ipswell' first; they are left out." in printed
    expected = Forecaster.load(trained).predict().to_frame()
    np.testing.assert_allclose(pd.read_csv(tmp_path / "forecast.csv")["forecast"], expected["forecast"], rtol=1e-6)
    shuffled.drop(columns="Dunmere").to_csv(tmp_path / "new.csv", index=False, sep=";")
    assert "Expected the 8 nodes of the training in new, got none called 'Dunmere'" in complains(
        run, "predict", trained, *given
    )
    shuffled[-3:].to_csv(tmp_path / "new.csv", index=False, sep=";")
    assert "got 3" in complains(run, "predict", trained, *given)
    daily = shuffled.assign(week=pd.date_range("2024-01-01", periods=len(shuffled), freq="D"))
    daily.to_csv(tmp_path / "new.csv", index=False, sep=";")
    assert "Expected steps of 7 days, as in the training, got 1 day." in complains(run, "predict", trained, *given)


@pytest.fixture
def long_table(tmp_path):
    """A long table in German fashion: towns, weeks, cases, rain and holidays; the last are known ahead."""
    wide = pd.read_csv(SERIES).melt("week", TOWNS, "town", "cases")
    draw = np.random.default_rng(0)
    wide["rain"], wide["holidays"] = draw.random(len(wide)).round(2), draw.integers(0, 5, len(wide))
    wide["week"] = pd.to_datetime(wide["week"]).dt.strftime("%d.%m.%Y")
    wide.to_csv(tmp_path / "long.csv", index=False, sep=";", decimal=",")
    pd.read_csv(EDGES[1]).to_csv(tmp_path / "edges.csv", index=False, sep=";")
    columns = ("--node", "town", "--time", "week", "--value", "cases", "--exogenous", "rain", "--exogenous", "holidays")
    edges = ("--edges", tmp_path / "edges.csv")
    return (tmp_path / "long.csv", *edges, *columns, "--time-format", "%d.%m.%Y", "--decimal", ",")


@pytest.mark.slow
def test_what_is_known_ahead_is_asked_for_and_used(run, long_table, tmp_path):
    folder, out = tmp_path / "run", ("--out", tmp_path / "forecast.csv")
    command = ("fit", *long_table, *SMALL, "--window", "4", "--horizon", "2", "--out", folder)
    assert "Expected channels known ahead among rain, holidays, got 'cases'" in complains(
        run, *command, "--known", "cases"
    )
    assert run(*command, "--known", "holidays")[0] == 0
    assert "Expected future values of holidays, got none. Pass --future." in complains(run, "predict", folder, *out)
    future = pd.DataFrame([(town, week, 1) for week in ("01.01.2024", "08.01.2024") for town in reversed(TOWNS)])
    future.columns = ["town", "week", "holidays"]
    forecasts = []
    for holidays in (1, 5):
        future.assign(holidays=holidays).to_csv(tmp_path / "future.csv", index=False, sep=";")
        # How the tables of the training are written, the run knows.
        assert run("predict", folder, "--future", tmp_path / "future.csv", *out)[0] == 0
        forecasts.append(pd.read_csv(tmp_path / "forecast.csv"))
    assert forecasts[0]["time"].unique().tolist() == ["2024-01-01", "2024-01-08"]
    assert (forecasts[0]["forecast"] != forecasts[1]["forecast"]).all()
    # One step needs one.
    future[:8].to_csv(tmp_path / "future.csv", index=False, sep=";")
    ahead = ("--future", tmp_path / "future.csv")
    assert "2 steps from 2024-01-01 on, got none at 2024-01-08" in complains(run, "predict", folder, *ahead, *out)
    assert run("predict", folder, *ahead, "--horizon", "1", *out)[0] == 0
    assert pd.read_csv(tmp_path / "forecast.csv")["time"].unique().tolist() == ["2024-01-01"]
    seen = ("--series", tmp_path / "future.csv")
    assert "Expected a column called 'cases'" in complains(run, "predict", folder, *seen, *out)


# Backtests.


# What a small forecaster chose, in the words of a backtest.
CHOSEN = r"The forecaster: the network of its settings, window 4, order [1-4], best step \d+\."


@pytest.mark.slow
def test_a_backtest_compares_with_naive_forecasts(run, tmp_path):
    out, picture = tmp_path / "forecasts.csv", tmp_path / "errors.png"
    options = ("--window", "4", "--horizon", "2", "--folds", "2", "--stride", "3")
    files = ("--out", out, "--errors", tmp_path / "errors.parquet", "--plot", picture)
    code, printed, err = run("backtest", SERIES, *EDGES, *SMALL, *options, *files)
    assert (code, err) == (0, "")
    lines = printed.splitlines()
    assert lines[0] == "Errors of forecasts of 2 steps from 2 origins, trained once; intervals aim at 90%"
    for name in ("the forecaster", "mean", "last", "season"):
        assert sum(line.startswith(f"{name} ") for line in lines) == 2
    assert "Note: 2 origins are too few for intervals of differences. Take more." in lines
    assert any(re.fullmatch(CHOSEN, line) for line in lines)
    assert any(line.startswith("Note: All values are counts") for line in lines)
    assert lines[-1].startswith("From 2 origins the forecaster is ")
    assert lines[-1].endswith(f" Forecasts: {out} Errors: {tmp_path / 'errors.parquet'} Picture: {picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = pd.read_csv(out)
    expected = ["method", "origin", "step", "time", "node", "observed", "forecast", "low", "high", "error"]
    assert list(rows) == expected
    assert len(rows) == 4 * 2 * 2 * 8
    assert pd.to_datetime(rows["origin"]).diff().max() == pd.Timedelta(weeks=3)
    np.testing.assert_allclose(rows["error"], rows["observed"] - rows["forecast"], rtol=1e-4, atol=1e-5)
    errors = pd.read_parquet(tmp_path / "errors.parquet")
    assert list(errors) == ["method", "node", "step", "mae", "rmse", "mse", "mase", "pinball", "coverage"]
    assert len(errors) == 4 * 8 * 2
    by_hand = rows.assign(mae=rows["error"].abs()).groupby(["method", "node", "step"])["mae"].mean()
    mae = errors.set_index(["method", "node", "step"])["mae"]
    np.testing.assert_allclose(mae.sort_index(), by_hand.sort_index(), rtol=1e-4)


def test_options_of_a_backtest_come_through(monkeypatch, run):
    asked = []

    def stop(model, panel, **options):
        asked.append(options)
        raise SystemExit(0)

    monkeypatch.setattr(Forecaster, "backtest", stop)
    assert run("backtest", SERIES)[0] == 0
    assert run("backtest", SERIES, "--refit", "--folds", "5", "--stride", "2", "--against", "last,cells")[0] == 0
    names = ("against", "num_folds", "stride", "refit")
    assert [tuple(options[name] for name in names) for options in asked] == [
        (None, None, None, False),
        (["last", "cells"], 5, 2, True),
    ]


@pytest.mark.slow
def test_a_backtest_names_its_rivals(run):
    options = ("--window", "4", "--horizon", "2", "--against", "Ridge,season", "--against", "last", "--json")
    code, printed, _ = run("backtest", SERIES, *EDGES, *SMALL, *options)
    facts = json.loads(printed)
    assert (code, facts["folds"], facts["stride"], facts["refit"]) == (0, 31, 1, False)
    assert set(facts["means"]) == set(facts["seconds"]) == {"forecaster", "ridge", "season", "last"}
    assert set(facts["means"]["ridge"]) == {"mae", "rmse", "mse", "mase", "pinball", "coverage"}
    assert set(facts["differences"]) == {"ridge", "season", "last"}
    found = facts["differences"]["ridge"]["mae"]
    assert found["low"] <= found["difference"] <= found["high"]
    assert (len(facts["by_step"]), len(facts["by_node"]), len(facts["lines"])) == (4 * 2, 4 * 8, 4 * 31)
    assert (facts["lines"][0]["order"], facts["lines"][-1]["order"]) == (4, None)
    assert (facts["settings"]["num_steps"], facts["settings"]["hidden_channels"]) == (12, 4)
    (training,) = facts["trainings"]
    assert (training["network"], training["window"], training["order"]) == (None, 4, 4)
    assert 1 <= training["best_step"] <= 12
    assert any("counts" in note for note in training["notes"])


@pytest.mark.slow
@pytest.mark.parametrize("intervals", INTERVALS.names)
def test_a_backtest_takes_each_method_of_intervals(run, hourly, intervals):
    options = ("--window", "4", "--horizon", "2", "--against", "last,ridge", "--intervals", intervals, "--json")
    code, printed, err = run("backtest", hourly, *SMALL, "--folds", "20", *options)
    assert (code, err) == (0, "")
    assert all(0 < row["coverage"] <= 1 for row in json.loads(printed)["means"].values())


@pytest.mark.slow
def test_a_backtest_says_which_orders_were_taken(run):
    options = ("--window", "4", "--horizon", "2", "--folds", "2", "--order", "auto")
    code, printed, _ = run("backtest", SERIES, *EDGES, *SMALL, *options)
    assert code == 0
    assert any(re.fullmatch(CHOSEN, line) for line in printed.splitlines())
    assert re.search(r"^Note: .* order", printed, re.M)


@pytest.mark.slow
def test_counts_end_at_zero_unless_the_user_says_otherwise(run, tmp_path):
    options = ("--window", "4", "--horizon", "2", "--coverage", "0.9")
    code, printed, _ = run("fit", SERIES, *EDGES, *SMALL, *options, "--out", tmp_path / "usual")
    assert (code, "goes below 0. Pass --lowest for another limit." in printed) == (0, True)
    code, printed, _ = run("fit", SERIES, *EDGES, *SMALL, *options, "--lowest", "-99", "--out", tmp_path / "free")
    assert (code, "below 0" in printed) == (0, False)
    ends = {}
    for name in ("usual", "free"):
        run("predict", tmp_path / name, "--coverage", "0.99", "--horizon", "40", "--out", tmp_path / f"{name}.csv")
        ends[name] = pd.read_csv(tmp_path / f"{name}.csv")["low"].min()
    assert ends["free"] < 0
    assert ends["usual"] == 0


# Explanations.


def test_a_run_is_explained_as_latent(run, trained):
    code, out, err = run("explain", trained)
    assert (code, err) == (0, "")
    for line in ("history length     4", "verdict", "latent             c weighs states of the network"):
        assert line in out


@pytest.mark.slow
def test_a_run_on_physical_states_is_said_to_be_physical(run, tmp_path):
    panel = read_panel(SERIES, EDGES[1])
    Forecaster.physical(num_steps=5, hidden_channels=4).fit(panel, run=tmp_path / "run")
    code, out, _ = run("explain", tmp_path / "run")
    assert code == 0
    assert "physical           c weighs what was observed" in out
    assert "(at tolerance 0.02)" in out
    assert "(at tolerance 0.1)" in run("explain", tmp_path / "run", "--tolerance", "0.1")[1]


@pytest.mark.slow
def test_a_newcomer_reads_the_order_of_a_wave_off_two_files(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wave = simulate_wave(num_steps=160, num_trajectories=1)
    write_series(Panel.from_array(wave.states[0], graph=wave.graph), "wave.csv", "wide")
    sources, targets = wave.graph.edge_index.numpy()
    pd.DataFrame({"source": sources, "target": targets}).to_csv("edges.csv", index=False)
    command = ("fit", "wave.csv", "--edges", "edges.csv", "--states", "physical", "--horizon", "1", "--steps", "600")
    code, out, err = run(*command, "--device", "cpu", "--out", "run")
    assert (code, err) == (0, "")
    assert any(line.startswith("what c says") and "second-order" in line for line in out.splitlines())
    code, out, err = run("explain", "run")
    assert (code, err) == (0, "")
    assert "verdict            Stable: a pure second-order recursion" in out
    assert "physical           c weighs what was observed" in out
    assert "second-order" in run("explain", "run", "--quiet")[1]
    assert run("predict", "run", "--horizon", "5")[0] == 0
    assert len(pd.read_csv("forecast.csv")) == 5 * wave.graph.num_nodes


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cases.csv"], "Expected a file at cases.csv, got none. Check the path."),
        (
            ["chickenpocks"],
            "Expected a file, or a benchmark (chickenpox, pedalme, wikimath, la-week), got 'chickenpocks'",
        ),
        (["chickenpocks"], "Did you mean 'chickenpox'?"),
        (["cora"], "got the benchmark cora, which has none. Try: tdegnn classify cora"),
        ([SERIES, "--edges", "nowhere.csv"], "Expected a file at nowhere.csv"),
        ([SERIES, *EDGES, "--coordinates", SERIES], "Expected --edges or --coordinates, got both"),
        ([SERIES, "--time", "day"], "Expected a column called 'day'"),
        ([SERIES, "--time", "wek"], "Did you mean 'week'?"),
        ([SERIES, "--value", "cases"], "Expected a column of nodes to go with the values 'cases'"),
        ([SERIES, "--known", "rain"], "known ahead among channels that are not forecast (there are none), got 'rain'"),
        ([SERIES, "--season", "2"], "Expected a season of more than two steps, got 2"),
        ([SERIES, "--window", "150"], "a window of 150"),
        ([SERIES, "--horizon", "100"], "a horizon of 100"),
        ([SERIES, "--coefficients", "LSTM"], "Invalid value for '--coefficients'"),
        ([SERIES, "--coverage", "1"], "Invalid value for '--coverage'"),
        ([SERIES, "--dropout", "1"], "Invalid value for '--dropout'"),
        ([SERIES, "--steps", "0"], "Invalid value for '--steps'"),
        ([SERIES, "--device", "cuda"], "Expected a CUDA device"),
        ([SERIES, "--states", "liquid"], "Invalid value for '--states'"),
        (
            [SERIES, "--states", "physical", "--layers", "2"],
            "Expected no --layers with physical states, which have one",
        ),
        (
            [SERIES, "--states", "physical", "--dropout", "0.3"],
            "Expected no --dropout with physical states, since a state",
        ),
        ([SERIES, "--states", "physical", "--window", "4"], "Expected no --window with physical states"),
        ([SERIES, "--states", "physical", "--season", "7"], "Expected no --season with physical states"),
        ([SERIES, "--states", "physical", "--known", "a"], "Expected no --known with physical states"),
        ([SERIES, "--states", "physical", "--exogenous", "a"], "Expected no --exogenous with physical states"),
        ([SERIES, "--states", "physical", "--node-features", SERIES], "Expected no --node-features with phys"),
        ([SERIES, "--node-features", "nowhere.csv"], "Expected a file at nowhere.csv"),
        ([], "Missing argument"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_a_mistake_is_one_line_and_leaves_nothing(run, tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert message in complains(run, command, *arguments)
    assert not list(tmp_path.iterdir())


def test_mistakes_of_a_backtest_are_one_line(run, tmp_path):
    command = ("backtest", SERIES, *EDGES, *SMALL, "--window", "4")
    assert "Take fewer folds" in complains(run, *command, "--folds", "90")
    for option in ("--out", "--errors"):
        assert "ends in .csv or .parquet" in complains(run, *command, option, tmp_path / "folds.xlsx")
    assert "ends in .png, .pdf or .svg" in complains(run, *command, "--plot", tmp_path / "errors.xlsx")
    assert "agcrn, lightgbm, autoarima" in complains(run, *command, "--against", "ridge,dcrn")
    assert "Did you mean 'dcrnn'?" in complains(run, *command, "--against", "ridge,dcrn")


def test_mistakes_of_predict_are_one_line(run, trained, tmp_path):
    out = ("--out", tmp_path / "forecast.csv")
    wrong = {
        ("--features", SERIES): "Expected no --features for",
        ("--edges", SERIES): f"Expected no --edges for {trained}, whose edges do not change",
        ("--future", SERIES): "was trained without --known",
        ("--series", tmp_path / "nowhere.csv"): "Expected a file at",
        ("--horizon", "0"): "Invalid value for '--horizon'",
    }
    for options, message in wrong.items():
        assert message in complains(run, "predict", trained, *options, *out)
    assert "ends in .csv or .parquet" in complains(run, "predict", trained, "--out", tmp_path / "forecast.xlsx")
    assert "Expected a run folder" in complains(run, "predict", tmp_path, *out)
    assert not list(tmp_path.iterdir())
