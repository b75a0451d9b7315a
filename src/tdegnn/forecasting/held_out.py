"""The held-out end of a series: its length, the window that it chooses, and the errors of forecasts on it.

A forecaster does not learn from it until its errors have been measured. Its first part chooses window, network and
step. The last third of its windows chooses none of them: there, forecasts are compared with naive ones. Intervals are
learned from the residuals of all held-out windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.times.calendar import calendar_cells
from tdegnn.data.times.seasons import Season, season_waves
from tdegnn.errors import Argument, InputError, Message, check_count
from tdegnn.forecasting.baselines.naive import (
    CalendarMean,
    ForecastMethod,
    MeanForecast,
    SeasonalNaive,
    SeriesInputs,
)
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.intervals import (
    Context,
    Intervals,
    apply_intervals,
    check_held_out,
    chosen_method,
    fit_intervals,
    name_of,
)
from tdegnn.forecasting.intervals.auto import split_windows
from tdegnn.forecasting.kept_forecasts import KeptForecasts
from tdegnn.forecasting.settings import ForecasterSettings, are_counts
from tdegnn.forecasting.window_search import Stages, measure_windows
from tdegnn.metrics import mean_absolute_error, mean_squared_error
from tdegnn.training.devices import single_thread
from tdegnn.training.progress import OnProgress, ignore

# Share of the series that is held out, and the minimum number of windows on either side.
HELD_OUT = 0.15
FEWEST_WINDOWS = 8
# Windows to choose from. Each season is added if the series is long enough.
WINDOWS = (4, 8, 13, 26)
# The largest share of the series that a window may take.
LARGEST_WINDOW = 0.2
# The longest window that is tried. Longer ones would take too much memory; waves show longer seasons.
LONGEST_WINDOW = 512
# Maximum number of values of a small panel: more CPU threads gain nothing there, and lose much on a busy machine.
SMALL_PANEL = 2**16
# Name of the forecaster in comparisons with naive forecasts.
OURS = "forecaster"
# Steps ahead up to which c on physical states is learned as well as one step ahead.
READABLE_HORIZON = 4
# With fewer held-out steps, chance decides which of two similar forecasts has the smaller error.
FEW_HELD_OUT = 30
# If the squared error is this many times that of a naive forecast, the training went wrong.
GONE_WRONG = 100

Windows = Float[np.ndarray, "windows horizon nodes targets"]


def check_to_learn_from(panel: Panel, lowest: float | None) -> None:
    """Raise an `InputError` if values go below the lowest one, or if all that would be held out is empty."""
    observed = panel.values[..., : panel.num_targets]
    if lowest is not None and (observed < lowest).any():
        raise InputError(
            "Expected nothing below ",
            Argument("lowest", lowest),
            f", got {np.nanmin(observed):g}. Lower it or leave it out.",
        )
    is_empty = np.isnan(observed).reshape(panel.num_steps, -1).all(axis=1)
    num_empty = panel.num_steps if is_empty.all() else int(np.argmin(is_empty[::-1]))
    if num_empty >= HELD_OUT * panel.num_steps:
        raise InputError(
            f"Expected observed values at the end of the series, got {num_empty} of {panel.num_steps} steps "
            "without any. Remove them: forecasts begin after the last observed step."
        )


def threads_for(panel: Panel) -> AbstractContextManager[None]:
    """Compute with one CPU thread inside the `with` block if the panel is small."""
    return single_thread() if panel.values.size <= SMALL_PANEL else nullcontext()


@dataclass(frozen=True)
class ForecastSplit:
    """Predicted steps, counted from 0: those to learn from, followed by those that are held out."""

    training: range
    validation: range

    def choosing(self, horizon: int) -> range:
        """Return the held-out steps that choose window, network and step. All of them if there are few windows."""
        windows = split_windows(len(self.validation) - horizon + 1, horizon)
        return self.validation if windows is None else self.validation[: windows[1].start]

    def judging(self, horizon: int) -> range:
        """Return the held-out steps on which forecasts are judged: those that choose nothing, if there are any."""
        choosing = self.choosing(horizon)
        return self.validation if choosing == self.validation else self.validation[len(choosing) :]


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
    """Return the number of steps that a series needs to be split."""
    return window + 2 * (FEWEST_WINDOWS + horizon - 1)


def _num_held_out(num_steps: int, window: int, horizon: int) -> int:
    return max(ceil(HELD_OUT * (num_steps - window)), FEWEST_WINDOWS + horizon - 1)


def choose_window(
    panel: Panel,
    horizon: int,
    seasons: tuple[Season, ...],
    limits: tuple[int, int] = (1, LONGEST_WINDOW),
    on_progress: OnProgress = ignore,
) -> int:
    """Return the window with which a ridge regression, which takes no time, forecasts the held-out steps best.

    Args:
        panel: The series.
        horizon: Number of steps to forecast.
        seasons: Seasons of the series.
        limits: The shortest and the longest window to try, as far as the series is long enough.
        on_progress: Called after each length that was tried.
    """
    longest = min(max(1, int(LARGEST_WINDOW * panel.num_steps)), limits[1])
    seasonal = [ceil(season.period) for season in seasons]
    # The series is split twice: the steps that the first split leaves must be enough for the second.
    candidates = sorted(
        length
        for length in {*WINDOWS, *seasonal, max(limits[0], *WINDOWS[:1])}
        if min(limits[0], longest) <= length <= longest
        and panel.num_steps - _num_held_out(panel.num_steps, length, horizon) >= fewest_steps(length, horizon)
    )
    if not candidates:
        return min(longest, WINDOWS[0])
    split = split_for_forecast(panel.num_steps, candidates[-1], horizon)
    targets = panel.values[..., : panel.num_targets]
    # Scaled by the training steps, so that nodes of any size count the same.
    scaled = Scaler.standard(targets[: split.training.stop]).transform(targets)
    steps = range(panel.num_steps)
    waves = np.concatenate([np.zeros((len(steps), 0)), *(season_waves(steps, *season) for season in seasons)], axis=1)
    choosing = _before_judging(split, panel.num_steps, candidates, horizon)
    judged = range(choosing.start, choosing.stop - horizon + 1)
    # Once lambda is chosen, the ridge learns from its validation steps too. So it is given earlier ones.
    inner = {length: split_for_forecast(split.training.stop, length, horizon) for length in candidates}
    stages = {length: Stages(each.training, each.validation, judged) for length, each in inner.items()}
    # If edges change, those of the last step to learn from: the ridge regression takes one graph.
    graph = panel[: split.training.stop].graph
    errors = measure_windows(scaled, waves, graph, stages, horizon, on_progress)
    return min(errors, key=lambda length: errors[length])


def _before_judging(split: ForecastSplit, num_steps: int, lengths: Sequence[int], horizon: int) -> range:
    """Return the held-out steps that may choose a window: those that judge no window, whichever is chosen."""
    splits = [split_for_forecast(num_steps, length, horizon) for length in lengths]
    firsts = [each.judging(horizon).start for each in splits if each.judging(horizon) != each.validation]
    choosing = split.choosing(horizon)
    stop = min([choosing.stop, *firsts])
    return range(choosing.start, stop) if stop - choosing.start >= horizon else choosing


class CutShort(NamedTuple):
    """A training with fewer optimizer steps than usual: how many, and the argument that limits them."""

    num_steps: int
    limit: Argument


class Errors(NamedTuple):
    """The mean squared and the mean absolute error. Both are NaN if nothing was observed."""

    mse: float
    mae: float


def measure_errors(forecasts: Float[np.ndarray, "*shape"], observed: Float[np.ndarray, "*shape"]) -> Errors:
    """Return the errors of forecasts. Observed values may be NaN."""
    if np.isnan(observed).all():
        return Errors(np.nan, np.nan)
    return Errors(float(mean_squared_error(forecasts, observed)), float(mean_absolute_error(forecasts, observed)))


def naive_methods(seasons: tuple[Season, ...], cells: Sequence[str] = ()) -> dict[str, ForecastMethod]:
    """Return the forecasts that any forecaster must be compared with.

    Args:
        seasons: The seasons of the calendar.
        cells: What cells of the calendar are made of, such as hour and weekday. If empty, there are none.
    """
    methods: dict[str, ForecastMethod] = {"the mean": MeanForecast(), "the last value": SeasonalNaive(1)}
    if seasons:
        methods["the last season"] = SeasonalNaive(round(min(season.period for season in seasons)))
    if cells:
        methods[f"the mean by {' and '.join(cells)}"] = CalendarMean()
    return methods


def _measure_naive(
    panel: Panel, split: ForecastSplit, first_target_steps: range, maker: FrameMaker, *, has_calendar: bool
) -> dict[str, Errors]:
    """Return the errors of the naive forecasts on held-out windows, in the units of the panel."""
    cells = calendar_cells(panel.times) if has_calendar else None
    series = SeriesInputs(panel.values[..., : panel.num_targets], cells=None if cells is None else cells.numbers)
    observed = _windows_of(series.values, range(first_target_steps.start, panel.num_steps), maker.horizon)
    measured = {}
    for name, method in naive_methods(maker.seasons, () if cells is None else cells.names).items():
        # No held-out step may be learned from, and there is nothing to choose.
        nothing = range(split.training.stop, split.training.stop)
        fitted = method.fit(series, split.training, nothing, maker.horizon)
        measured[name] = measure_errors(fitted.predict(series, first_target_steps), observed)
    return measured


def _windows_of(values: Float[np.ndarray, "time nodes targets"], steps: range, horizon: int) -> Windows:
    """Return the observed values in every run of `horizon` steps."""
    views = np.lib.stride_tricks.sliding_window_view(values[steps.start : steps.stop], horizon, axis=0)
    return np.moveaxis(views, -1, 1)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The errors of forecasts on the held-out windows, and intervals.

    Attributes:
        errors: Errors by method on the windows that are judged, those of the forecaster first.
        num_judged: Number of these windows.
        chose_nothing: Whether they chose nothing. There are too few held-out windows otherwise.
        intervals: Intervals around the forecasts. None if there are too few held-out steps.
        kept: The forecasts and what was observed, as far as a run folder keeps them.
        facts: The method of the intervals, and the coverage that it has on the last held-out windows if it learns from
            the others, which is None if there are too few. None without intervals.
        notes: Remarks on all of this for the user.
    """

    errors: dict[str, Errors]
    num_judged: int
    chose_nothing: bool
    intervals: Intervals | None
    kept: KeptForecasts
    facts: dict[str, Any] | None
    notes: tuple[str, ...]

    @staticmethod
    def measure(
        settings: ForecasterSettings,
        panel: Panel,
        split: ForecastSplit,
        held_out: WindowSet,
        forecasts: Windows,
        maker: FrameMaker,
        cut_short: CutShort | None = None,
    ) -> HeldOut:
        """Measure forecasts of the held-out windows, in the units of the panel.

        Args:
            settings: The settings of the forecaster.
            panel: The series.
            split: Steps to learn from, and those that are held out.
            held_out: The held-out windows.
            forecasts: Their forecasts.
            maker: Makes the frames.
            cut_short: What to know about a training that had fewer steps than usual. None for any other training.
        """
        first_steps = held_out.first_target_steps
        observed = _windows_of(
            panel.values[..., : panel.num_targets], range(first_steps.start, panel.num_steps), maker.horizon
        )
        judging = split.judging(maker.horizon)
        judged = range(judging.start, first_steps.stop)
        own = measure_errors(forecasts[-len(judged) :], observed[-len(judged) :])
        naive = _measure_naive(panel, split, judged, maker, has_calendar=settings.calendar)
        context = Context.of(panel, first_steps, forecasts, maker, panel[: split.training.stop])
        learned = (observed - forecasts, settings.coverage, maker.target_scales, context)
        intervals = fit_intervals(settings.intervals, *learned)
        facts = checked = None
        if intervals is not None:
            checked = check_held_out(chosen_method(settings.intervals, intervals), *learned, panel.nodes)
            facts = {
                "method": name_of(settings.intervals, intervals),
                "coverage": None if checked is None else checked.report.to_record(),
            }
        low, high = np.full((2, *forecasts.shape), np.nan)
        if checked is not None:
            low[checked.windows], high[checked.windows] = checked.low, checked.high
        kept = KeptForecasts.of(panel, first_steps, forecasts, (low, high))
        notes = [
            *_notes_of_intervals(settings, panel, context, intervals),
            *notes_of_errors(own.mse, {name: errors.mse for name, errors in naive.items()}, len(judging), cut_short),
        ]
        chose_nothing = judging != split.validation
        return HeldOut({OURS: own, **naive}, len(judged), chose_nothing, intervals, kept, facts, tuple(notes))


