"""What a forecaster decides before and measures after its training: held-out steps, the window, naive forecasts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.times.seasons import Season
from tdegnn.errors import InputError, check_count
from tdegnn.forecasting.baselines.naive import ForecastMethod, MeanForecast, SeasonalNaive, SeriesInputs
from tdegnn.forecasting.baselines.ridge import Feature, KnownChannels, NeighborLags, OwnLags, RidgeForecast
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.intervals import ConformalIntervals, fewest_residuals
from tdegnn.forecasting.settings import ForecasterSettings
from tdegnn.training.devices import single_thread

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
    targets = panel.values[..., : panel.num_targets]
    scaler = Scaler.standard(targets[: training.stop])
    return SeriesInputs.with_seasons(scaler.transform(targets), seasons, panel.graph)


def _windows_of(values: np.ndarray, steps: range, horizon: int) -> np.ndarray:
    """What was observed in every run of `horizon` steps: (windows, horizon, nodes, targets)."""
    views = np.lib.stride_tricks.sliding_window_view(values[steps.start : steps.stop], horizon, axis=0)
    return np.moveaxis(views, -1, 1)


OURS = "forecaster"
# Steps ahead up to which c on physical states is learned as well as one step ahead.
READABLE_HORIZON = 4
# A squared error so many times that of a naive forecast is not the data's fault.
GONE_WRONG = 100


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was measured.

    Attributes:
        errors: Mean squared and absolute errors by method, our own first.
        intervals: Intervals around the forecasts; None where there are too few steps.
        notes: What a user should know of them.
    """

    errors: dict[str, dict[str, float]]
    intervals: ConformalIntervals | None
    notes: tuple[str, ...]

    @staticmethod
    def measure(
        settings: ForecasterSettings,
        panel: Panel,
        split: ForecastSplit,
        held_out: WindowSet,
        forecasts: Float[np.ndarray, "windows horizon nodes targets"],
        maker: FrameMaker,
    ) -> HeldOut:
        """Measure forecasts of the held-out windows, in the units of the panel."""
        residuals = maker.to_units(held_out.targets.double().cpu().numpy()) - forecasts
        own = {"mse": float(np.nanmean(residuals**2)), "mae": float(np.nanmean(np.abs(residuals)))}
        naive = measure_naive(panel, split, held_out.first_target_steps, maker)
        intervals = None
        if np.isfinite(residuals).sum(axis=(0, 2)).min() >= fewest_residuals(settings.coverage):
            intervals = ConformalIntervals.fit(residuals, settings.coverage, scale=maker.target_scales)
        notes = [
            *_notes_of_intervals(settings, panel, forecasts, intervals),
            *_notes_of_errors(own["mse"], {name: errors["mse"] for name, errors in naive.items()}),
        ]
        return HeldOut({OURS: own, **naive}, intervals, tuple(notes))


def notes_of_settings(settings: ForecasterSettings, panel: Panel, horizon: int) -> list[str]:
    """What a user should know of settings on these series, whatever was learned."""
    notes = []
    if panel.graph is None:
        notes.append("There is no graph: nodes are forecast without their neighbors.")
    if settings.states == "physical" and horizon > READABLE_HORIZON:
        notes.append(
            f"c is learned less exactly over {horizon} steps at once than over one: to read it, take a horizon of 1. "
            "Forecasts go as far as they are asked to all the same."
        )
    others = panel.channels[panel.num_targets :]
    if settings.states == "physical" and others:
        notes.append(f"States are physical: {', '.join(others)}, which is not forecast, is not seen.")
    return notes


def _notes_of_intervals(
    settings: ForecasterSettings,
    panel: Panel,
    forecasts: Float[np.ndarray, "windows horizon nodes targets"],
    intervals: ConformalIntervals | None,
) -> list[str]:
    if intervals is None:
        return ["There are too few held-out steps for intervals. Take a longer series."]
    lowest_seen = np.nanmin(panel.values[..., : panel.num_targets])
    if settings.lowest is None and lowest_seen >= 0 > np.nanmin(forecasts - intervals.widths):
        return [
            "Nothing below 0 was observed, but intervals reach below it. If there can be nothing below 0, pass "
            "lowest=0."
        ]
    return []


def _notes_of_errors(own: float, naive: dict[str, float]) -> list[str]:
    best = min(naive, key=lambda name: naive[name])
    if own > GONE_WRONG * naive[best]:
        return [
            f"The training went wrong: {best} has less than a hundredth of its error. Lower the learning rate or the "
            "step size."
        ]
    if naive[best] <= own:
        return [f"On the held-out steps this forecaster is no better than {best}: the data do not support more."]
    return []
