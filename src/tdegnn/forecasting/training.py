"""Train a forecaster on all but the held-out steps, measure it on those, and train it again on all steps.

The result is one value, a `FittedForecaster`. `train_further` makes another one from it and newer series.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from statistics import fmean, median_low
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.errors import Argument, TrainingError
from tdegnn.forecasting.fitted import Ensemble, FittedForecaster, tail_of
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.held_out import CutShort, ForecastSplit, HeldOut, notes_of_settings
from tdegnn.forecasting.inputs import notes_of_update
from tdegnn.forecasting.linear_skip import LinearSkip, Penalties, seconds_to_solve, start_at_ridge
from tdegnn.forecasting.losses import Loss
from tdegnn.forecasting.series_config import ForecastNetwork
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.forecasting.settings import ForecasterSettings, are_counts
from tdegnn.forecasting.stages import INTERVALS, LINEAR, TRAINING, TRAINING_AGAIN
from tdegnn.forecasting.time_budget import FEWEST_STEPS as FEWEST_PLANNED
from tdegnn.forecasting.time_budget import Lateness, TimeBudget, TrialTime
from tdegnn.forecasting.usual_networks import TrialRecord, notes_of_choice
from tdegnn.graph import Graph
from tdegnn.parts import parts_must_fit
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import Placement, choose_placement
from tdegnn.training.loop import FitResult, Look, fit
from tdegnn.training.network_choice import ChosenNetwork
from tdegnn.training.order_choice import ChosenOrder
from tdegnn.training.processes import ALONE, Processes
from tdegnn.training.progress import OnProgress, Progress, ignore
from tdegnn.training.replay import RecordedStep

# Maximum number of rows (windows times nodes) of a training step if `batch_size` is None: a few milliseconds of work.
ROWS_PER_STEP = 2**13
# Maximum number of windows of such a step: with more, steps cost more and learn no more (Chickenpox, tested to 440).
WINDOWS_PER_STEP = 64
# How often a training sees each window if `num_steps` is None, and the limits of its steps.
NUM_EPOCHS, FEWEST_STEPS, MOST_STEPS = 24, 300, 2000
# Maximum number of rows (windows times nodes) of a validation: on large panels it would take longer than the training.
MOST_LOOKED_AT = 2**17
# Steps that are timed for a time budget, after those in which a step is recorded, and the fewest if steps are slow.
STEPS_TO_WARM_UP, STEPS_TO_TIME, FEWEST_TO_TIME = 6, 4, 2
# A forecast takes about this share of the time of a training step on as many windows.
FORECAST_SHARE = 0.5
# Values of held-out forecasts for which intervals are learned in a second, and the seconds that it takes at least.
VALUES_IN_A_SECOND, FEWEST_SECONDS = 2e5, 0.2
# The entries of a run folder's settings that keep how many steps fit into a time budget, and how long a fit with the
# fewest steps takes if the budget is too small for them. The value of a checkpoint that keeps how many steps of the
# second training do.
PLANNED_STEPS, NEEDED_SECONDS, STEPS_AGAIN = "planned_steps", "needed_seconds", "steps_again"


@dataclass(frozen=True, eq=False)
class ForecastTask:
    """The data of a training, and the choices made before it.

    Attributes:
        panel: The series.
        split: Steps to learn from, and those that are held out.
        maker: Makes the frames.
        graph: The graph of the nodes.
        node_features: Features of the nodes, if any.
        order_choice: Length of the history, and the reason for it.
        config: The settings of the run folder.
        network: The network that was chosen. None if its settings were given.
    """

    panel: Panel
    split: ForecastSplit
    maker: FrameMaker
    graph: Graph
    node_features: NodeFeatures | None
    order_choice: ChosenOrder
    config: Mapping[str, Any]
    network: ChosenNetwork | None = None

    def with_networks(self, networks: Sequence[ForecastNetwork]) -> Ensemble:
        """Return networks with everything that they need to forecast the panel."""
        return Ensemble(tuple(networks), self.maker, self.graph, self.node_features)


class StepTime(NamedTuple):
    """How many seconds a step takes.

    Attributes:
        alone: The step itself.
        look: A validation.
        looked_at: A step with its share of the validations.
    """

    alone: float
    look: float
    looked_at: float

    @property
    def in_all(self) -> float:
        """A step with its share of the validations, and the step of the second training that it brings with it."""
        return self.looked_at + self.alone


class TriedOut(NamedTuple):
    """How good settings are.

    Attributes:
        loss: The mean loss on the held-out steps, of scaled values, at the best step. NaN if the training diverged.
        window: Number of steps that a forecast sees, given or chosen.
    """

    loss: float
    window: int


class ForecasterTraining:
    """The training of a forecaster. Its constructor checks all settings.

    Args:
        settings: The settings of the forecaster.
        task: The data of the training.
        on_progress: See `Forecaster.fit`.
        processes: Who trains. Default: this process alone.
    """

    def __init__(
        self,
        settings: ForecasterSettings,
        task: ForecastTask,
        on_progress: OnProgress = ignore,
        processes: Processes = ALONE,
    ) -> None:
        self._settings, self._task, self._on_progress, self._processes = settings, task, on_progress, processes
        self._placement = choose_placement(settings.device, settings.precision)
        sizes = task.maker.sizes(task.graph.num_nodes)
        config = settings.network_config(task.order_choice.order, sizes)
        seeds = range(settings.seed, settings.seed + settings.num_members)
        self._networks = [config.build(sizes, seed).to(self._placement.device) for seed in seeds]
        self._windows = _windows_of(self._task.with_networks(self._networks), task.panel, self._placement)
        self._held_out = self._windows.predicting(task.split.validation)
        self._choosing = self._windows.predicting(task.split.choosing(task.maker.horizon))
        # Enough of them to choose a step by.
        self._looked_at = self._choosing.every(-(-len(self._choosing) * task.graph.num_nodes // MOST_LOOKED_AT))
        self._learned = learned = self._windows.predicting(task.split.training)
        planned: int | None = task.config.get(PLANNED_STEPS)
        self._wanted_steps = wanted_steps(settings, task)
        self._num_steps = planned or self._wanted_steps
        began = time.perf_counter()
        self._penalties = self._solve_skips(learned)
        self._seconds_to_solve = time.perf_counter() - began
        self._training = self._start(learned, self._num_steps)
        with parts_must_fit():
            first = slice(0, 1)
            self._training.members.evaluate(learned.batch(first)[0], learned.graph_at(first, task.graph))

    @property
    def num_steps(self) -> int:
        """Maximum number of steps, given or usual."""
        return self._num_steps

    @property
    def _batch_size(self) -> int:
        return windows_per_step(self._settings, self._task.graph.num_nodes)

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of the run folder."""
        return self._task.config

    def time_step(self, seconds: float = inf) -> StepTime:
        """Return how long a step takes, alone and with all that goes with it.

        Args:
            seconds: No further step is timed after these, except the first two.
        """
        # The first step that is recorded in a process takes a second longer: torch imports what it needs for that.
        RecordedStep.record(lambda: torch.ones(2).split([1, 1]))
        tried = self._start(self._learned, self._num_steps)
        each: list[float] = []
        began = time.perf_counter()
        while len(each) < STEPS_TO_WARM_UP + STEPS_TO_TIME:
            # Steps are shared: all processes end after the same one.
            if len(each) >= FEWEST_TO_TIME and self._processes.agree(time.perf_counter() - began > seconds):
                break
            at = time.perf_counter()
            tried.step()
            float(tried.last_losses().sum())  # wait for a device
            each.append(time.perf_counter() - at)
        of_step = fmean(each[max(1, len(each) - STEPS_TO_TIME) :])
        of_look = max(1.0, FORECAST_SHARE * len(self._looked_at) / min(self._batch_size, len(self._learned))) * of_step
        return StepTime(of_step, of_look, of_step + of_look / self._settings.validate_every)

    def plan_in(self, budget: TimeBudget) -> None:
        """Plan as many steps as fit into what is left of a time budget, and keep that in the run folder's settings."""
        step = self.time_step(budget.timed)
        reserved = self._seconds_besides + step.look * (1 + len(self._held_out) / len(self._looked_at))
        self.plan(budget.steps_of_training(step.in_all, self._num_steps, reserved))
        needed = self._processes.agree(budget.seconds_needed(step.in_all, reserved))
        if needed is not None:
            self._task = replace(self._task, config={**self._task.config, NEEDED_SECONDS: needed})

    @property
    def _seconds_besides(self) -> float:
        """About how long intervals and the skip of the second training take."""
        num_values = len(self._held_out) * self._held_out.targets[:1].numel()
        return self._seconds_to_solve + FEWEST_SECONDS + num_values / VALUES_IN_A_SECOND

    def plan(self, num_steps: int) -> None:
        """Make at most this many steps, and keep that in the settings of the run folder.

        Of several processes, the first one decides: each has measured another time.
        """
        num_steps = self._processes.agree(num_steps)
        self._task = replace(self._task, config={**self._task.config, PLANNED_STEPS: num_steps})
        self._num_steps = num_steps
        self._training = self._start(self._learned, num_steps)

    def try_out(self, stage: str, is_late: Callable[[int], bool] | None = None) -> float:
        """Train for all steps and return minus the loss on the held-out steps, the mean over the networks.

        The best step counts, as it does in `run`: of short series, the last one has often learned too much.

        Args:
            stage: Name of this stage of the work.
            is_late: Whether the training must end after a step, because no time is left. If None, never.
        """
        num_steps = self._num_steps
        self._on_progress(Progress(stage, 0, num_steps))
        result = fit(
            self._training,
            num_steps=num_steps,
            validate_every=self._settings.validate_every,
            patience=self._settings.patience,
            on_step=lambda step: self._on_progress(Progress(stage, step, num_steps)),
            is_late=is_late,
        )
        return float(result.best_scores.mean())

    def run(
        self, folder: RunFolder | None, on_look: Callable[[Look], object], budget: TimeBudget | None = None
    ) -> FittedForecaster:
        """Train, measure on the held-out steps, and train again on all steps.

        Args:
            folder: Folder to write to, if any.
            on_look: See `Forecaster.fit`.
            budget: The time that all of this may take. If None, there is no limit.
        """
        task, settings = self._task, self._settings
        if folder is not None:
            folder.settle(task.config)
        history: list[dict[str, Any]] = [] if folder is None else folder.read_history()

        def see(look: Look) -> None:
            history.append(look.to_record())
            on_look(look)

        self._on_progress(Progress(TRAINING, 0, self._num_steps))
        late = None if budget is None else Lateness(budget, self._seconds_besides, 1, budget.seconds)
        result = fit(
            self._training,
            num_steps=self._num_steps,
            validate_every=settings.validate_every,
            patience=settings.patience,
            on_step=lambda step: self._on_progress(Progress(TRAINING, step, self._num_steps)),
            on_look=see,
            run=folder,
            is_late=None if late is None else (lambda step: self._processes.agree(late(step))),
        )
        if not result.best_scores.isfinite().all():
            raise TrainingError("Expected forecasts that are numbers, got none. Lower the learning rate or step size.")
        best_step = int(median_low(result.best_steps.tolist()))
        self._on_progress(Progress(INTERVALS, 0, 1))
        lowest = settings.lowest_of(are_counts=are_counts(task.panel))
        forecasts = task.with_networks(_members_of(self._training)).forecast(self._held_out, lowest=lowest)
        cut_short = self._cut_short(result)
        measured = HeldOut.measure(settings, task.panel, task.split, self._held_out, forecasts, task.maker, cut_short)
        self._on_progress(Progress(INTERVALS, 1, 1))
        num_again = best_step if late is None else self._steps_again(best_step, late, folder)
        ensemble = self._learn_again(num_again)
        fitted = FittedForecaster(
            ensemble,
            tail_of(task.panel, task.maker.window),
            measured.intervals,
            ensemble.mean_coefficients(self._windows),
            task.order_choice,
            task.config,
            history,
            self._summarize(best_step, measured, self._notes_of_budget(result, best_step, num_again)),
            measured.kept,
        )
        if folder is not None:
            fitted.write(folder)
        return fitted

    def _cut_short(self, result: FitResult) -> CutShort | None:
        """Return what to know about a training with fewer steps than usual. None for any other."""
        if result.was_late or self._num_steps < self._wanted_steps:
            return CutShort(result.steps[-1], Argument("time_budget"))
        if self._num_steps < FEWEST_STEPS:
            return CutShort(self._num_steps, Argument("num_steps", option="steps"))
        return None

    def _steps_again(self, best_step: int, late: Lateness, folder: RunFolder | None) -> int:
        """Return the number of steps of the second training, and keep it if it is not the best step."""
        found = None if folder is None else folder.read_checkpoint()
        kept: int | None = None if found is None else found.values.get(STEPS_AGAIN)
        if kept is not None:
            return kept
        num_steps = self._processes.agree(late.steps_again(best_step, self._seconds_to_solve))
        if folder is not None and num_steps < best_step:
            folder.keep_value(STEPS_AGAIN, num_steps)
        return num_steps

    def _notes_of_budget(self, result: FitResult, best_step: int, num_again: int) -> list[str]:
        """Return what a time budget has changed."""
        notes, needed = [], self._task.config.get(NEEDED_SECONDS)
        if needed is not None:
            notes.append(
                f"The time budget is too small: a fit with the fewest steps, {self._num_steps}, takes about "
                f"{ceil(needed)} s here."
            )
        if result.was_late:
            notes.append(
                f"The training was slower than planned: it ended after {result.steps[-1]} of {self._num_steps} steps, "
                "to keep the time budget."
            )
        if num_again < best_step:
            notes.append(
                f"The second training, on all steps, made {num_again} of {best_step} steps, to keep the time budget."
            )
        return notes

    def _learn_again(self, num_steps: int) -> Ensemble:
        """Train on all steps, for the best number of steps: the newest data matter most for the future."""
        everything = self._windows.predicting(range(self._task.panel.num_steps))
        self._solve_skips(everything, self._penalties)
        again = self._start(everything, num_steps)
        self._on_progress(Progress(TRAINING_AGAIN, 0, num_steps))
        for step in range(1, num_steps + 1):
            again.step()
            self._on_progress(Progress(TRAINING_AGAIN, step, num_steps))
        _check_numbers(again, "all steps")
        return self._task.with_networks(_members_of(again))

    def _solve_skips(self, learned: WindowSet, penalties: Penalties | None = None) -> Penalties | None:
        if not isinstance(getattr(self._networks[0], "skip", None), LinearSkip):
            return None
        self._on_progress(Progress(LINEAR, 0, 1))
        # Judged as in training: nodes count the same, whatever their units.
        units = np.ones_like(self._task.maker.target_scales)
        chosen = start_at_ridge(self._networks, learned, self._choosing, self._task.graph, units, penalties)
        self._on_progress(Progress(LINEAR, 1, 1))
        return chosen

    def _start(self, learned: WindowSet, num_steps: int) -> SeriesTraining:
        ensemble = self._task.with_networks(self._networks)
        loss = self._settings.make_loss(self._task.panel)
        return start_training(
            self._settings, ensemble, learned, self._looked_at, self._placement, loss, num_steps, self._processes
        )

    def _summarize(self, best_step: int, measured: HeldOut, notes_of_budget: Sequence[str]) -> dict[str, Any]:
        task, features = self._task, self._task.node_features
        errors = {name: each._asdict() for name, each in measured.errors.items()}
        return {
            "best_step": best_step,
            "window": task.maker.window,
            "order": task.order_choice.order,
            "held_out": {"steps": measured.num_judged, "chose_nothing": measured.chose_nothing, **errors},
            "intervals": measured.facts,
            "notes": [
                *task.panel.notes,
                *(() if features is None else features.notes),
                *([task.order_choice.reason] if task.order_choice.reason else []),
                *notes_of_choice(task.network, has_edges=task.panel.has_edges),
                *notes_of_budget,
                *notes_of_settings(self._settings, task.panel, task.maker.horizon),
                *measured.notes,
            ],
        }


