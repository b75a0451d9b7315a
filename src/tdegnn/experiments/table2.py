"""Table 2: forecasting errors by system and dataset, ten seeds each, under two protocols (`series_rows.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from tdegnn.data.benchmarks.load import load_panel
from tdegnn.data.splits import split_chronologically
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.experiments.series_rows import (
    SERIES_LINES,
    as_written_now,
    describe_errors,
    missing_seeds,
    prepare_series,
    train_as_published,
    train_honestly,
)
from tdegnn.experiments.series_tasks import NUM_SEEDS, PAPER_WINDOW, TASKS
from tdegnn.forecasting.baselines.naive import SeriesInputs
from tdegnn.rivals.series.classical import classical_forecasts
from tdegnn.rivals.series.config import AnySeriesConfig
from tdegnn.training.devices import Placement

Protocol = Literal["honest", "paper"]
PROTOCOLS: tuple[Protocol, ...] = ("honest", "paper")


def train_row(
    dataset: str,
    config: AnySeriesConfig,
    path: Path,
    *,
    placement: Placement,
    window: int = PAPER_WINDOW,
    protocol: Protocol = "honest",
    seeds: Sequence[int] = range(NUM_SEEDS),
) -> None:
    """Train one system with the seeds that have no line in `path` yet, all together, and add their lines."""
    row = {"dataset": dataset, "system": config.system, "protocol": protocol, "window": window}
    configuration = {"configuration": config.to_record()}
    left = missing_seeds(path, row | configuration, seeds, SERIES_LINES)
    if not left:
        return
    train = train_honestly if protocol == "honest" else train_as_published
    outcomes = train(prepare_series(dataset, window, placement), config, left, placement)
    environment = describe_environment(placement.device)
    append_lines(
        path,
        [
            row | {"seed": seed} | outcome | configuration | environment
            for seed, outcome in zip(left, outcomes, strict=True)
        ],
        SERIES_LINES,
    )


def solve_classical(dataset: str, path: Path, *, window: int = PAPER_WINDOW) -> None:
    """Add a line for each classical forecast that has none in `path` yet. They have no seeds: nothing is random."""
    panel, task = load_panel(dataset), TASKS[dataset]
    split = split_chronologically(panel.num_steps, PAPER_WINDOW)
    series = SeriesInputs.with_seasons(panel.values, task.seasons, panel.graph)
    row = {"dataset": dataset, "seed": None, "protocol": "honest", "window": window}
    lines = read_lines(path, SERIES_LINES, **{name: [value] for name, value in row.items()})
    done = {line["system"] for line in lines}
    for name, method in classical_forecasts(task.period, window, window).items():
        if name in done or ("season" in name and "ridge" in name and series.known is None):
            continue
        fitted = method.fit(series, range(window, split.training.stop), split.validation)
        observed = panel.values[split.test.start : split.test.stop, None]
        outcome = {
            "panel": panel.name,
            "validation_mse": None,
            **describe_errors(fitted.predict(series, split.test), observed),
        }
        configuration = {"system": name, "method": str(method)}
        environment = describe_environment(torch.device("cpu"))
        line = row | {"system": name} | outcome | {"configuration": configuration} | environment
        append_lines(path, [line], SERIES_LINES)


def summarize(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str, int], tuple[float, float, int]]:
    """Return mean, standard deviation and number of seeds of the test error, by dataset, system, protocol and window.

    If there are lines of several configurations, only those of the newest one count.
    """
    grouped: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for line in lines:
        grouped.setdefault((line["dataset"], line["system"], line["protocol"], line["window"]), []).append(line)
    cells = {}
    for key, found in grouped.items():
        configurations = [as_written_now(line)["configuration"] for line in found]
        errors = [
            line["test_mse"] for line, used in zip(found, configurations, strict=True) if used == configurations[-1]
        ]
        cells[key] = (float(np.mean(errors)), float(np.std(errors)), len(errors))
    return cells
