"""Do intervals reach their coverage on a series that changes? Coverage on the test steps, by step of the horizon.

A network is trained on the training steps; its residuals on the validation steps give the widths of 90 % intervals.
*split*: the same widths for all test steps. *adaptive*: the level moves after each observed step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from tdegnn.data.benchmarks.load import load_panel
from tdegnn.data.splits import split_chronologically
from tdegnn.experiments.records import LineKind, append_lines, describe_environment
from tdegnn.experiments.series_rows import missing_seeds
from tdegnn.experiments.series_tasks import PAPER_WINDOW, TASKS
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.intervals import AdaptiveIntervals, ConformalIntervals
from tdegnn.forecasting.linear_skip import start_at_ridge
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.metrics import interval_coverage, mean_squared_error
from tdegnn.training.devices import Placement
from tdegnn.training.loop import fit

HORIZON, COVERAGE, NUM_SEEDS = 4, 0.9, 5
COVERAGE_LINES = LineKind(
    "the study of coverage",
    {"dataset": str, "window": int, "split_coverage": list, "adaptive_coverage": list, "configuration": dict},
    identity=("dataset", "system", "window", "horizon", "aimed_coverage", "seed", "configuration"),
)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Forecasts of one network on windows it was not trained on, in the units of the series.

    Attributes:
        forecasts: The forecasts for each window.
        observed: The observed values.
    """

    forecasts: Float[np.ndarray, "windows horizon nodes targets"]
    observed: Float[np.ndarray, "windows horizon nodes targets"]

    @property
    def residuals(self) -> Float[np.ndarray, "windows horizon nodes targets"]:
        """Observed minus forecast."""
        return np.asarray(self.observed - self.forecasts)


def measure_dataset(
    dataset: str,
    path: Path,
    *,
    placement: Placement,
    window: int = PAPER_WINDOW,
    seeds: Sequence[int] = range(NUM_SEEDS),
) -> None:
    """Train the seeds that have no line in `path` yet, all together, and add a line for each."""
    config = TASKS[dataset].config("TDE-GNN_D", window)
    assert isinstance(config, SeriesConfig)
    row = {"dataset": dataset, "system": config.system, "window": window, "horizon": HORIZON}
    row |= {"aimed_coverage": COVERAGE, "protocol": "honest", "configuration": config.to_record()}
    left = missing_seeds(path, row, seeds, COVERAGE_LINES)
    if left:
        held_out = _train(dataset, config, window, left, placement)
        shared = row | describe_environment(placement.device)
        lines = [{"seed": seed} | _measure(*subsets) | shared for seed, subsets in zip(left, held_out, strict=True)]
        append_lines(path, lines, COVERAGE_LINES)


def summarize_coverage(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, str], Float[np.ndarray, " horizon"]]:
    """Return the mean coverage over seeds, per step of the horizon, by dataset, window and kind of interval."""
    reached: dict[tuple[str, int, str], list[list[float]]] = {}
    for line in lines:
        for kind in ("split", "adaptive"):
            reached.setdefault((line["dataset"], line["window"], kind), []).append(line[f"{kind}_coverage"])
    return {key: np.mean(values, axis=0) for key, values in reached.items()}


def adaptive_widths(
    validation: HeldOut, test: HeldOut, step_size: float = 0.02
) -> Float[np.ndarray, "windows horizon nodes targets"]:
    """Return the width of each interval as it was when its forecast was made, without knowledge of the future."""
    intervals = AdaptiveIntervals.start(validation.residuals, COVERAGE, step_size)
    widths = []
    for origin in range(len(test.forecasts)):
        widths.append(intervals.widths)
        # The value observed now was forecast one step ago as the first step, two steps ago as the second, and so on.
        now = np.full(intervals.levels.shape, np.nan)
        for ahead in range(min(origin + 1, len(now))):
            now[ahead] = test.residuals[origin - ahead, ahead]
        intervals = intervals.update(now)
    return np.stack(widths)


def _measure(validation: HeldOut, test: HeldOut) -> dict[str, Any]:
    split = ConformalIntervals.fit(validation.residuals, COVERAGE)
    by_kind = {
        "split": np.broadcast_to(split.widths, test.forecasts.shape),
        "adaptive": adaptive_widths(validation, test),
    }
    outcome: dict[str, Any] = {"test_mse": mean_squared_error(test.forecasts, test.observed, per="horizon").tolist()}
    for kind, widths in by_kind.items():
        low, high = test.forecasts - widths, test.forecasts + widths
        outcome[f"{kind}_coverage"] = interval_coverage(low, high, test.observed, per="horizon").tolist()
        finite = np.where(np.isfinite(widths), widths, np.nan)
        outcome[f"{kind}_width"] = (2 * np.nanmean(finite, axis=(0, 2, 3))).tolist()
        outcome[f"{kind}_unbounded"] = float(np.mean(~np.isfinite(widths)))
    return outcome


def _train(
    dataset: str, config: SeriesConfig, window: int, seeds: Sequence[int], placement: Placement
) -> list[tuple[HeldOut, HeldOut]]:
    """Return the forecasts of each seed on the validation and on the test steps."""
    panel = load_panel(dataset)
    assert panel.graph is not None  # every series of the catalogue has one
    split = split_chronologically(panel.num_steps, PAPER_WINDOW)
    maker = FrameMaker.fit(panel[: split.training.stop], window, HORIZON, seasons=TASKS[dataset].seasons)
    windows = maker.windows(panel, device=placement.device)
    training, validation, test = (
        windows.predicting(steps) for steps in (range(window, split.training.stop), split.validation, split.test)
    )
    networks = [config.build(maker.sizes(panel.num_nodes), seed).to(placement.device) for seed in seeds]
    start_at_ridge(networks, training, validation, panel.graph, maker.target_scales)
    trained = SeriesTraining(
        networks,
        [config.descent] * len(seeds),
        panel.graph,
        training,
        validation,
        batch_size=config.batch_size,
        units=maker.target_scales,
        placement=placement,
    )
    fit(trained, num_steps=config.num_steps, validate_every=max(1, config.num_steps // 30))
    forecasts = [maker.to_units(trained.forecast(subset).double().cpu().numpy()) for subset in (validation, test)]
    observed = [maker.to_units(subset.targets.double().cpu().numpy()) for subset in (validation, test)]
    return [
        (HeldOut(forecasts[0][member], observed[0]), HeldOut(forecasts[1][member], observed[1]))
        for member in range(len(seeds))
    ]