def try_network(
    settings: ForecasterSettings,
    task: ForecastTask,
    name: str,
    record: TrialRecord,
    times: TrialTime | None,
    on_progress: OnProgress = ignore,
    processes: Processes = ALONE,
    fewest: int = 0,
) -> float | None:
    """Train a network for some steps and return its score on the held-out steps. None if there is no time for it.

    Args:
        settings: The settings of the forecaster, with those of the network.
        task: The data.
        name: The name of the trial.
        record: What was decided about trials so far. This one is added.
        times: The time for trials. If None, there is no limit.
        on_progress: See `Forecaster.fit`.
        processes: Who trains. Default: this process alone.
        fewest: With fewer steps it says nothing.
    """
    if name in record.scores:
        return record.scores[name]
    planned = record.steps.get(name)
    if times is not None and planned is None:
        sizes = task.maker.sizes(task.graph.num_nodes)
        skip = settings.network_config(task.order_choice.order, sizes).skip
        if not processes.agree(times.begin(seconds_to_solve(skip, sizes, len(task.split.training)))):
            planned = 0
    training = None if planned == 0 else ForecasterTraining(settings, task, on_progress, processes)
    late = None
    if times is not None and training is not None:
        if planned is None:
            step = training.time_step(times.budget.timed)
            most = training.num_steps
            planned = processes.agree(times.steps(step.looked_at, step.look, most, max(fewest, FEWEST_PLANNED)))
            late = times.lateness(planned * step.looked_at + step.look)
        if planned:
            training.plan(planned)
    if times is not None and planned is not None:
        times.end(was_made=planned > 0)
        record.plan(name, planned)
    if training is None or planned == 0:
        return None
    is_late = None if late is None else (lambda step: processes.agree(late(step)))
    score = training.try_out(f"trying {name}", is_late=is_late)
    record.finish(name, score)
    return score


