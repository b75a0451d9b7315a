"""One system trained on one dataset of Table 2, under two protocols that are never mixed.

*honest*: 80 / 10 / 10 in time. Steps and settings are chosen on the validation steps, then everything is learned again
from training and validation steps (as the classical rows do), and the test steps are used once. *paper*: 90 / 10, the
lowest test error over the steps of the training, which is how the published numbers were made. Test windows are the
same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from tdegnn.data.benchmarks.load import load_panel
from tdegnn.data.panel import Panel
from tdegnn.data.splits import ChronologicalSplit, split_chronologically
from tdegnn.experiments.records import LineKind, read_lines
from tdegnn.experiments.series_tasks import PAPER_WINDOW, TASKS
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.forecasting.settings import upgrade_settings
from tdegnn.forecasting.trained_twice import WindowedSeries
from tdegnn.graph import Graph
from tdegnn.metrics import mean_squared_error
from tdegnn.rivals.series.config import AnySeriesConfig
from tdegnn.training.devices import Placement
from tdegnn.training.loop import fit

SERIES_LINES = LineKind(
    "Table 2",
    {"dataset": str, "system": str, "protocol": str, "window": int, "test_mse": float, "configuration": dict},
    identity=("dataset", "system", "protocol", "window", "seed", "configuration"),
)
# Lines from before they named their series are of these: the original of Wikipedia Math was not available.
OLDER_PANELS = {"wikimath": "wikimath (reconstructed)"}
# How often a training is validated.
NUM_LOOKS = 30


@dataclass(frozen=True, eq=False)
class PreparedSeries:
    """A dataset cut into windows, scaled by its training steps.

    Attributes:
        panel: The series.
        graph: Their graph.
        split: The steps of each subset.
        maker: Makes the frames.
        windows: All windows, on the device of the training.
    """

    panel: Panel
    graph: Graph
    split: ChronologicalSplit
    maker: FrameMaker
    windows: WindowSet

    def windowed(self, placement: Placement) -> WindowedSeries:
        """Return what a training needs of it."""
        return WindowedSeries(self.graph, self.maker, self.windows, placement)


def prepare_series(dataset: str, window: int, placement: Placement) -> PreparedSeries:
    """Load a dataset and cut it into windows. The test steps are those of the paper for any window."""
    panel = load_panel(dataset)
    assert panel.graph is not None  # every series of the catalogue has one
    paper = split_chronologically(panel.num_steps, PAPER_WINDOW)
    split = ChronologicalSplit(range(window, paper.training.stop), paper.validation, paper.test)
    maker = FrameMaker.fit(panel[: split.training.stop], window, seasons=TASKS[dataset].seasons)
    return PreparedSeries(panel, panel.graph, split, maker, maker.windows(panel, device=placement.device))


def linear_errors(dataset: str, placement: Placement) -> dict[int, float]:
    """Return the validation error of the linear skip alone, solved in closed form, by window."""
    task, errors = TASKS[dataset], {}
    for window in (PAPER_WINDOW, *task.windows):
        prepared = prepare_series(dataset, window, placement)
        validation = prepared.windows.predicting(prepared.split.validation)
        config = task.config("DE-GNN", window)
        start, _ = prepared.windowed(placement).start(config, [0], prepared.split.training, validation)
        errors[window] = float(start.measure(validation)[0])
    return errors


def choose_window(dataset: str, placement: Placement) -> int:
    """Return the window with which the linear skip forecasts the validation steps best."""
    errors = linear_errors(dataset, placement)
    return min(errors, key=lambda window: errors[window])


def train_honestly(
    prepared: PreparedSeries, config: AnySeriesConfig, seeds: Sequence[int], placement: Placement
) -> list[dict[str, Any]]:
    """Train seeds together, choose steps on validation, and return the errors on validation and test, per seed."""
    split = prepared.split
    trained = prepared.windowed(placement).train_twice(
        config, seeds, split.training, split.validation, validate_every=_steps_between_looks(config)
    )
    test, result = prepared.windows.predicting(split.test), trained.result
    errors = _test_errors(trained.again, test, prepared.maker)
    return [
        {
            "panel": prepared.panel.name,
            "validation_mse": float(chosen),
            **errors[member],
            "epoch": int(result.best_steps[member]),
        }
        for member, chosen in enumerate(trained.first.best_errors)
    ]


def train_as_published(
    prepared: PreparedSeries, config: AnySeriesConfig, seeds: Sequence[int], placement: Placement
) -> list[dict[str, Any]]:
    """Train seeds together, choose steps on the test steps, and return the test errors, per seed."""
    test = prepared.windows.predicting(prepared.split.test)
    # The test steps choose the weights: this is the paper's protocol, so its numbers have a separate column.
    trained, _ = prepared.windowed(placement).start(config, seeds, prepared.split.training_of_the_paper, test)
    result = fit(trained, num_steps=config.num_steps, validate_every=_steps_between_looks(config))
    errors = _test_errors(trained, test, prepared.maker)
    return [
        {
            "panel": prepared.panel.name,
            "validation_mse": None,
            **errors[member],
            "epoch": int(result.best_steps[member]),
        }
        for member in range(len(seeds))
    ]


def describe_errors(
    forecasts: Float[np.ndarray, "windows 1 nodes targets"], observed: Float[np.ndarray, "windows 1 nodes targets"]
) -> dict[str, Any]:
    """Return the test errors of forecasts one step ahead, for a result line: over all steps, and by step."""
    by_step = mean_squared_error(forecasts, observed, per="step")
    return {"test_mse": float(mean_squared_error(forecasts, observed)), "test_mse_by_step": by_step.tolist()}


def _test_errors(training: SeriesTraining, windows: WindowSet, maker: FrameMaker) -> list[dict[str, Any]]:
    """Return the errors of each member, in the units of the series."""
    forecasts = maker.to_units(training.forecast(windows).double().cpu().numpy())
    observed = maker.to_units(windows.targets.double().cpu().numpy())
    return [describe_errors(member, observed) for member in forecasts]


def _steps_between_looks(config: AnySeriesConfig) -> int:
    return max(1, config.num_steps // NUM_LOOKS)


def missing_seeds(path: Path, row: Mapping[str, Any], seeds: Iterable[int], kind: LineKind) -> list[int]:
    """Return the seeds that have no line with the entries of `row` in a file of such lines yet."""
    lines = [as_written_now(line) for line in read_lines(path, kind)]
    done = {line.get("seed") for line in lines if all(line.get(name) == value for name, value in row.items())}
    return [seed for seed in seeds if seed not in done]


def as_written_now(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result line with its configuration as this version writes it."""
    return {**line, "configuration": upgrade_settings(line["configuration"])}


def shown_names(lines: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the datasets of lines as tables show them: `wikimath (reconstructed)` if any line is of it.

    Args:
        lines: Result lines of series.
    """
    panels = {(line["dataset"], line.get("panel", OLDER_PANELS.get(line["dataset"], ""))) for line in lines}
    return {dataset: panel or dataset for dataset, panel in sorted(panels)}
