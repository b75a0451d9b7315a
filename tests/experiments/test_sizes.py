import pytest

from tdegnn.experiments import sizes
from tdegnn.experiments.records import read_lines
from tdegnn.experiments.sizes import SIZE_LINES, SIZES, USUAL, summarize_sizes, try_size
from tests.experiments.test_traffic import small_week  # noqa: F401 # a fixture


@pytest.mark.slow
def test_sizes_are_tried_once_and_compared_with_the_usual_one(small_week, monkeypatch, tmp_path):  # noqa: F811
    seen = []
    monkeypatch.setattr(sizes, "load_panel", lambda name: small_week)
    monkeypatch.setitem(SIZES, USUAL, {"network": "walks", "num_steps": 3})
    monkeypatch.setitem(SIZES, "32 channels", {"hidden_channels": 8, "num_steps": 3})
    original = sizes.Forecaster.try_out
    monkeypatch.setattr(sizes.Forecaster, "try_out", lambda self, panel: (seen.append(panel), original(self, panel))[1])
    path = tmp_path / "lines.jsonl"
    for _ in range(2):
        for size in (USUAL, "32 channels"):
            try_size("la-week", size, 0, path, "cpu")
    lines = read_lines(path, SIZE_LINES)
    assert len(lines) == len(seen) == 2
    # The later steps are not used.
    assert all(panel.num_steps == sizes.split_of(small_week) < small_week.num_steps for panel in seen)
    cells = summarize_sizes(lines)
    assert cells["la-week", USUAL].percent == 0
    small = cells["la-week", "32 channels"]
    assert small.percent == pytest.approx(100 * (lines[1]["loss"] / lines[0]["loss"] - 1))


def test_sizes_are_compared_from_the_same_seeds():
    lines = [
        {"dataset": "pedalme", "size": size, "seed": seed, "loss": loss, "seconds": 1.0}
        for size, seed, loss in [(USUAL, 0, 1.0), (USUAL, 1, 2.0), ("2 layers", 1, 3.0), ("2 layers", 2, 9.0)]
    ]
    cells = summarize_sizes(lines)
    assert set(cells) == {("pedalme", USUAL), ("pedalme", "2 layers")}
    assert cells["pedalme", "2 layers"].ratios == {1: 1.5}
