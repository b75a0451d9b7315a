"""Table 2 with the same small search for every system, ours and the published ones.

Twelve configurations of each system are drawn: four of each of three sizes, or three of each of four kinds of networks.
All systems get the same numbers. Each configuration is trained with two seeds on the training steps. The best by mean
validation error is trained honestly with ten seeds (`series_rows.py`). Then the best of ours is trained with every rule
for c, from the same first weights, and so is the best of those that see windows and random walks, if it is another one.
Test steps are used by these last two only, and choose nothing. What is in the file is not trained again: a search that
is interrupted goes on after its last kind of networks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from tdegnn.experiments.drawn_configs import Range, draw
from tdegnn.experiments.gain import Gain
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.experiments.series_rows import NUM_LOOKS, PreparedSeries, prepare_series, train_honestly
from tdegnn.experiments.series_tasks import NUM_SEEDS, OURS, TASKS
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.rivals.series.config import AnySeriesConfig, SeriesRivalConfig
from tdegnn.rivals.series.registry import SERIES_NETWORKS
from tdegnn.training.devices import Placement
from tdegnn.training.loop import fit
from tdegnn.training.members import GroupDescent

TRIAL, ROW = "trial", "row"
# Our networks on which rules for c are compared: the best of all, and the best of those with windows as states.
RULES, WINDOW_RULES = "rules", "window rules"
SYSTEMS = (*SERIES_NETWORKS, *OURS)
EULER = "DE-GNN"  # c = [1]
NUM_CONFIGS, SEARCH_SEEDS = 12, (0, 1)
RANGES: dict[str, Range] = {
    "learning_rate": (1e-3, 2e-2, True),
    "weight_decay": (1e-4, 3e-2, True),
    "dropout": (0.0, 0.5, False),
}
RIVAL_SHAPES: tuple[dict[str, Any], ...] = tuple({"hidden_channels": channels} for channels in (16, 32, 64))
WINDOWS = {"states": "windows", "state_norm": "layer-norm", "readout": "two-layer", "order": 2}
OUR_SHAPES: tuple[dict[str, Any], ...] = (
    {"skip": "linear"},
    {"skip": "by-node"},
    {**WINDOWS, "skip": "linear", "identity_channels": 8},
    {**WINDOWS, "skip": "none"},
)
SEARCHED_LINES = LineKind(
    "the search of Table 2",
    {
        "dataset": str,
        "system": str,
        "window": int,
        "stage": str,
        "seed": int,
        "validation_mse": float,
        "configuration": dict,
    },
    identity=("dataset", "system", "window", "stage", "seed", "configuration"),
)


@dataclass(frozen=True)
class SeriesCell:
    """A dataset with a window, and a system on it.

    Attributes:
        dataset: One of `TASKS`.
        window: Number of steps that a forecast sees.
        system: One of `SYSTEMS`.
    """

    dataset: str
    window: int
    system: str

    @property
    def row(self) -> dict[str, Any]:
        """What all its lines share."""
        return {"dataset": self.dataset, "window": self.window, "system": self.system}

    def drawn(self) -> list[list[AnySeriesConfig]]:
        """Return the configurations that are tried. Those of one list can be trained together."""
        shapes = OUR_SHAPES if self.system in OURS else RIVAL_SHAPES
        random = np.random.default_rng(zlib.crc32(self.dataset.encode()))
        return [
            [self._config(shape, draw(random, RANGES)) for _ in range(NUM_CONFIGS // len(shapes))] for shape in shapes
        ]

    def _config(self, shape: Mapping[str, Any], numbers: Mapping[str, float]) -> AnySeriesConfig:
        task, descent = TASKS[self.dataset], GroupDescent(numbers["learning_rate"], numbers["weight_decay"])
        usual: dict[str, Any] = {
            "dropout": numbers["dropout"],
            "embedding": descent,
            "num_steps": task.num_steps,
            "batch_size": task.batch_size,
        }
        if self.system in OURS:
            return SeriesConfig(self.system, **usual, spatial=descent, **shape)
        return SeriesRivalConfig(self.system, **usual, **shape)


def search_cell(cell: SeriesCell, path: Path, placement: Placement) -> None:
    """Search the settings of a system and train the best with ten seeds, unless `path` has its lines.

    Args:
        cell: The dataset, the window and the system.
        path: File that gets a line per configuration and seed.
        placement: Where to compute.
    """
    known = read_lines(path, SEARCHED_LINES, **{name: [value] for name, value in cell.row.items()})
    if any(line["stage"] == ROW for line in known):
        return
    prepared = prepare_series(cell.dataset, cell.window, placement)
    errors: dict[AnySeriesConfig, list[float]] = {}
    for configs in cell.drawn():
        tried = _tried(known, configs)
        if tried is None:
            tried = _validate(prepared, configs, placement)
            _add_lines(path, cell, list(_trial_lines(tried)), placement)
        errors |= tried
    best = min(errors, key=lambda config: _mean(errors[config]))
    _add_lines(path, cell, list(_train_rows(ROW, prepared, best, placement)), placement)


def train_rules(dataset: str, window: int, path: Path, placement: Placement) -> None:
    """Train the best of our configurations with every rule for c, unless `path` has the lines.

    Args:
        dataset: One of `TASKS`.
        window: Number of steps that a forecast sees.
        path: File with the lines of `search_cell` of our systems. It gets a line per rule and seed.
        placement: Where to compute.
    """
    lines = read_lines(path, SEARCHED_LINES, dataset=[dataset], window=[window])
    by_system = {system: [line for line in lines if line["system"] == system] for system in OURS}
    if not all(any(line["stage"] == ROW for line in own) for own in by_system.values()):
        return
    errors: dict[AnySeriesConfig, list[float]] = {}
    for system, own in by_system.items():
        for configs in SeriesCell(dataset, window, system).drawn():
            errors |= _tried(own, configs) or {}
    ours = {cast(SeriesConfig, config): _mean(each) for config, each in errors.items()}
    best = min(ours, key=ours.__getitem__)
    best_of_windows = min((config for config in ours if config.states == "windows"), key=ours.__getitem__)
    prepared = prepare_series(dataset, window, placement)
    for stage, chosen in {RULES: best, WINDOW_RULES: best_of_windows}.items():
        if stage == WINDOW_RULES and chosen == best:
            continue
        for system, own in by_system.items():
            if any(line["stage"] == stage for line in own):
                continue
            config = replace(chosen, system=system)
            record = config.to_record()
            trained = [line for line in own if line["stage"] == ROW and line["configuration"] == record]
            if trained:  # its row is this very training
                append_lines(path, [{**line, "stage": stage} for line in trained], SEARCHED_LINES)
            else:
                found = list(_train_rows(stage, prepared, config, placement))
                _add_lines(path, SeriesCell(dataset, window, system), found, placement)


def summarize_searched(
    lines: Sequence[Mapping[str, Any]], stage: str
) -> dict[tuple[str, int, str], list[Mapping[str, Any]]]:
    """Return the lines of a stage by dataset, window and system, in the order of seeds."""
    cells: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["stage"] == stage:
            cells.setdefault((line["dataset"], line["window"], line["system"]), []).append(line)
    return {key: sorted(own, key=lambda line: line["seed"]) for key, own in cells.items()}


def worth_of_rules(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, str, str], Gain]:
    """Return by how much each rule for c lowers the squared error of c = [1], paired over the test steps.

    Errors are means over the seeds.

    Args:
        lines: Lines of `train_rules`, and any others.

    Returns:
        A gain by dataset, window, states of the network, and system.
    """
    by_step = {
        (dataset, window, own[0]["configuration"]["states"], system): _errors_by_step(own)
        for stage in (RULES, WINDOW_RULES)
        for (dataset, window, system), own in summarize_searched(lines, stage).items()
    }
    return {
        (*network, system): Gain.of((by_step[*network, EULER] - errors).tolist())
        for (*network, system), errors in sorted(by_step.items(), key=lambda item: item[0][:3])
        if system != EULER and (*network, EULER) in by_step
    }


@dataclass(frozen=True)
class Lead:
    """How far one of ours is ahead of a rival.

    Attributes:
        ours: The learned rule with the lowest validation error on the dataset.
        gain: The squared error of the rival minus that of ours, paired over the test steps.
    """

    ours: str
    gain: Gain


def leads_over_rivals(
    cells: Mapping[tuple[str, int, str], Sequence[Mapping[str, Any]]],
) -> dict[tuple[str, int, str], Lead]:
    """Return how far our best learned rule, which validation chooses, is ahead of each rival.

    Args:
        cells: The lines of the stage `ROW`, as `summarize_searched` returns them. Errors are means over the seeds.
    """
    leads = {}
    for dataset, window, system in cells:
        learned = [ours for ours in OURS if ours != EULER and (dataset, window, ours) in cells]
        if system in OURS or not learned:
            continue
        on_validation = {
            ours: _mean([line["validation_mse"] for line in cells[dataset, window, ours]]) for ours in learned
        }
        best = min(on_validation, key=lambda ours: on_validation[ours])
        rival, own = (_errors_by_step(cells[dataset, window, name]) for name in (system, best))
        leads[dataset, window, system] = Lead(best, Gain.of((rival - own).tolist()))
    return leads


def _errors_by_step(lines: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, " steps"]:
    """Return the squared errors of the test steps, means over the seeds."""
    return np.asarray(np.mean([line["test_mse_by_step"] for line in lines], axis=0).ravel())


def _tried(
    lines: Sequence[Mapping[str, Any]], configs: Sequence[AnySeriesConfig]
) -> dict[AnySeriesConfig, list[float]] | None:
    """Return the validation errors of configurations, per seed, from lines. None unless all have been trained."""
    found = {}
    for config in configs:
        own = [line for line in lines if line["stage"] == TRIAL and line["configuration"] == config.to_record()]
        found[config] = [line["validation_mse"] for line in sorted(own, key=lambda line: line["seed"])]
    return found if all(len(errors) == len(SEARCH_SEEDS) for errors in found.values()) else None


def _trial_lines(errors: Mapping[AnySeriesConfig, Sequence[float]]) -> Iterator[dict[str, Any]]:
    for config, each in errors.items():
        trial = {"stage": TRIAL, "test_mse": None, "configuration": config.to_record()}
        for seed, error in zip(SEARCH_SEEDS, each, strict=True):
            yield trial | {"seed": seed, "validation_mse": error}


def _validate(
    prepared: PreparedSeries, configs: Sequence[AnySeriesConfig], placement: Placement
) -> dict[AnySeriesConfig, list[float]]:
    """Return the lowest validation errors of configurations, per seed, all trained together."""
    validation = prepared.windows.predicting(prepared.split.validation)
    members = [(config, seed) for config in configs for seed in SEARCH_SEEDS]
    training, _ = prepared.windowed(placement).start_members(members, prepared.split.training, validation)
    num_steps = configs[0].num_steps
    fit(training, num_steps=num_steps, validate_every=max(1, num_steps // NUM_LOOKS))
    errors = training.best_errors.tolist()
    size = len(SEARCH_SEEDS)
    return {config: errors[size * place : size * (place + 1)] for place, config in enumerate(configs)}


def _train_rows(
    stage: str, prepared: PreparedSeries, config: AnySeriesConfig, placement: Placement
) -> Iterator[dict[str, Any]]:
    outcomes = train_honestly(prepared, config, range(NUM_SEEDS), placement)
    for seed, outcome in enumerate(outcomes):
        yield {"stage": stage, "seed": seed, **outcome, "configuration": config.to_record()}


def _add_lines(path: Path, cell: SeriesCell, lines: Sequence[Mapping[str, Any]], placement: Placement) -> None:
    shared = cell.row | {"protocol": "honest"} | describe_environment(placement.device)
    append_lines(path, [{**line, **shared} for line in lines], SEARCHED_LINES)


def _mean(errors: Sequence[float]) -> float:
    """Return the mean error. One that is not a number is the worst."""
    mean = float(np.mean(errors))
    return np.inf if np.isnan(mean) else mean
