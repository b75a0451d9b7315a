"""A week of traffic in Los Angeles: default forecasts with and without edges, and with other rules for c.

A forecaster is fitted to the first 80 % of the steps. From each later step it forecasts the next twelve, an hour.
Errors are measured over all steps up to 15, 30, 45 and 60 minutes. Differences between two forecasters are paired by
origin, with intervals from blocks of origins: forecasts that overlap are not independent. The later steps have few
blocks, so what edges are worth is also measured on expanding folds: fitted to half of the steps, judged on the next
tenth, and so on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from tdegnn.data.benchmarks.load import load_panel
from tdegnn.data.panel import Panel
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.experiments.tried_networks import is_outdated, newest_by_seed
from tdegnn.forecasting.backtests.paired import Difference, OriginErrors, block_length, compare
from tdegnn.forecasting.baselines.naive import SeasonalNaive, SeriesInputs
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.training.devices import DeviceName, choose_placement

DATASET, HORIZON, TRAINED = "la-week", 12, 0.8
# Steps up to which errors are measured, and how they are called.
REACHES = {3: "15 min", 6: "30 min", 9: "45 min", 12: "60 min"}
NAIVE = "last value"
# The settings of each forecaster, by name. The default has a learned vector.
FORECASTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "without edges": {"network": "alone"},
    "c = [1]": {"network": "walks", "system": "DE-GNN"},
    "attention": {"network": "walks", "system": "TDE-GNN_A"},
    "stable": {"network": "walks", "system": "TDE-GNN_S"},
}
# What is compared with what: the first of each pair is ours.
PAIRS = (
    ("default", "without edges"),
    ("default", "c = [1]"),
    ("attention", "c = [1]"),
    ("stable", "c = [1]"),
)
TRAFFIC_LINES = LineKind(
    "traffic",
    {"forecaster": str, "seed": int, "settings": dict, "mae": list, "rmse": list, "coverage": list, "seconds": float},
    # Notes say which networks were tried: with others, the default is another forecaster.
    identity=("forecaster", "seed", "settings", "notes"),
)

# What folds compare, the shares of the steps that they are fitted to, and the share of each that they are judged on.
FOLD_FORECASTERS: dict[str, dict[str, Any]] = {
    "with edges": {"network": "walks"},
    "without edges": {"network": "alone"},
}
FOLDS, JUDGED = (0.5, 0.6, 0.7), 0.1
FOLD_LINES = LineKind(
    "folds of the traffic",
    {**TRAFFIC_LINES.entries, "trained": float},
    identity=("forecaster", "seed", "settings", "trained"),
)


def split_of(panel: Panel, trained: float = TRAINED) -> int:
    """Return the number of steps that forecasters are fitted to, from their share."""
    return int(np.ceil(trained * panel.num_steps))


def try_forecaster(name: str, seed: int, path: Path, device: DeviceName = "auto") -> None:
    """Fit a forecaster and forecast all later hours, unless `path` has its line, chosen from the networks of today.

    Args:
        name: One of `FORECASTERS`.
        seed: Its seed.
        path: The results file.
        device: Where to compute.
    """
    settings = FORECASTERS[name]
    known = read_lines(path, TRAFFIC_LINES, forecaster=[name], seed=[seed])
    if any(line["settings"] == settings and not is_outdated(line) for line in known):
        return
    panel = load_panel(DATASET)
    line = _measure(settings, seed, panel, split_of(panel), device)
    append_lines(path, [{"forecaster": name, "seed": seed, "settings": settings, **line}], TRAFFIC_LINES)


def try_fold(name: str, trained: float, path: Path, device: DeviceName = "auto") -> None:
    """Fit a forecaster to a share of the steps and judge it on the next tenth, unless `path` has its line.

    Args:
        name: One of `FOLD_FORECASTERS`.
        trained: One of `FOLDS`.
        path: The results file.
        device: Where to compute.
    """
    fold = {"forecaster": name, "seed": 0, "settings": FOLD_FORECASTERS[name], "trained": trained}
    if any(read_lines(path, FOLD_LINES, **{entry: [value] for entry, value in fold.items()})):
        return
    week = load_panel(DATASET)
    panel = week[: split_of(week, trained + JUDGED)]
    line = _measure(FOLD_FORECASTERS[name], 0, panel, split_of(week, trained), device)
    append_lines(path, [{**fold, **line}], FOLD_LINES)


def worth_of_edges(
    folds: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Difference]]:
    """Return the error without edges minus that with them, in each fold, in the later steps, and in all of these.

    Args:
        folds: Lines of `try_fold`.
        lines: Lines of `try_forecaster`. The means over their seeds are the last fold.
    """
    pairs: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for trained in FOLDS:
        own = {line["forecaster"]: line for line in folds if line["trained"] == trained}
        if {*own} == {*FOLD_FORECASTERS}:
            pairs[f"{100 * trained:.0f} to {100 * (trained + JUDGED):.0f} %"] = own["with edges"], own["without edges"]
    means = summarize_traffic(lines)
    if {"default", "without edges"} <= {*means}:
        pairs[f"{100 * TRAINED:.0f} to 100 %"] = means["default"], means["without edges"]
    # Folds follow each other, so that blocks of all of them are blocks of one series.
    origins = ("absolute_by_origin", "squared_by_origin")
    joined = [
        {entry: [error for pair in pairs.values() for error in pair[side][entry]] for entry in origins}
        for side in (0, 1)
    ]
    found = {steps: paired_differences(*pair) for steps, pair in pairs.items()}
    return {**found, "all": paired_differences(*joined)} if len(found) > 1 else found


def _measure(settings: Mapping[str, Any], seed: int, panel: Panel, start: int, device: DeviceName) -> dict[str, Any]:
    """Return the entries of a line: a forecaster is fitted to the first steps and judged on all later hours."""
    began = time.perf_counter()
    model = Forecaster(horizon=HORIZON, seed=seed, device=device, **settings).fit(panel[:start])
    seconds = time.perf_counter() - began
    observed = _observed(panel, start)
    forecasts = [model.predict(panel=panel[: start + origin]) for origin in range(len(observed))]
    errors = np.stack([forecast.values for forecast in forecasts]) - observed
    low, high = (np.stack([getattr(forecast, end) for forecast in forecasts]) for end in ("low", "high"))
    is_covered = (low <= observed) & (observed <= high)
    return {
        **_describe_errors(errors),
        "coverage": is_covered.mean(axis=(0, 2, 3)).tolist(),
        "width": (high - low).mean(axis=(0, 2, 3)).tolist(),
        "network": None if model.network_choice_ is None else model.network_choice_.name,
        "window": model.summary_["window"],
        "notes": model.notes_,
        "seconds": seconds,
        **describe_environment(choose_placement(device).device),
    }


def try_naive(path: Path) -> None:
    """Add the errors of the last value to `path`, unless it has them."""
    if any(read_lines(path, TRAFFIC_LINES, forecaster=[NAIVE])):
        return
    panel = load_panel(DATASET)
    start = split_of(panel)
    series, nothing = SeriesInputs(panel.values), range(start, start)
    fitted = SeasonalNaive(1).fit(series, range(1, start), nothing, HORIZON)
    errors = fitted.predict(series, range(start, panel.num_steps - HORIZON + 1)) - _observed(panel, start)
    no_intervals: dict[str, Any] = {"coverage": [], "width": [], "seconds": 0.0}
    line = {"forecaster": NAIVE, "seed": 0, "settings": {}, **_describe_errors(errors), **no_intervals}
    append_lines(path, [line], TRAFFIC_LINES)


def summarize_traffic(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the numbers of each forecaster with its present settings, the last value first: means over seeds.

    Of several lines of a seed, the newest one counts.
    """
    present = {NAIVE: {}, **FORECASTERS}
    own = {
        name: newest_by_seed(line for line in lines if line["forecaster"] == name and line["settings"] == settings)
        for name, settings in present.items()
    }
    return {name: _mean_of_seeds(each) for name, each in own.items() if each}