def train_further(
    settings: ForecasterSettings,
    fitted: FittedForecaster,
    panel: Panel,
    num_steps: int,
    on_progress: OnProgress = ignore,
) -> FittedForecaster:
    """Return a forecaster whose training continued with new data.

    Args:
        settings: Learning rates, device and precision.
        fitted: The result of the training so far. It does not change.
        panel: The series up to now, in the steps of the training.
        num_steps: Number of optimizer steps.
        on_progress: See `Forecaster.update`.
    """
    # The precision of the training, which a run folder keeps, though the settings may have changed since.
    placement = choose_placement(settings.device, fitted.config["settings"]["precision"])
    windows = _windows_of(fitted.ensemble, panel, placement)
    learned = windows.predicting(range(panel.num_steps))
    # Rates stay as they are: the training ended with low ones, and what it learned is to be kept.
    loss = settings.make_loss(panel)
    training = start_training(settings, fitted.ensemble, learned, learned, placement, loss, None)
    on_progress(Progress(TRAINING, 0, num_steps))
    for step in range(1, num_steps + 1):
        training.step()
        on_progress(Progress(TRAINING, step, num_steps))
    _check_numbers(training, "new steps")
    networks = tuple(_members_of(training))
    # Of a panel without a graph, that of the training is known.
    graph = fitted.ensemble.graph if panel.graph_steps is None else panel.graph_steps.newest
    ensemble = replace(fitted.ensemble, networks=networks, graph=graph)
    tail = tail_of(panel, ensemble.maker.window)
    # Followed by the networks as they were: they have not learned from the new steps.
    intervals = None if fitted.intervals is None else fitted.follow(panel, fitted.lowest_of(settings))
    coefficients = ensemble.mean_coefficients(windows)
    notes = dict.fromkeys([*fitted.summary["notes"], *notes_of_update(panel, fitted.tail)])
    return replace(
        fitted,
        ensemble=ensemble,
        tail=tail,
        intervals=intervals,
        coefficients=coefficients,
        summary={**fitted.summary, "notes": list(notes)},
    )


