import json

import numpy as np
import pytest

from tdegnn.experiments import coverage
from tdegnn.forecasting.intervals import AdaptiveIntervals
from tdegnn.training.devices import choose_placement
from tests.cli.test_commands import run
from tests.experiments.test_table2 import made_up, make_panel  # noqa: F401  (a small panel in place of Chickenpox)

CPU = choose_placement("cpu")


@pytest.fixture(autouse=True)
def _same_panel(monkeypatch, made_up):  # noqa: F811
    monkeypatch.setattr(coverage, "load_panel", make_panel)


def held_out(num_windows: int, seed: int = 0) -> coverage.HeldOut:
    draw = np.random.default_rng(seed)
    # Series of steps, so that the same step is a target of several windows.
    series = draw.standard_normal((num_windows + 3, 2, 1))
    observed = np.stack([series[start : start + 4] for start in range(num_windows)])
    return coverage.HeldOut(0.3 * draw.standard_normal(observed.shape), observed)


def test_adaptive_widths_know_nothing_of_the_future():
    validation, test = held_out(30), held_out(20, seed=1)
    widths = coverage.adaptive_widths(validation, test)
    other = coverage.HeldOut(test.forecasts, test.observed.copy())
    other.observed[10:] += 100.0
    changed = coverage.adaptive_widths(validation, other)
    # What window 10 observes first is known when window 11 is forecast, and no sooner.
    assert np.array_equal(changed[:11], widths[:11])
    assert not np.array_equal(changed[11:], widths[11:])


def test_adaptive_widths_are_those_of_the_updates_by_hand():
    validation, test = held_out(30), held_out(3, seed=1)
    intervals = AdaptiveIntervals.start(validation.residuals, coverage.COVERAGE)
    first = intervals.widths
    now = np.full(first.shape, np.nan)
    now[0] = test.residuals[0, 0]
    intervals = intervals.update(now)
    second = intervals.widths
    now[0], now[1] = test.residuals[1, 0], test.residuals[0, 1]
    third = intervals.update(now).widths
    np.testing.assert_array_equal(coverage.adaptive_widths(validation, test), [first, second, third])


@pytest.mark.slow
def test_lines_hold_the_coverage_of_each_step_and_are_made_once(tmp_path):
    path = tmp_path / "coverage.jsonl"
    for _ in range(2):
        coverage.measure_dataset("chickenpox", path, placement=CPU, seeds=[0, 1])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1]
    for line in lines:
        for name in ("split_coverage", "adaptive_coverage", "split_width", "adaptive_width", "test_mse"):
            assert len(line[name]) == 4
        assert all(0 <= share <= 1 for share in line["split_coverage"])
    cells = coverage.summarize_coverage(lines)
    np.testing.assert_allclose(
        cells["chickenpox", 4, "split"], np.mean([line["split_coverage"] for line in lines], axis=0)
    )


@pytest.mark.slow
def test_the_command_reports(capsys, tmp_path):
    path = tmp_path / "coverage.jsonl"
    code, out, err = run(capsys, "reproduce", "coverage", "--seeds", "1", "--out", str(path))
    assert (code, err) == (0, "")
    assert "adaptive" in out
    assert "step 4" in out
    code, out, _ = run(capsys, "reproduce", "coverage", "--report", "--json", "--out", str(path))
    assert len(json.loads(out)[0]["coverage"]) == 4
    code, _, err = run(capsys, "reproduce", "coverage", "--report", "--out", "nothing.jsonl")
    assert (code, err.count("\n")) == (2, 1)