def paired_differences(ours: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Difference]:
    """Return the differences in MAE and RMSE between another forecaster and ours, paired by origin.

    Args:
        ours: The line of a forecaster, or the mean of its lines.
        other: That of another.
    """
    errors = [
        OriginErrors(
            np.asarray(line["absolute_by_origin"]),
            np.asarray(line["squared_by_origin"]),
            np.ones(len(line["absolute_by_origin"])),
        )
        for line in (ours, other)
    ]
    return compare(errors[0], errors[1], block_length(len(errors[0].weights), HORIZON, 1))


def _mean_of_seeds(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    entries = ("mae", "rmse", "coverage", "width", "absolute_by_origin", "squared_by_origin", "seconds")
    return {entry: np.mean([line[entry] for line in lines], axis=0).tolist() for entry in entries}


def _describe_errors(errors: Float[np.ndarray, "origins horizon nodes targets"]) -> dict[str, Any]:
    """Return errors by reach, and by origin over all steps and nodes, so that forecasters can be paired."""
    return {
        "mae": [float(np.abs(errors[:, :reach]).mean()) for reach in REACHES],
        "rmse": [float(np.sqrt(np.square(errors[:, :reach]).mean())) for reach in REACHES],
        "absolute_by_origin": np.abs(errors).mean(axis=(1, 2, 3)).round(6).tolist(),
        "squared_by_origin": np.square(errors).mean(axis=(1, 2, 3)).round(6).tolist(),
    }


def _observed(panel: Panel, start: int) -> Float[np.ndarray, "origins horizon nodes targets"]:
    return np.stack([panel.values[first : first + HORIZON] for first in range(start, panel.num_steps - HORIZON + 1)])