def start_training(
    settings: ForecasterSettings,
    ensemble: Ensemble,
    learned: WindowSet,
    held_out: WindowSet,
    placement: Placement,
    loss: Loss,
    num_steps: int | None,
    processes: Processes = ALONE,
) -> SeriesTraining:
    """Return a training of the networks of a forecaster, before its first step.

    Args:
        settings: How they learn.
        ensemble: The networks, as they start.
        learned: Windows to learn from.
        held_out: Windows to choose the step by.
        placement: Device and precision.
        loss: What forecasts pay, in training and on the held-out windows.
        num_steps: Number of steps of the schedule. If None, learning rates are constant.
        processes: Who trains. Default: this process alone.
    """
    num_nodes = ensemble.graph.num_nodes
    # The skip is that of the networks: the settings may have changed since they were made.
    skip = getattr(ensemble.networks[0], "skip", None)
    config = settings.network_config(1, ensemble.maker.sizes(num_nodes))
    descent = replace(config, skip="none" if skip is None else skip).descent
    return SeriesTraining(
        ensemble.networks,
        [descent] * len(ensemble.networks),
        ensemble.graph,
        learned,
        held_out,
        batch_size=windows_per_step(settings, num_nodes),
        placement=placement,
        seed=settings.seed,
        loss=loss,
        judged_by=loss,
        schedule=settings.schedule,
        num_steps=num_steps,
        processes=processes,
    )


