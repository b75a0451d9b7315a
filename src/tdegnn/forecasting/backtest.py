"""Backtests: what a forecaster and others would have forecast if the series had ended earlier.

Everything is trained on the steps before the first origin and forecasts from all origins, each with the data up to
there; or everything is trained anew for each origin. All methods get the same inputs, and their intervals are learned
in the same way, from their forecasts of the held-out steps before the first origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import clone

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.data.times.calendar import calendar_cells
from tdegnn.data.times.seasons import Season
from tdegnn.errors import Argument, InputError, Message, TrainingError
from tdegnn.forecasting.backtests.errors import Judge
from tdegnn.forecasting.backtests.origins import choose_origins
from tdegnn.forecasting.backtests.own_training import OwnTraining
from tdegnn.forecasting.backtests.paired import FEWEST_BLOCKS, block_length
from tdegnn.forecasting.backtests.result import Backtest, MethodForecasts
from tdegnn.forecasting.backtests.rival_intervals import IntervalRules, intervals_around
from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.forecasting.contenders.classical import observed_windows
from tdegnn.forecasting.contenders.contender import Contender, ContenderTask, shortest_period
from tdegnn.forecasting.contenders.registry import NAIVE, make_contenders
from tdegnn.forecasting.held_out import OURS
from tdegnn.metrics import seasonal_naive_scale
from tdegnn.parts import PartLike
from tdegnn.training.progress import OnProgress, Progress, ignore

if TYPE_CHECKING:
    from tdegnn.forecasting.forecaster import Forecaster


class _Block(NamedTuple):
    """Forecasts from some origins, and the seconds they took."""

    values: Predictions
    low: Predictions
    high: Predictions
    fit_seconds: float
    predict_seconds: float


def run_backtest(
    forecaster: Forecaster,
    panel: Panel,
    features: NodeFeatures | None = None,
    *,
    against: Sequence[PartLike] | None = None,
    num_folds: int | None = None,
    stride: int | None = None,
    refit: bool = False,
    on_method: Callable[[str], object] = lambda _: None,
    on_progress: OnProgress = ignore,
) -> Backtest:
    """Forecast from several origins, by a forecaster and by others.

    Args:
        forecaster: A forecaster with the settings. What it has learned is not used.
        panel: The series.
        features: Features of the nodes, if any.
        against: What to compare with. See `Forecaster.backtest`.
        num_folds: Number of origins. See `Forecaster.backtest`.
        stride: Steps from one origin to the next. See `Forecaster.backtest`.
        refit: Whether to train anew for each origin.
        on_method: Called with the name of each method before it is trained.
        on_progress: See `Forecaster.backtest`.
    """
    horizon, window = forecaster.horizon, forecaster.window or 1
    origins = choose_origins(
        panel.num_steps,
        horizon,
        panel.num_nodes * panel.num_targets,
        window=window,
        num_folds=num_folds,
        stride=stride,
        refit=refit,
    )
    before = panel[: origins.firsts.start]
    seasons = forecaster.seasons_of(before.times)
    cells = calendar_cells(before.times) if forecaster.calendar else None
    contenders = _make_contenders(against, seasons, panel, has_calendar=cells is not None)
    blocks: dict[str, list[_Block]] = {name: [] for name in (OURS, *contenders)}
    trainings, failures = [], {}
    for place, firsts in enumerate(origins.trainings, start=1):
        which = f" ({place} of {len(origins.trainings)})" if refit else ""
        seen = panel[: firsts.start]
        on_method(OURS)
        started = perf_counter()
        own = _prefixed(on_progress, f"{OURS}{which}")
        trained: Forecaster = clone(forecaster).fit(seen, node_features=features, on_progress=own)
        blocks[OURS].append(_forecast(trained, panel, firsts, perf_counter() - started, own))
        trainings.append(OwnTraining.of(trained))
        task = ContenderTask(
            seen,
            horizon,
            trained.maker_.window,
            forecaster.seasons_of(seen.times),
            tuple(forecaster.known),
            features,
            forecaster.seed,
            forecaster.device,
        )
        for name, contender in contenders.items():
            on_method(name)
            on_progress(Progress(f"{name}{which}", 0, 1))
            try:
                block = _compete(contender, task, panel, firsts, trained)
            except TrainingError as error:
                # The others are still worth comparing.
                failures[name] = Message(f"{name} could not be trained: ", error.message)
                block = _nothing(len(firsts), task)
            blocks[name].append(block)
    period = shortest_period(seasons) if len(before.times) > shortest_period(seasons) else 1
    scale = seasonal_naive_scale(before.values[..., : panel.num_targets], period).numpy()
    judge = Judge(observed_windows(panel, origins.firsts, horizon), scale, forecaster.coverage)
    return Backtest(
        {name: _join(parts) for name, parts in blocks.items()},
        judge,
        panel.times[origins.firsts.start :],
        origins.firsts.step,
        panel.nodes,
        panel.channels[: panel.num_targets],
        period,
        tuple(trainings),
        refit,
        forecaster.to_record(),
        (*failures.values(), *_notes(judge, origins.firsts.step)),
    )


def _make_contenders(
    against: Sequence[PartLike] | None, seasons: tuple[Season, ...], panel: Panel, *, has_calendar: bool
) -> dict[str, Contender]:
    """Return contenders by name. Of the naive ones, those that need a season or a calendar are left out without one."""
    made = make_contenders([NAIVE] if against is None else against)
    no_season = [name for name, contender in made.items() if contender.needs_season and not seasons]
    no_calendar = [name for name, contender in made.items() if contender.needs_calendar and not has_calendar]
    if against is not None and NAIVE not in against:
        if no_season:
            text = f"Expected a season for {no_season[0]!r}, got series without one. Give its length as "
            raise InputError(text, Argument("season"), ", or leave it out.")
        if no_calendar:
            raise InputError(
                f"Expected dates over at least two days or weeks for {no_calendar[0]!r}, got none. Leave it out."
            )
    fixed = [name for name, contender in made.items() if contender.needs_one_graph]
    if fixed and panel.graph_steps is not None:
        raise InputError(
            f"Expected one graph for {fixed[0]!r}, which cannot follow edges that change, got several. Leave it out, "
            "or compare on one graph."
        )
    return {name: contender for name, contender in made.items() if name not in (*no_season, *no_calendar)}


def _prefixed(on_progress: OnProgress, name: str) -> OnProgress:
    """Return what shows the progress of one method, with its name before each stage."""
    return lambda moment: on_progress(moment._replace(stage=f"{name}: {moment.stage}"))


def _forecast(trained: Forecaster, panel: Panel, firsts: range, fit_seconds: float, on_progress: OnProgress) -> _Block:
    """Return the forecasts of a trained forecaster from all origins."""
    started, horizon = perf_counter(), trained.horizon
    forecasts = []
    on_progress(Progress("forecasts", 0, len(firsts)))
    for first in firsts:
        ahead = panel[first : first + horizon] if trained.known else None
        forecasts.append(trained.predict(panel=panel[:first], future=ahead))
        on_progress(Progress("forecasts", len(forecasts), len(firsts)))
    values, low, high = (
        np.stack([getattr(forecast, name) for forecast in forecasts]) for name in ("values", "low", "high")
    )
    return _Block(values, low, high, fit_seconds, perf_counter() - started)


def _compete(contender: Contender, task: ContenderTask, panel: Panel, firsts: range, trained: Forecaster) -> _Block:
    """Return the forecasts of a contender from all origins, with intervals as the forecaster makes them."""
    started = perf_counter()
    fitted = contender.fit(task)
    fit_seconds = perf_counter() - started
    started = perf_counter()
    values = fitted.predict(panel, firsts)
    expected = len(firsts), task.horizon, panel.num_nodes, panel.num_targets
    if values.shape != expected:
        name = type(contender).__name__
        raise InputError(f"Expected forecasts of {name} of shape {expected}, got {values.shape}. Correct its predict.")
    lowest = trained.fitted_.lowest_of(trained)
    rules = IntervalRules(trained.intervals, trained.coverage, trained.maker_, lowest)
    values = rules.bound(values)
    low, high = intervals_around(values, panel, firsts, fitted, task, rules)
    return _Block(values, low, high, fit_seconds, perf_counter() - started)


def _nothing(num_origins: int, task: ContenderTask) -> _Block:
    """Return forecasts of a method that failed."""
    missing = np.full((num_origins, task.horizon, task.panel.num_nodes, task.panel.num_targets), np.nan)
    return _Block(missing, missing, missing, 0.0, 0.0)


def _join(parts: list[_Block]) -> MethodForecasts:
    values, low, high, fit_seconds, predict_seconds = zip(*parts, strict=True)
    ends = np.concatenate(low), np.concatenate(high)
    return MethodForecasts(np.concatenate(values), *ends, sum(fit_seconds), sum(predict_seconds))


def _notes(judge: Judge, stride: int) -> list[str]:
    notes = []
    num_origins, horizon, num_nodes, _ = judge.observed.shape
    num_constant = int((~judge.has_scale).any(axis=1).sum())
    if num_constant:
        notes.append(f"MASE leaves out {num_constant} of {num_nodes} nodes, which never changed before the origins.")
    if num_origins < FEWEST_BLOCKS * block_length(num_origins, horizon, stride):
        notes.append(f"{num_origins} origins are too few for intervals of differences. Take more.")
    return notes
