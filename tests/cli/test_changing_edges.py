"""Edges with times on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from tdegnn import Forecaster, cli

SMALL = ("--horizon", "1", "--window", "3", "--layers", "1", "--hidden-channels", "8", "--members", "1")
SMALL += ("--steps", "3", "--device", "cpu")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, longer ones, and a run that was trained with edges whose times are in the column `since`."""
    folder = tmp_path_factory.mktemp("tables")
    values = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    frame.insert(0, "time", pd.date_range("2024-01-01", periods=60).astype(str))
    frame[:56].to_csv(folder / "series.csv", index=False)
    frame.to_csv(folder / "longer.csv", index=False)
    times = frame["time"]
    edges = pd.DataFrame({"source": list("abab"), "target": list("bcca"), "since": times[[0, 0, 30, 58]]})
    edges[:3].to_csv(folder / "edges.csv", index=False)
    edges.to_csv(folder / "more_edges.csv", index=False)
    files = (str(folder / "series.csv"), "--edges", str(folder / "edges.csv"), "--edge-time", "since")
    with pytest.raises(SystemExit) as stop:
        cli.main(["fit", *files, *SMALL, "--out", str(folder / "run"), "--quiet"])
    assert stop.value.code == 0
    return folder


def test_a_forecast_goes_on_with_the_last_edges_or_with_newer_ones(capsys, folder):
    options = ("predict", str(folder / "run"), "--series", str(folder / "longer.csv"), "--json")
    forecasts = {}
    for edges in (None, "edges.csv", "more_edges.csv"):
        given = () if edges is None else ("--edges", str(folder / edges))
        code, out, err = run(capsys, *options, *given, "--out", str(folder / "forecast.csv"))
        assert (code, err) == (0, "")
        record = json.loads(out)
        forecasts[edges] = [row["forecast"] for row in record["forecasts"]]
    assert "Edges change at 2 of 60 steps, by the column 'since'." in record["notes"]
    assert forecasts[None] == forecasts["edges.csv"] != forecasts["more_edges.csv"]


def test_an_update_needs_the_edges_of_all_steps(capsys, folder):
    options = ("update", str(folder / "run"), str(folder / "longer.csv"), "--steps", "1", "--device", "cpu")
    code, _, err = run(capsys, *options, "--out", str(folder / "none"))
    assert (code, err.count("\n")) == (2, 1)
    assert "Expected edges with times, as in the training, got none. Give them too." in err
    edges = ("--edges", str(folder / "more_edges.csv"))
    code, _, err = run(capsys, *options, *edges, "--out", str(folder / "updated"))
    assert (code, err) == (0, "")
    assert Forecaster.load(folder / "updated").graph_.edge_index.tolist() == [[1], [0]]


def test_mistakes_are_one_line(capsys, folder):
    files = (str(folder / "series.csv"), "--edges", str(folder / "edges.csv"))
    forecast = ("predict", str(folder / "run"), "--out", str(folder / "forecast.csv"))
    mistakes = {
        ("fit", *files, "--edge-time", "when"): "Expected edges with a column 'when', got the columns source, target",
        ("fit", files[0], "--edge-time", "since"): "Expected --edge-time with --edges, got it alone.",
        ("order", *files, "--edge-time", "since"): "Expected series on one graph, got edges that change.",
        (*forecast, *files[1:]): "Expected --series with --edges, got none. Add it.",
    }
    for arguments, message in mistakes.items():
        code, out, err = run(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
