"""Search for the settings of a `Forecaster` on series: an Optuna study whose trials are trainings on these series.

The last fifth of the series is a test part, which chooses nothing. On the steps before it, series are split as by
`fit`: trials learn from the first of them and are scored on the others. The best few are trained as `fit` trains, with
all steps and networks, beside the default settings, and the lowest loss on the held-out steps chooses. A backtest then
measures the chosen settings, the default ones and naive forecasts on the test part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.errors import TrainingError, check_count
from tdegnn.experiments.forecaster_space import ForecasterSweepSettings
from tdegnn.experiments.studies import StoredStudy, count_finished, count_running
from tdegnn.experiments.trials import Verdict, best_trials, make_distributions, run_trials
from tdegnn.files import finite_or_null
from tdegnn.forecasting.backtests.origins import Origins, choose_origins
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.forecasting.held_out import OURS, WINDOWS
from tdegnn.forecasting.training import TriedOut
from tdegnn.training.devices import DeviceName
from tdegnn.training.progress import OnProgress, Progress, ignore

# The score of a training that diverged. Optuna takes only numbers.
WORST = -1e30
# Name of the default settings beside the finalists and in the test.
DEFAULT = "default settings"
# Entries of a study: finalists, and what the test found.
FINAL, TEST = "final ", "test "


@dataclass(frozen=True)
class SeriesFinalist:
    """Settings that were trained as `fit` trains.

    Attributes:
        trial: Their number in the study. None for the default settings.
        settings: Settings of `Forecaster`, by name: those that were drawn or fixed, and the window.
        loss: On the held-out steps, of scaled values. None if the training diverged.
    """

    trial: int | None
    settings: dict[str, Any]
    loss: float | None

    def to_record(self) -> dict[str, Any]:
        """Return the finalist as plain values."""
        record = Forecaster(**self.settings).to_record()
        return vars(self) | {"settings": {name: record[name] for name in self.settings}}


@dataclass(frozen=True)
class SeriesTest:
    """Errors on the test part, which chose nothing.

    Attributes:
        num_origins: Number of origins.
        horizon: Number of steps that are forecast from each.
        means: MAE, RMSE and others by method, lowest MAE first. `forecaster` has the chosen settings.
        differences: MAE and RMSE of the other methods minus those of the chosen settings, with 95 % intervals.
    """

    num_origins: int
    horizon: int
    means: dict[str, dict[str, float | None]]
    differences: dict[str, dict[str, dict[str, float | None]]]


@dataclass(frozen=True)
class SeriesSweepResult:
    """The result of a sweep on series.

    Attributes:
        num_finished: Number of trials that were evaluated, including those that halving stopped.
        num_running: Trials that other processes are working on. The last process has the finalists.
        finalists: The best few and the default settings, lowest loss first. Empty while others run trials.
        test: The errors of the first of them. None while others run trials.
    """

    num_finished: int
    num_running: int
    finalists: list[SeriesFinalist]
    test: SeriesTest | None


TryOut = Callable[[Forecaster, Panel, NodeFeatures | None], TriedOut]


def _try_out(forecaster: Forecaster, panel: Panel, features: NodeFeatures | None) -> TriedOut:
    return forecaster.try_out(panel, node_features=features)


def run_forecaster_sweep(
    panel: Panel,
    study: StoredStudy,
    settings: ForecasterSweepSettings,
    features: NodeFeatures | None = None,
    *,
    num_trials: int = 64,
    batch_size: int = 16,
    num_finalists: int | None = 4,
    is_waiting: bool = False,
    device: DeviceName = "auto",
    try_out: TryOut = _try_out,
    on_progress: OnProgress = ignore,
) -> SeriesSweepResult:
    """Run trials until the study has `num_trials`, train the best few in full, and measure the best of them.

    Args:
        panel: The series.
        study: From `open_study`, with the same settings. Other processes may work on it at the same time.
        settings: The settings of the sweep.
        features: Features of the nodes, if any.
        num_trials: Number of trials of the study, including those of earlier runs and other processes.
        batch_size: Number of trials of which the better half is trained to the end.
        num_finalists: Number of trials that are then trained in full. If None, none are: another process does that.
        is_waiting: Whether to stay until the trials of other processes are finished, and to take over those of a
            process that ends before. Default: False.
        device: Where to compute.
        try_out: Trains a forecaster. Tests pass a replacement.
        on_progress: Called after each trial, and at each later training.
    """
    check_count(num_trials=num_trials, batch_size=batch_size)
    if num_finalists is not None:
        check_count(num_finalists=num_finalists)
    judge = _Judge(panel, settings, features, device, try_out)
    num_done = min(count_finished(study), num_trials)

    def on_trial() -> None:
        nonlocal num_done
        num_done += 1
        on_progress(Progress("trials", num_done, num_trials))

    on_progress(Progress("trials", num_done, num_trials))
    with study.explained():
        run_trials(study, judge, num_trials, batch_size, on_trial, is_waiting=is_waiting)
        num_finished, num_running = count_finished(study), count_running(study)
        if num_running or num_finalists is None:
            return SeriesSweepResult(num_finished, num_running, [], None)
        finalists = _train_finalists(study, judge, num_finalists, on_progress)
        test = _test(study, judge, finalists[0], on_progress)
    return SeriesSweepResult(num_finished, num_running, finalists, test)


class _Judge:
    """Trains forecasters on the steps before the test part, and scores them on the held-out ones."""

    # Trials are trained one by one, so each may be of another shape.
    shared: Sequence[str] = ()

    def __init__(
        self,
        panel: Panel,
        settings: ForecasterSweepSettings,
        features: NodeFeatures | None,
        device: DeviceName,
        try_out: TryOut,
    ) -> None:
        self.panel, self.settings, self.features, self._try_out = panel, settings, features, try_out
        self.seed, self.num_steps = settings.seed, settings.num_steps
        self.distributions = make_distributions(settings.choices(panel), settings.ranges)
        self._usual = {"seed": settings.seed, "device": device}
        self._windows: dict[str, int] = {}
        horizon, window = self.forecaster(settings.fixed).horizon, settings.fixed.get("window") or WINDOWS[0]
        num_series = panel.num_nodes * panel.num_targets
        self.origins: Origins = choose_origins(panel.num_steps, horizon, num_series, window=window)

    def forecaster(self, settings: Mapping[str, Any], **others: Any) -> Forecaster:
        """Return a forecaster with these settings."""
        return Forecaster(**{**self._usual, **settings, **others})

    def judge(self, params: Sequence[Mapping[str, Any]], num_steps: int) -> list[Verdict]:
        """Return minus the loss of each trial: of one network, after so many steps."""
        return [self._judge(self.settings.settings(each), num_steps) for each in params]

    def _judge(self, settings: dict[str, Any], num_steps: int) -> Verdict:
        loss, window = self.try_out(settings, num_members=1, num_steps=num_steps)
        return Verdict(WORST if loss is None else -loss, {"window": window})

    def try_out(self, settings: Mapping[str, Any], **others: Any) -> tuple[float | None, int | None]:
        """Return the loss on the held-out steps, None if the training diverged, and the window."""
        # The window depends on the states and on what is fixed. It is chosen once for each kind of states.
        states = str(settings.get("states", "windows"))
        known = {"window": self._windows[states]} if states in self._windows else {}
        forecaster = self.forecaster(settings, **known, **others)
        try:
            loss, window = self._try_out(forecaster, self.panel[: self.origins.firsts.start], self.features)
        except TrainingError:
            return None, known.get("window")
        self._windows[states] = window
        return loss if isfinite(loss) else None, window


def _train_finalists(
    study: StoredStudy, judge: _Judge, num_finalists: int, on_progress: OnProgress
) -> list[SeriesFinalist]:
    """Train the best trials and the default settings in full. Results of an earlier run are read from the study."""
    drawn = {trial.number: judge.settings.settings(trial.params) for trial in best_trials(study, num_finalists)}
    finalists = []
    for place, (number, settings) in enumerate([*drawn.items(), (None, dict(judge.settings.fixed))]):
        on_progress(Progress("finalists", place, len(drawn) + 1))
        entry = f"{FINAL}{DEFAULT if number is None else number}"
        if entry not in study.user_attrs:
            study.set_user_attr(entry, judge.try_out(settings))
        loss, window = study.user_attrs[entry]
        finalists.append(SeriesFinalist(number, {**settings, "window": window}, loss))
    # Of equal ones the default settings, which are shorter to write.
    return sorted(
        finalists, key=lambda each: (float("inf") if each.loss is None else each.loss, each.trial is not None)
    )


def _test(study: StoredStudy, judge: _Judge, chosen: SeriesFinalist, on_progress: OnProgress) -> SeriesTest:
    """Measure the chosen settings, the default ones and naive forecasts. An earlier result is read from the study."""
    entry = f"{TEST}{DEFAULT if chosen.trial is None else chosen.trial}"
    if entry not in study.user_attrs:
        firsts = judge.origins.firsts
        origins: dict[str, Any] = {
            "num_folds": len(firsts),
            "stride": firsts.step,
            "node_features": judge.features,
        }
        on_progress(Progress("test", 0, 2))
        result = judge.forecaster(chosen.settings).backtest(judge.panel, **origins)
        if chosen.trial is not None:
            on_progress(Progress("test", 1, 2))
            default = judge.forecaster(judge.settings.fixed).backtest(judge.panel, against=[], **origins)
            result = replace(result, methods={**result.methods, DEFAULT: default.methods[OURS]})
        record = result.to_record()
        kept = {"num_origins": result.num_origins, "horizon": result.horizon}
        kept |= {name: record[name] for name in ("means", "differences")}
        study.set_user_attr(entry, finite_or_null(kept))
    return SeriesTest(**study.user_attrs[entry])
