"""Defaults on hourly counts: one line per seed, with ratios to the error of the true rate."""

import json
from functools import partial

import pytest

from tdegnn import Forecaster
from tdegnn.experiments import hourly_counts
from tdegnn.experiments.hourly_counts import COUNT_LINES, NUMBERS, summarize_counts
from tdegnn.experiments.records import read_lines
from tests.cli.test_commands import run


@pytest.mark.slow
def test_a_line_has_errors_and_shares(tmp_path, capsys, monkeypatch):
    small = partial(Forecaster, window=3, hidden_channels=4, num_layers=1, num_members=1, num_steps=2)
    for name, value in dict(Forecaster=small, NUM_NODES=5, NUM_WEEKS=3, NUM_JUDGED=1).items():
        monkeypatch.setattr(hourly_counts, name, value)
    path = str(tmp_path / "counts.jsonl")
    command = ["reproduce", "hourly-counts", "--first-seed", "4", "--seeds", "1", "--device", "cpu", "--out", path]
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert "MSE over that of the true rate" in out
    (line,) = read_lines(tmp_path / "counts.jsonl", COUNT_LINES)
    assert line["seed"] == 4
    assert line["error_ratio"] > 1
    assert line["naive_ratio"] > 1
    assert line["lowest_end"] == 0
    zeros, positive = line["coverage_of_zeros"], line["coverage_of_positive"]
    assert line["coverage"] == pytest.approx(line["zeros"] * zeros + (1 - line["zeros"]) * positive)
    code, out, _ = run(capsys, *command, "--json")
    assert json.loads(out) == {"seeds": 1, **{name: pytest.approx(line[name]) for name in NUMBERS}}


def test_only_the_newest_settings_count():
    old, new = ({"configuration": {"a": number}, **dict.fromkeys(NUMBERS, float(number))} for number in (1, 2))
    seeds = [old | {"seed": 0}, new | {"seed": 0}, new | {"seed": 1}]
    assert summarize_counts(seeds) == {"seeds": 2, **dict.fromkeys(NUMBERS, 2.0)}
    # A seed that was run again counts once.
    again = seeds[1] | dict.fromkeys(NUMBERS, 3.0)
    assert summarize_counts([*seeds, again]) == {"seeds": 2, **dict.fromkeys(NUMBERS, 2.5)}
