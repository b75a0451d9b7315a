"""Table 2: forecasting, systems by datasets, ten seeds each, under two protocols that are never mixed.

*honest*: 80 / 10 / 10 in time; steps and settings are chosen on the validation part, then everything is learned again
from both parts (as the classical rows do), and the test part is looked at once. *paper*: 90 / 10, the lowest test error
over the steps of the training, which is how the published numbers were made. Test windows are the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from jaxtyping import Float

from tdegnn.core.rules import System
from tdegnn.data.benchmarks.load import load_panel
from tdegnn.data.panel import Panel
from tdegnn.data.splits import ChronologicalSplit, split_chronologically
from tdegnn.data.times.seasons import DAYS_IN_A_YEAR, Season, season_waves
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.forecasting.baselines.naive import SeriesInputs
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.linear_skip import Penalties, start_at_ridge
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.forecasting.settings import SeriesConfig, upgrade_settings
from tdegnn.graph import Graph
from tdegnn.rivals.series.classical import classical_forecasts
from tdegnn.rivals.series.config import AnySeriesConfig, SeriesRivalConfig
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.devices import Placement
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent

Protocol = Literal["honest", "paper"]
PROTOCOLS: tuple[Protocol, ...] = ("honest", "paper")
# The paper's benchmark: 4 lags, one step ahead.
PAPER_WINDOW = 4
NUM_SEEDS = 10


@dataclass(frozen=True)
class SeriesTask:
    """A dataset of the table, and the settings of our networks on it, chosen on its validation part.

    Attributes:
        seasons: What is known of its calendar.
        period: Steps of a season, for the seasonal naive forecast.
        num_steps: Steps of a training.
        batch_size: Windows a step; all without it.
        skip: The linear forecast beside our layers.
        descent: How embeddings, layers and skip of our networks learn.
        dropout: Part of our states that is dropped in training.
        hidden_channels: Channels of a state, ours and rivals'.
        windows: Windows besides the paper's; `choose_window` chooses among all of them.
        long_averaging: Running mean of our weights for windows longer than the paper's.
    """

    seasons: tuple[Season, ...]
    period: int
    num_steps: int = 600
    batch_size: int | None = None
    skip: str = "linear"
    descent: GroupDescent = field(default_factory=lambda: GroupDescent(0.003, 0.01))
    dropout: float = 0.3
    hidden_channels: int = 32
    windows: tuple[int, ...] = ()
    long_averaging: float = 0.0

    def config(self, system: str, window: int = PAPER_WINDOW) -> AnySeriesConfig:
        """The settings of a system on this dataset."""
        if system in get_args(System):
            return SeriesConfig(
                cast(System, system),
                self.hidden_channels,
                skip=self.skip,
                dropout=self.dropout,
                embedding=self.descent,
                spatial=self.descent,
                num_steps=self.num_steps,
                batch_size=self.batch_size,
                averaging=self.long_averaging if window > PAPER_WINDOW else 0.0,
            )
        return SeriesRivalConfig(system, self.hidden_channels, num_steps=self.num_steps, batch_size=self.batch_size)


# Weeks are numbered and days are dated in these files; PedalMe is too short for a year to be learned.
TASKS = {
    "chickenpox": SeriesTask(
        (Season(DAYS_IN_A_YEAR / 7, 3),),
        52,
        descent=GroupDescent(0.01, 0.01),
        dropout=0.1,
        windows=(8, 26, 52),
        long_averaging=0.98,
    ),
    "pedalme": SeriesTask((), 4, num_steps=150),
    "wikimath": SeriesTask(
        (Season(7.0, 3),),
        7,
        num_steps=1500,
        batch_size=8,
        skip="by-node",
        descent=GroupDescent(0.003, 0.003),
        dropout=0.1,
        windows=(7, 14, 21, 28),
    ),
}
OURS = ("DE-GNN", "TDE-GNN_D", "TDE-GNN_A", "TDE-GNN_S")
CLASSICAL = tuple(classical_forecasts(period=1))
SYSTEMS = (*CLASSICAL, *SERIES_NETWORKS, *OURS)


@dataclass(frozen=True, eq=False)
class PreparedSeries:
    """A dataset cut into windows, with scales of its training part.

    Attributes:
        panel: The series.
        graph: Their graph.
        split: The steps of each part.
        maker: How frames are made.
        windows: All windows, on the device of the training.
    """

    panel: Panel
    graph: Graph
    split: ChronologicalSplit
    maker: FrameMaker
    windows: WindowSet

    def part(self, steps: range) -> WindowSet:
        """The windows that predict these steps."""
        return self.windows.predicting(steps)


def prepare_series(dataset: str, window: int, placement: Placement) -> PreparedSeries:
    """Load a dataset and cut it into windows. The test steps are those of the paper, whatever the window."""
    panel = load_panel(dataset)
    assert panel.graph is not None  # every series of the catalogue has one
    paper = split_chronologically(panel.num_steps, PAPER_WINDOW)
    split = ChronologicalSplit(range(window, paper.training.stop), paper.validation, paper.test)
    maker = FrameMaker.fit(panel[: split.training.stop], window, seasons=TASKS[dataset].seasons)
    return PreparedSeries(panel, panel.graph, split, maker, maker.windows(panel, device=placement.device))


def linear_errors(dataset: str, placement: Placement) -> dict[int, float]:
    """The validation error of the linear skip alone, by window: solved in closed form, nothing stops it early."""
    task, errors = TASKS[dataset], {}
    for window in (PAPER_WINDOW, *task.windows):
        prepared = prepare_series(dataset, window, placement)
        validation = prepared.part(prepared.split.validation)
        config = task.config("DE-GNN", window)
        start, _ = _start(prepared, config, [0], prepared.split.training, validation, placement)
        errors[window] = float(start.measure(validation)[0])
    return errors


def choose_window(dataset: str, placement: Placement) -> int:
    """The window by which the linear skip forecasts the validation part best."""
    errors = linear_errors(dataset, placement)
    return min(errors, key=lambda window: errors[window])


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
    done = {
        line["seed"]
        for line in read_lines(path)
        if all(line[name] == value for name, value in row.items())
        and upgrade_settings(line["configuration"]) == config.to_record()
    }
    left = [seed for seed in seeds if seed not in done]
    if not left:
        return
    train = train_honestly if protocol == "honest" else _train_as_published
    outcomes = train(prepare_series(dataset, window, placement), config, left, placement)
    environment = describe_environment(placement.device)
    append_lines(
        path,
        [row | {"seed": seed} | outcome | {"configuration": config.to_record()} | environment
         for seed, outcome in zip(left, outcomes, strict=True)],
    )  # fmt: skip


def solve_classical(dataset: str, path: Path, *, window: int = PAPER_WINDOW) -> None:
    """Add a line for each classical forecast that has none in `path` yet; there is nothing random in them."""
    panel, task = load_panel(dataset), TASKS[dataset]
    split = split_chronologically(panel.num_steps, PAPER_WINDOW)
    waves = [season_waves(range(panel.num_steps), *season) for season in task.seasons]
    known = None
    if waves:
        joined = np.concatenate(waves, axis=1)
        known = np.broadcast_to(joined[:, None], (panel.num_steps, panel.num_nodes, joined.shape[1]))
    series = SeriesInputs(panel.values, known, panel.graph)
    row = {"dataset": dataset, "seed": None, "protocol": "honest", "window": window}
    done = {line["system"] for line in read_lines(path) if all(line[name] == value for name, value in row.items())}
    for name, method in classical_forecasts(task.period, window, window).items():
        if name in done or ("season" in name and "ridge" in name and known is None):
            continue
        fitted = method.fit(series, range(window, split.training.stop), split.validation)
        errors = (fitted.predict(series, split.test)[:, 0] - panel.values[split.test.start : split.test.stop]) ** 2
        outcome = {"validation_mse": None, **_test_errors(errors)}
        configuration = {"system": name, "method": str(method)}
        environment = describe_environment(torch.device("cpu"))
        append_lines(path, [row | {"system": name} | outcome | {"configuration": configuration} | environment])


def summarize(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str, int], tuple[float, float, int]]:
    """Mean, standard deviation and number of seeds of the test error, by dataset, system, protocol and window.

    Where there are lines of several configurations, those of the newest one count.
    """
    grouped: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for line in lines:
        grouped.setdefault((line["dataset"], line["system"], line["protocol"], line["window"]), []).append(line)
    cells = {}
    for key, found in grouped.items():
        newest = upgrade_settings(found[-1]["configuration"])
        errors = [line["test_mse"] for line in found if upgrade_settings(line["configuration"]) == newest]
        cells[key] = (float(np.mean(errors)), float(np.std(errors)), len(errors))
    return cells


def train_honestly(
    prepared: PreparedSeries, config: AnySeriesConfig, seeds: Sequence[int], placement: Placement
) -> list[dict[str, Any]]:
    """Train seeds together, choosing steps on the validation part; return their errors on both parts."""
    split = prepared.split
    validation, test = prepared.part(split.validation), prepared.part(split.test)
    first, penalties = _start(prepared, config, seeds, split.training, validation, placement)
    result = fit(first, num_steps=config.num_steps, validate_every=_looks(config))
    again, _ = _start(prepared, config, seeds, split.training_of_the_paper, validation, placement, penalties)
    for step in range(1, int(result.best_steps.max()) + 1):
        again.stop(result.best_steps < step)
        again.step()
    errors = _squared_errors(again, test, prepared.maker)
    return [
        {"validation_mse": float(chosen), **_test_errors(errors[member]), "epoch": int(result.best_steps[member])}
        for member, chosen in enumerate(first.best_errors)
    ]


def _train_as_published(
    prepared: PreparedSeries, config: AnySeriesConfig, seeds: Sequence[int], placement: Placement
) -> list[dict[str, Any]]:
    test = prepared.part(prepared.split.test)
    # Weights are chosen by the test part: that is the protocol, and why its numbers stand in a column of their own.
    trained, _ = _start(prepared, config, seeds, prepared.split.training_of_the_paper, test, placement)
    result = fit(trained, num_steps=config.num_steps, validate_every=_looks(config))
    errors = _squared_errors(trained, test, prepared.maker)
    return [
        {"validation_mse": None, **_test_errors(errors[member]), "epoch": int(result.best_steps[member])}
        for member in range(len(seeds))
    ]


def _start(
    prepared: PreparedSeries,
    config: AnySeriesConfig,
    seeds: Sequence[int],
    training_steps: range,
    judged: WindowSet,
    placement: Placement,
    penalties: Penalties | None = None,
) -> tuple[SeriesTraining, Penalties | None]:
    """A training that has not begun, and the penalties of its linear skip, chosen by `judged` where none are given."""
    graph, units, training = prepared.graph, prepared.maker.target_scales, prepared.part(training_steps)
    sizes = prepared.maker.sizes(prepared.panel.num_nodes)
    networks = [config.build(sizes, seed).to(placement.device) for seed in seeds]
    penalties = start_at_ridge(networks, training, judged, graph, units, penalties)
    descents = [config.descent] * len(seeds)
    batch_size = config.batch_size
    return (
        SeriesTraining(
            networks, descents, graph, training, judged, batch_size=batch_size, units=units, placement=placement
        ),
        penalties,
    )


def _squared_errors(
    training: SeriesTraining, windows: WindowSet, maker: FrameMaker
) -> Float[np.ndarray, "members windows nodes targets"]:
    """In the units of the series, one step ahead."""
    forecasts = training.forecast(windows).double().cpu().numpy()
    differences = maker.to_units(forecasts) - maker.to_units(windows.targets.double().cpu().numpy())
    return np.asarray(differences[:, :, 0] ** 2)


def _test_errors(errors: Float[np.ndarray, "windows nodes targets"]) -> dict[str, Any]:
    return {"test_mse": float(np.nanmean(errors)), "test_mse_by_step": np.nanmean(errors, axis=(1, 2)).tolist()}


def _looks(config: AnySeriesConfig) -> int:
    """Steps between two looks: thirty in a training."""
    return max(1, config.num_steps // 30)
