import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tdegnn.cli.commands import app
from tdegnn.data.panel import Panel
from tdegnn.experiments import traffic
from tdegnn.graph import Graph

NODES, STEPS = 4, 180
QUICK = dict(window=3, order=2, num_members=1, num_steps=4, validate_every=4)


@pytest.fixture
def small_week(monkeypatch):
    """A small panel in place of the week, and forecasters that take no time."""
    times = pd.date_range("2012-03-01", periods=STEPS, freq="5min")
    random = np.random.default_rng(0)
    values = 60 + 5 * np.sin(np.arange(STEPS) / 9)[:, None, None] + random.normal(size=(STEPS, NODES, 1))
    panel = Panel(values, times, tuple("abcd"), ("speed",), graph=Graph([[0, 1, 2], [1, 2, 3]]))
    monkeypatch.setattr(traffic, "load_panel", lambda _: panel)
    quick = {
        "default": dict(QUICK, network="walks"),
        "without edges": dict(QUICK, network="alone"),
        "c = [1]": dict(QUICK, network="walks", system="DE-GNN", order=1),
    }
    monkeypatch.setattr(traffic, "FORECASTERS", quick)
    return panel


@pytest.mark.slow
def test_forecasters_are_compared_hour_by_hour(small_week, tmp_path):
    out = tmp_path / "traffic.jsonl"
    arguments = ["reproduce", "traffic", "--out", str(out), "--device", "cpu"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "without edges minus default" in shown.output
    naive, *lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert (naive["forecaster"], naive["coverage"]) == ("last value", [])
    assert [line["forecaster"] for line in lines] == ["default", "without edges", "c = [1]"]
    for line in lines:
        num_origins = STEPS - traffic.split_of(small_week) - traffic.HORIZON + 1
        assert len(line["absolute_by_origin"]) == num_origins
        assert line["mae"][-1] == pytest.approx(np.mean(line["absolute_by_origin"]), rel=1e-4)
        assert line["rmse"][-1] == pytest.approx(np.sqrt(np.mean(line["squared_by_origin"])), rel=1e-4)
        assert len(line["coverage"]) == traffic.HORIZON
    again = CliRunner().invoke(app, [*arguments, "--json"])  # nothing is run again
    assert len(out.read_text().splitlines()) == 4
    found = json.loads(again.output)
    # A line that was chosen from other networks is not taken for one of today: it is run again, and counts no more.
    older = "The network 'walks' was chosen by its loss on the held-out steps, after a short training (walks: 1)."
    kept = [naive, lines[0] | {"notes": [older], "mae": [9.0] * 4}, *lines[1:]]
    out.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    renewed = CliRunner().invoke(app, [*arguments, "--json"])
    assert [json.loads(line)["forecaster"] for line in out.read_text().splitlines()][4:] == ["default"]
    assert json.loads(renewed.output)["forecasters"]["default"]["mae"] == found["forecasters"]["default"]["mae"]
    assert found["forecasters"]["default"]["mae"] == pytest.approx(lines[0]["mae"])
    assert found["differences"][0]["of"] == "default"
    naive = found["forecasters"]["last value"]
    start = traffic.split_of(small_week)
    expected = [
        np.abs(small_week.values[first : first + 3] - small_week.values[first - 1]).mean()
        for first in range(start, STEPS - traffic.HORIZON + 1)
    ]
    assert naive["mae"][0] == pytest.approx(np.mean(expected))


@pytest.mark.slow
def test_folds_are_judged_on_the_next_tenth_and_joined(small_week, monkeypatch, tmp_path):
    monkeypatch.setattr(
        traffic,
        "FOLD_FORECASTERS",
        {"with edges": traffic.FORECASTERS["default"], "without edges": traffic.FORECASTERS["without edges"]},
    )
    out, later = tmp_path / "folds.jsonl", tmp_path / "traffic.jsonl"
    for name in ("default", "without edges"):
        traffic.try_forecaster(name, 0, later, "cpu")
    arguments = ["reproduce", "traffic-folds", "--traffic", str(later), "--out", str(out), "--device", "cpu", "--json"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    found = {each["steps"]: each for each in json.loads(shown.output)}
    assert list(found) == ["50 to 60 %", "60 to 70 %", "70 to 80 %", "80 to 100 %", "all"]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    # Every hour that begins after the fitted steps and ends within the next tenth.
    assert [len(line["absolute_by_origin"]) for line in lines] == [STEPS // 10 - traffic.HORIZON + 1] * 6
    counts = [7, 7, 7, STEPS // 5 - traffic.HORIZON + 1]
    parts = [found[steps]["mae"][0] for steps in list(found)[:-1]]
    assert found["all"]["mae"][0] == pytest.approx(np.average(parts, weights=counts))
    CliRunner().invoke(app, arguments)  # nothing is run again
    assert len(out.read_text().splitlines()) == 6