def notes_of_settings(settings: ForecasterSettings, panel: Panel, horizon: int) -> list[str]:
    """Return notes for the user on settings that do not suit these series."""
    notes: list[str] = []
    if panel.graph is None:
        notes.append("There is no graph: nodes are forecast without their neighbors.")
    if settings.lowest is None and are_counts(panel):
        text = "All values are counts, whole numbers from 0 on, so no forecast and no interval goes below 0. Pass "
        notes.append(Message(text, Argument("lowest"), " for another limit."))
    if settings.states == "physical" and horizon > READABLE_HORIZON:
        notes.append(
            f"c is learned less exactly over {horizon} steps at once than over one: to read it, take a horizon of 1. "
            "predict() can still forecast any number of steps."
        )
    others = panel.channels[panel.num_targets :]
    if settings.states == "physical" and others:
        notes.append(f"States are physical: {', '.join(others)}, which is not forecast, is not seen.")
    return notes


def _notes_of_intervals(
    settings: ForecasterSettings, panel: Panel, context: Context, intervals: Intervals | None
) -> list[str]:
    if intervals is None:
        return ["There are too few held-out steps for intervals. Take a longer series."]
    lowest_seen = np.nanmin(panel.values[..., : panel.num_targets])
    lowest_end = np.nanmin(apply_intervals(intervals, context.forecasts, context)[0])
    if settings.lowest is None and not are_counts(panel) and lowest_seen >= 0 > lowest_end:
        text = "Nothing below 0 was observed, but intervals reach below it. If there can be nothing below 0, pass "
        return [Message(text, Argument("lowest", 0), ".")]
    return []


def notes_of_errors(own: float, naive: dict[str, float], num_held_out: int, cut_short: CutShort | None) -> list[str]:
    """Return a note if a naive forecast is as good as the forecaster, and what may be the reason.

    Args:
        own: The squared error of the forecaster on the held-out steps.
        naive: Those of the naive forecasts, by name.
        num_held_out: Number of held-out steps.
        cut_short: What to know about a training that had fewer steps than usual. None for any other training.
    """
    best = min(naive, key=lambda name: naive[name])
    if own > GONE_WRONG * naive[best]:
        return [
            f"The training went wrong: {best} has less than a hundredth of its error. Lower the learning rate or the "
            "step size."
        ]
    if naive[best] <= own:
        found = f"On the {num_held_out} held-out steps this forecaster is no better than {best}."
        if cut_short is not None:
            count = "1 step" if cut_short.num_steps == 1 else f"{cut_short.num_steps} steps"
            return [Message(found, f" Its training was short ({count}): raise ", cut_short.limit, ".")]
        if num_held_out < FEW_HELD_OUT:
            return [f"{found} So few steps cannot tell which of them is better: a longer series can."]
        return [f"{found} Forecast with {best}, or give it more to learn from: edges, other channels, a longer series."]
    return []
