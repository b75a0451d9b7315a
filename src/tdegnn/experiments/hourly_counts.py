"""What `Forecaster(horizon=12)` does without a word on hourly counts, most of them zero, whose rate is known.

It is trained on eight weeks, and forecasts two more from every fifth hour on. Its squared error is divided by that of
the true rate, which no forecast can beat. Coverage is the share of the counts within their intervals: of all, and of
those that turn out to be positive. Nothing is chosen by the last two weeks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from tdegnn.data.simulators.hourly_counts import HOURS_OF_WEEK, simulate_hourly_counts
from tdegnn.experiments.records import LineKind, append_lines, describe_environment, read_lines
from tdegnn.experiments.tried_networks import is_outdated, newest_by_seed
from tdegnn.forecasting.contenders.classical import observed_windows
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.metrics import mean_squared_error
from tdegnn.training.devices import DeviceName, choose_placement

NUM_NODES, NUM_WEEKS, NUM_JUDGED, HORIZON, STRIDE = 200, 8, 2, 12, 5
PROTOCOL = f"trained on {NUM_WEEKS} weeks of {NUM_NODES} nodes, judged on the next {NUM_JUDGED}"
# Shares that are reported. The first is also asked for by a promise: see `results/README.md`.
NUMBERS = ("error_ratio", "coverage", "coverage_of_positive", "coverage_of_zeros", "naive_ratio", "zeros", "width")
COUNT_LINES = LineKind(
    "hourly counts",
    {"seed": int, "protocol": str, "configuration": dict, **dict.fromkeys(NUMBERS, float)},
    # Notes say which networks were tried: with others, the default is another forecaster.
    identity=("seed", "protocol", "configuration", "notes"),
)


def try_counts(seed: int, path: Path, device: DeviceName = "auto") -> None:
    """Fit a forecaster with default settings to the counts of one seed, and add its line to `path`.

    If `path` has a line of it that was chosen from the networks of today, nothing is done.

    Args:
        seed: Seed of the counts, and of the forecaster.
        path: The results file.
        device: Where to compute.
    """
    model = Forecaster(horizon=HORIZON, seed=seed, device=device)
    configuration = model.to_record() | {"device": "auto", "seed": 0}
    known = read_lines(path, COUNT_LINES, seed=[seed], protocol=[PROTOCOL])
    if any(line["configuration"] == configuration and not is_outdated(line) for line in known):
        return
    counts = simulate_hourly_counts(NUM_NODES, NUM_WEEKS + NUM_JUDGED, seed)
    panel, first = counts.panel, NUM_WEEKS * HOURS_OF_WEEK
    began = time.perf_counter()
    model.fit(panel[:first])
    seconds = time.perf_counter() - began
    firsts = range(first, panel.num_steps - HORIZON + 1, STRIDE)
    forecasts = [model.predict(panel=panel[:start]) for start in firsts]
    values, low, high = (np.stack([getattr(each, name) for each in forecasts]) for name in ("values", "low", "high"))
    observed = observed_windows(panel, firsts, HORIZON)
    rates, naive = (_windows(series, firsts) for series in (counts.rates, _weekly_means(panel.values[..., 0], first)))
    best = float(mean_squared_error(rates, observed))
    is_held = (low <= observed) & (observed <= high)
    line = {
        "seed": seed,
        "protocol": PROTOCOL,
        "error_ratio": float(mean_squared_error(values, observed)) / best,
        "naive_ratio": float(mean_squared_error(naive, observed)) / best,
        "coverage": float(is_held.mean()),
        "coverage_of_positive": float(is_held[observed > 0].mean()),
        "coverage_of_zeros": float(is_held[observed == 0].mean()),
        "width": float((high - low).mean()),
        "zeros": float((observed == 0).mean()),
        "lowest_end": float(low.min()),
        "intervals": model.summary_["intervals"]["method"],
        "notes": model.notes_,
        "seconds": seconds,
        "configuration": configuration,
        **describe_environment(choose_placement(device).device),
    }
    append_lines(path, [line], COUNT_LINES)


def summarize_counts(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means over seeds of the newest configuration, and the number of seeds.

    Of several lines of a seed, the newest one counts.
    """
    newest = newest_by_seed(line for line in lines if line["configuration"] == lines[-1]["configuration"])
    return {"seeds": float(len(newest)), **{name: fmean(line[name] for line in newest) for name in NUMBERS}}


def _windows(series: np.ndarray, firsts: range) -> np.ndarray:
    return np.stack([series[start : start + HORIZON, :, None] for start in firsts])


def _weekly_means(counts: np.ndarray, num_seen: int) -> np.ndarray:
    """Return the mean by hour and weekday of the steps seen, for all steps."""
    means = counts[:num_seen].reshape(-1, HOURS_OF_WEEK, counts.shape[1]).mean(axis=0)
    return np.asarray(means[np.arange(len(counts)) % HOURS_OF_WEEK])