def windows_per_step(settings: ForecasterSettings, num_nodes: int) -> int:
    """Return the number of windows of a training step, given or usual."""
    return settings.batch_size or max(1, min(WINDOWS_PER_STEP, ROWS_PER_STEP // num_nodes))


def wanted_steps(settings: ForecasterSettings, task: ForecastTask) -> int:
    """Return the number of steps of a whole training without a time budget, given or usual.

    The usual ones show each window a usual number of times, within limits.
    """
    num_windows = len(task.split.training) - task.maker.horizon + 1
    num_batches = max(1, num_windows // windows_per_step(settings, task.graph.num_nodes))
    return settings.num_steps or min(MOST_STEPS, max(FEWEST_STEPS, NUM_EPOCHS * num_batches))


def _windows_of(ensemble: Ensemble, panel: Panel, placement: Placement) -> WindowSet:
    return ensemble.maker.windows(
        panel, node_features=ensemble.node_features, device=placement.device, dtype=placement.dtype
    )


def _members_of(training: SeriesTraining) -> list[ForecastNetwork]:
    """Return networks with the weights of the members, as they are now."""
    return [cast(ForecastNetwork, training.members.network(member)) for member in range(len(training.members))]


def _check_numbers(training: SeriesTraining, learned_from: str) -> None:
    if not training.members.weights.isfinite().all():
        raise TrainingError(
            f"Expected weights that are numbers after learning from {learned_from}, got others. Lower the learning "
            "rate."
        )
