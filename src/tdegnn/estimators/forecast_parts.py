"""What a forecaster decides before and measures after its training: held-out steps, the window, naive forecasts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import ceil

import numpy as np

from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.seasons import Season, season_waves
from tdegnn.errors import InputError, check_count
from tdegnn.training.series_frames import FrameMaker
from tdegnn.training.threads import single_thread
from tdegnn.zoo.lag_features import Feature, KnownChannels, NeighborLags, OwnLags
from tdegnn.zoo.naive_series import MeanForecast, SeasonalNaive
from tdegnn.zoo.ridge_series import RidgeForecast
from tdegnn.zoo.series_inputs import ForecastMethod, SeriesInputs

# The end of the series that is held out, and the fewest windows on either side.
HELD_OUT = 0.15
FEWEST_WINDOWS = 8
# Windows to choose from; a season and a bit more is added where the series is long enough.
WINDOWS = (4, 8, 13, 26)
# The window may take this share of the series.
LARGEST_WINDOW = 0.2
# Values of a panel up to which it is small: more threads of the CPU gain nothing, and lose much on a busy machine.
SMALL_PANEL = 2**16


@dataclass(frozen=True)
class ForecastSplit:
    """Steps to be predicted, from 0: those to learn from, and after them those that are held out."""

    training: range
    validation: range


def split_for_forecast(num_steps: int, window: int, horizon: int) -> ForecastSplit:
    """Hold out the end of a series of `num_steps` steps."""
    check_count(num_steps=num_steps, window=window, horizon=horizon)
    needed = fewest_steps(window, horizon)
    if num_steps < needed:
        raise InputError(
            f"Expected at least {needed} steps for a window of {window} and a horizon of {horizon}, got {num_steps}. "
            "Take a shorter window or horizon, or a longer series."
        )
    boundary = num_steps - _num_held_out(num_steps, window, horizon)
    return ForecastSplit(range(window, boundary), range(boundary, num_steps))


def fewest_steps(window: int, horizon: int) -> int:
    """Steps that a series must have to be split."""
    return window + 2 * (FEWEST_WINDOWS + horizon - 1)


def choose_window(panel: Panel, horizon: int, seasons: tuple[Season, ...]) -> int:
    """The window with which a ridge regression forecasts the held-out steps best: it takes no time to find out."""
    longest = max(1, int(LARGEST_WINDOW * panel.num_steps))
    seasonal = [ceil(season.period) for season in seasons]
    # The series is split twice: what is left of it after the first time must be enough for the second.
    candidates = sorted(
        length
        for length in {*WINDOWS, *seasonal}
        if length <= longest
        and panel.num_steps - _num_held_out(panel.num_steps, length, horizon) >= fewest_steps(length, horizon)
    )
    if not candidates:
        return min(longest, WINDOWS[0])
    split = split_for_forecast(panel.num_steps, candidates[-1], horizon)
    series = _as_inputs(panel, seasons, split.training)
    observed = _windows_of(series.values, split.validation, horizon)
    errors = {}
    for length in candidates:
        features: list[Feature] = [OwnLags(length)]
        features += [NeighborLags(length)] if panel.graph is not None else []
        features += [KnownChannels()] if seasons else []
        # The ridge learns from the validation part once lambda is chosen; so it is given an earlier one.
        inner = split_for_forecast(split.training.stop, length, horizon)
        fitted = RidgeForecast(tuple(features), per="all").fit(series, inner.training, inner.validation, horizon)
        firsts = range(split.validation.start, split.validation.stop - horizon + 1)
        errors[length] = float(np.nanmean((fitted.predict(series, firsts) - observed) ** 2))
    return min(errors, key=lambda length: errors[length])


def threads_for(panel: Panel) -> AbstractContextManager[None]:
    """Compute with one thread of the CPU meanwhile, where the panel is small."""
    return single_thread() if panel.values.size <= SMALL_PANEL else nullcontext()


def naive_methods(seasons: tuple[Season, ...]) -> dict[str, ForecastMethod]:
    """The forecasts that any forecaster must be compared with."""
    methods: dict[str, ForecastMethod] = {"the mean": MeanForecast(), "the last value": SeasonalNaive(1)}
    if seasons:
        methods["the last season"] = SeasonalNaive(round(min(season.period for season in seasons)))
    return methods


def measure_naive(
    panel: Panel, split: ForecastSplit, first_target_steps: range, maker: FrameMaker
) -> dict[str, dict[str, float]]:
    """Mean squared and absolute errors of the naive forecasts on held-out windows, in the units of the panel."""
    series = SeriesInputs(panel.values[..., : panel.num_targets])
    observed = _windows_of(series.values, range(first_target_steps.start, panel.num_steps), maker.horizon)
    measured = {}
    for name, method in naive_methods(maker.seasons).items():
        # Nothing of the held-out part may be learned, and there is nothing to choose.
        empty = range(split.training.stop, split.training.stop)
        forecasts = method.fit(series, split.training, empty, maker.horizon).predict(series, first_target_steps)
        residuals = observed - forecasts
        measured[name] = {"mse": float(np.nanmean(residuals**2)), "mae": float(np.nanmean(np.abs(residuals)))}
    return measured


def _num_held_out(num_steps: int, window: int, horizon: int) -> int:
    return max(ceil(HELD_OUT * (num_steps - window)), FEWEST_WINDOWS + horizon - 1)


def _as_inputs(panel: Panel, seasons: tuple[Season, ...], training: range) -> SeriesInputs:
    """Series in units of the training part, so that nodes of any size count the same, and their seasons."""
    num_steps = panel.num_steps
    waves = [season_waves(range(num_steps), *season) for season in seasons]
    known = None
    if waves:
        joined = np.concatenate(waves, axis=1)
        known = np.broadcast_to(joined[:, None], (num_steps, panel.num_nodes, joined.shape[1]))
    targets = panel.values[..., : panel.num_targets]
    scaler = Scaler.standard(targets[: training.stop])
    return SeriesInputs(scaler.transform(targets), known, panel.graph)


def _windows_of(values: np.ndarray, steps: range, horizon: int) -> np.ndarray:
    """What was observed in every run of `horizon` steps: (windows, horizon, nodes, targets)."""
    views = np.lib.stride_tricks.sliding_window_view(values[steps.start : steps.stop], horizon, axis=0)
    return np.moveaxis(views, -1, 1)
