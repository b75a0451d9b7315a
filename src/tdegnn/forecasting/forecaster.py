"""`Forecaster`: a table of series and a graph in, forecasts with intervals out, compared with naive forecasts.

`fit` scales, holds out the end of the series, trains a few networks at once, chooses the step by the held-out windows,
measures intervals and naive forecasts on them, and trains again on everything for as many steps. A saved forecaster is
the folder of its training: it holds the graph and the last window, so that forecasts can continue from there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Float

from tdegnn.analysis.report import CoefficientReport
from tdegnn.data.panel import Panel, as_panel
from tdegnn.data.scalers import Per
from tdegnn.data.tables.node_features import NodeFeatures, NodeFeaturesSource, read_node_features
from tdegnn.data.tables.panel_like import PanelLike
from tdegnn.errors import Argument, InputError, check_count
from tdegnn.forecasting.backtests.result import Backtest
from tdegnn.forecasting.fitted import FittedForecaster, describe_data, describe_frames, graph_of
from tdegnn.forecasting.forecast import Forecast
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.held_out import (
    LONGEST_WINDOW,
    check_to_learn_from,
    choose_window,
    split_for_forecast,
    threads_for,
)
from tdegnn.forecasting.inputs import check_goes_on, check_seen, in_steps_of, read_like
from tdegnn.forecasting.intervals import Intervals, check_coverage
from tdegnn.forecasting.series_config import ForecastNetwork
from tdegnn.forecasting.settings import ForecasterSettings
from tdegnn.forecasting.stages import ORDER_SEARCH, TRAINING
from tdegnn.forecasting.time_budget import TimeBudget, TrialTime
from tdegnn.forecasting.training import (
    NEEDED_SECONDS,
    PLANNED_STEPS,
    ForecasterTraining,
    ForecastTask,
    TriedOut,
    train_further,
    try_network,
    wanted_steps,
)
from tdegnn.forecasting.usual_networks import (
    FOR_LONGER,
    NETWORK_SETTINGS,
    SCORES_KEPT,
    TRIAL_STEPS,
    TRIAL_STEPS_KEPT,
    USUAL_NETWORKS,
    TrialRecord,
    choose_tried,
    count_trials,
    try_networks,
)
from tdegnn.graph import Graph
from tdegnn.markup import Page
from tdegnn.not_fitted import NotFittedError
from tdegnn.parts import PartLike
from tdegnn.runs.hub import find_folder
from tdegnn.runs.run_folder import RunFolder, keep_decisions
from tdegnn.training.callbacks import Callback, Outcome, following
from tdegnn.training.loop import Look
from tdegnn.training.network_choice import ChosenNetwork, given_settings, without_given
from tdegnn.training.order_choice import AUTO, ChosenOrder
from tdegnn.training.processes import ALONE, Processes, join_processes
from tdegnn.training.progress import OnProgress, Progress, ignore
from tdegnn.training.shared_run import begin_shared_run

# Number of steps of the longest window that is embedded as a whole, unless the user says otherwise.
LONGEST_EMBEDDED = 48

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch.export import ExportedProgram


@dataclass(kw_only=True, repr=False, eq=False)
class Forecaster(ForecasterSettings):
    """Forecasts of series on a graph. Its settings are those of `ForecasterSettings`.

    The result of training is `fitted_`. Each attribute that ends with an underscore is read from there, so that a
    `fit` or `update` that fails does not change the forecaster.
    """

    def fit(
        self,
        panel: PanelLike,
        *,
        node_features: NodeFeaturesSource = None,
        run: str | Path | None = None,
        resume: bool = False,
        source: Mapping[str, Any] | None = None,
        on_look: Callable[[Look], object] = lambda _: None,
        on_progress: OnProgress = ignore,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn to forecast a panel.

        Processes that `torchrun` started, or that are joined by `torch.distributed`, train together: each calls `fit`
        with the same arguments. The first of them writes to `run` and calls `on_look`, `on_progress` and the callbacks.

        Args:
            panel: The series, as a panel or a pandas or polars frame, which is read as by `read_panel`. If there is no
                graph, as in a frame, each node is forecast by itself. If edges change, each window is forecast on the
                graph of its last observed step.
            node_features: Features of the nodes that do not change in time: a CSV or Parquet file, a frame, or a
                mapping such as `{"Paris": {"population": 2.1}}`. They are stored: `predict` does not need them again.
            run: Folder to write settings, metrics, weights and checkpoints to. It exists from the start, and keeps
                what is decided before the training. A finished one can be loaded.
            resume: Whether to continue in `run`, wherever the work was interrupted. If there is none, a new one begins.
            source: Where the data came from, stored in the settings of the run folder.
            on_look: Called with the result of each validation on the held-out windows.
            on_progress: Called at the start of each stage of the work and after each of its steps, with the stage (the
                window search, networks that are tried, the linear forecast, the training, errors and intervals, the
                second training on all steps), the number of its finished steps and of all of them.
            callbacks: Told about settings, validations of the training, and the result: see `Callback`.
        """
        panel = as_panel(panel)
        self.check_settings()
        check_to_learn_from(panel, self.lowest)
        budget = None if self.time_budget is None else TimeBudget.start(self.time_budget)
        features = self._read_features(node_features, panel)
        settings = self.to_record()
        known: dict[str, Any] = {
            "kind": type(self).__name__,
            "settings": settings,
            "data": describe_data(panel, features, copy.deepcopy(dict(source or {}))),
        }
        processes = join_processes()
        # Files may be elsewhere on another machine.
        data = {name: value for name, value in known["data"].items() if name not in (source or {})}
        processes.check_same([settings, data], "settings and data")
        if not processes.is_first:
            callbacks, on_look, on_progress = (), (lambda _: None), ignore
        with following(callbacks, type(self).__name__, settings, on_look) as followers:
            # Before any long work: whatever happens from now on, the fit can be resumed.
            with threads_for(panel), begin_shared_run(run, known, resume=resume, processes=processes) as folder:
                task = self._prepare(panel, features, known, folder, on_progress, processes)
                task = self._with_usual_network(task, folder, budget, on_progress, processes)
                if folder is not None and folder.is_finished:
                    from tdegnn.forecasting.read_back import read_forecaster
                    from tdegnn.forecasting.schema import check_config

                    folder.settle(task.config)
                    fitted = read_forecaster(folder, check_config(folder, type(self)), self)
                else:
                    training = ForecasterTraining(self.with_network(task.network), task, on_progress, processes)
                    if budget is not None and PLANNED_STEPS not in task.config:
                        training.plan_in(budget)
                    keep_decisions(folder, training.config)
                    fitted = training.run(folder, followers.on_look, budget)
            self.fitted_ = fitted
            followers.outcome = Outcome(self.summary_, self.coefficients_, fitted.explain().verdict)
        return self

    def try_out(self, panel: PanelLike, *, node_features: NodeFeaturesSource = None) -> TriedOut:
        """Return how good these settings are on the held-out steps, as a search compares them. Nothing is kept.

        The series is split as by `fit`, and the training is the first half of it.

        Args:
            panel: The series, as a panel or a frame.
            node_features: Features of the nodes, as in `fit`.
        """
        panel = as_panel(panel)
        self.check_settings()
        check_to_learn_from(panel, self.lowest)
        features = self._read_features(node_features, panel)
        with threads_for(panel):
            task = self._prepare(panel, features, {"data": {}}, None, ignore, ALONE)
            task = self._with_usual_network(task, None, None, ignore, ALONE)
            training = ForecasterTraining(self.with_network(task.network), task)
            return TriedOut(-training.try_out(TRAINING), task.maker.window)

    def predict(
        self,
        horizon: int | None = None,
        *,
        panel: PanelLike | None = None,
        future: PanelLike | None = None,
        coverage: float | None = None,
        quantiles: Sequence[float] = (),
    ) -> Forecast:
        """Forecast the steps after the end of a panel.

        Args:
            horizon: Number of steps. Defaults to the training horizon. Further steps are forecast from the forecasts
                before them, and their intervals widen as those within the training horizon do.
            panel: The series up to now, as a panel or a frame. Defaults to the panel of the training.
            future: The channels of `known` in the steps to forecast, as a panel or a frame. If the horizon of the
                networks is longer, they repeat the last values.
            coverage: Share of the observations that the intervals should contain. Defaults to that of the training.
            quantiles: Levels of quantiles to forecast too, such as `[0.1, 0.5, 0.9]`. See `Forecast.quantiles`.
        """
        fitted = self._check_fitted()
        if coverage is not None:
            check_coverage(coverage)
        levels = tuple(float(level) for level in np.atleast_1d(quantiles))
        for level in levels:
            check_coverage(level, "a quantile")
        horizon = fitted.ensemble.maker.horizon if horizon is None else horizon
        check_count(horizon=horizon)
        seen = fitted.tail if panel is None else check_seen(panel, fitted.tail, fitted.ensemble.maker.window)
        ahead = None if future is None else read_like(future, fitted.tail, fitted.ensemble.maker.known)
        with threads_for(seen):
            lowest = fitted.lowest_of(self)
            return fitted.predict(seen, horizon, ahead, lowest, coverage=coverage, quantiles=levels)

    def score(self, panel: PanelLike) -> float:
        """Return R squared of the forecasts of the steps after the training: 1 is perfect, 0 is as good as the mean.

        All steps of the horizon from all origins after the training count. It is the mean over nodes and targets, as in
        scikit-learn, except those that do not change. `backtest` says more: it also measures naive forecasts.

        Args:
            panel: The series up to now, as a panel or a frame. Steps of the training may be among them, and are not
                scored.
        """
        from tdegnn.forecasting.score import score_newer

        fitted = self._check_fitted()
        seen = check_seen(panel, fitted.tail, fitted.ensemble.maker.window)
        with threads_for(seen):
            return score_newer(fitted, seen, fitted.lowest_of(self))

    def update(self, panel: PanelLike, num_steps: int = 30, *, on_progress: OnProgress = ignore) -> Self:
        """Continue training with new data, from the current weights.

        Scales, window, intervals, precision and a linear skip stay as they are. Learning rates, batch size and device
        are those of the settings as they are now.

        Args:
            panel: The series up to now, including old steps, as a panel or a frame. The more old steps, the less is
                forgotten.
            num_steps: Number of optimizer steps.
            on_progress: Called at the start of the training and after each step.
        """
        fitted = self._check_fitted()
        self.check_settings()
        check_count(num_steps=num_steps)
        maker = fitted.ensemble.maker
        panel = check_goes_on(panel, fitted.tail, maker.window, maker.horizon)
        with threads_for(panel):
            built = self.with_network(ChosenNetwork.kept_in(fitted.config))
            self.fitted_ = train_further(built, fitted, panel, num_steps, on_progress)
        return self

    def backtest(
        self,
        panel: PanelLike,
        *,
        node_features: NodeFeaturesSource = None,
        against: Sequence[PartLike] | None = None,
        num_folds: int | None = None,
        stride: int | None = None,
        refit: bool = False,
        on_method: Callable[[str], object] = lambda _: None,
        on_progress: OnProgress = ignore,
    ) -> Backtest:
        """Measure the forecasts of these settings as if the series had ended earlier. `fitted_` does not change.

        All methods are trained on the steps before the first origin, and forecast from each origin with the data up to
        there.

        Args:
            panel: The series, as a panel or a frame.
            node_features: Features of the nodes, as in `fit`.
            against: What to compare with: names such as `"ridge"` or `"dcrnn"` (see
                `forecasting/contenders/registry.py`), your own classes of `Contender`, or a `Part` of these with
                settings. If None, the naive forecasts.
            num_folds: Number of origins. The last one is `horizon` steps before the end. If None, as many as there are
                in the last fifth of the series; 3 with `refit`.
            stride: Steps from one origin to the next. If None, the horizon if `num_folds` or `refit` is given, else 1,
                or more to keep to 500 origins.
            refit: Whether to train anew for each origin.
            on_method: Called with the name of each method before it is trained.
            on_progress: Called at the start of each stage and after each of its steps, for a progress bar: those of the
                fit, with the name of the forecaster before them, its forecasts, and one stage for each other method.
        """
        from tdegnn.forecasting.backtest import run_backtest  # imports all that it compares with

        panel = as_panel(panel)
        if self.is_fitted:
            panel = in_steps_of(panel, self.fitted_.tail)
        features = self._read_features(node_features, panel)
        return run_backtest(
            self,
            panel,
            features,
            against=against,
            num_folds=num_folds,
            stride=stride,
            refit=refit,
            on_method=on_method,
            on_progress=on_progress,
        )

    def plot(
        self,
        horizon: int | None = None,
        *,
        panel: PanelLike | None = None,
        future: PanelLike | None = None,
        nodes: Sequence[str] | None = None,
    ) -> Figure:
        """Draw the end of the series and the forecast, for some nodes."""
        from tdegnn.forecasting.plots import plot_forecast

        tail = self._check_fitted().tail
        seen = None if panel is None else read_like(panel, tail)
        forecast = self.predict(horizon, panel=seen, future=future)
        return plot_forecast(tail if seen is None else seen, forecast, nodes)

    def explain(self) -> CoefficientReport:
        """Return the analysis of the learned coefficients, averaged over layers and networks.

        On latent states they show how the network integrates, not how the data evolve. On physical states they show
        which differential equation the data follow.
        """
        return self._check_fitted().explain()

    def report(self, panel: PanelLike | None = None, *, coordinates: Any = None) -> Page:
        """Return a page about this forecaster: errors, forecasts of each node, and what c means. See `docs/report.md`.

        Args:
            panel: The series of the training. Errors of a ridge regression on the held-out steps are shown if it is
                given. A forecaster keeps the end of the series only.
            coordinates: Where the nodes are, as a table that `read_coordinates` takes. If None, the graph is drawn.
        """
        fitted = self._check_fitted()
        # By name: reports look down on this room.
        make = import_module("tdegnn.reports.of_forecaster").report_forecaster
        with threads_for(fitted.tail):
            made: Page = make(fitted, fitted.lowest_of(self), panel, coordinates)
        return made

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a new run folder, which `load` reads.

        If this is interrupted, the folder counts as empty: save again.
        """
        fitted = self._check_fitted()
        self.check_lowest()
        with RunFolder.create(path, fitted.to_config(self.lowest), is_saved=True) as folder:
            for line in fitted.history:
                folder.append_metrics(line)
            fitted.write(folder)

    def save_pretrained(self, path: str | Path) -> None:
        """Write the forecaster as a folder of the Hugging Face hub, which is a run folder: the same as `save`."""
        self.save(path)

    def exported_inputs(self, panel: PanelLike | None = None) -> dict[str, np.ndarray]:
        """Return what an exported forecaster takes to forecast the steps after a panel: `values` and `calendar`.

        Args:
            panel: The series up to now, as a panel or a frame. Defaults to the panel of the training.
        """
        from tdegnn.forecasting.exported import exported_inputs

        fitted = self._check_fitted()
        seen = fitted.tail if panel is None else check_seen(panel, fitted.tail, fitted.ensemble.maker.window)
        return exported_inputs(fitted, seen)

    def to_exported_program(self) -> ExportedProgram:
        """Return a program of `torch.export` from a window to the forecast of the training horizon, without intervals.

        Its inputs, `values` and `calendar`, are those of `exported_inputs`. Graph and scales are parts of the program.
        """
        from tdegnn.forecasting.exported import export_forecaster

        fitted = self._check_fitted()
        return export_forecaster(fitted, fitted.lowest_of(self))

    def to_onnx(self, path: str | Path) -> Path:
        """Write what `to_exported_program` returns as an ONNX file. Needs the packages of the extra `onnx`."""
        from tdegnn.export import write_onnx

        return write_onnx(self.to_exported_program(), path)

    @classmethod
    def from_pretrained(cls, name: str | Path, *, revision: str | None = None, **own: PartLike) -> Self:
        """Read a forecaster from a folder, or from a repository of the Hugging Face hub.

        Args:
            name: The folder, or `owner/name`, which needs `huggingface_hub`.
            revision: A branch, tag or commit of the repository. If None, its newest state.
            own: Classes of your own, as for `load`.
        """
        return cls.load(find_folder(name, revision), **own)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        coefficients: PartLike | None = None,
        operator: PartLike | None = None,
        state_norm: PartLike | None = None,
        readout: PartLike | None = None,
        skip: PartLike | None = None,
        loss: PartLike | None = None,
        intervals: PartLike | None = None,
    ) -> Self:
        """Read a forecaster that `save`, or `fit` with a run folder, wrote.

        Args:
            path: The folder.
            coefficients: Your own rule for c, if the forecaster was trained with one.
            operator: Your own spatial term, if the forecaster was trained with one.
            state_norm: Your own state norm, if the forecaster was trained with one.
            readout: Your own readout, if the forecaster was trained with one.
            skip: Your own skip, if the forecaster was trained with one.
            loss: Your own loss, if the forecaster was trained with one.
            intervals: Your own method for intervals, if the forecaster was trained with one.
        """
        from tdegnn.forecasting.read_back import read_forecaster
        from tdegnn.forecasting.schema import check_config

        folder = RunFolder.open_finished(Path(path), kind=cls.__name__)
        given = dict(
            coefficients=coefficients,
            operator=operator,
            state_norm=state_norm,
            readout=readout,
            skip=skip,
            loss=loss,
            intervals=intervals,
        )
        config = check_config(folder, cls)
        loaded = cls.from_record(config["settings"], **given)
        loaded.check_settings()
        loaded.fitted_ = read_forecaster(folder, config, loaded)
        return loaded

    @property
    def is_fitted(self) -> bool:
        """Return whether the forecaster was fitted or loaded."""
        return hasattr(self, "fitted_")

    @property
    def networks_(self) -> tuple[ForecastNetwork, ...]:
        """The networks whose mean is the forecast."""
        return self._check_fitted().ensemble.networks

    @property
    def coefficients_(self) -> Float[np.ndarray, "layers order"]:
        """The learned c, averaged over the networks."""
        return self._check_fitted().coefficients.copy()

    @property
    def order_(self) -> int:
        """The length of the history, given or chosen."""
        return self.order_choice_.order

    @property
    def order_choice_(self) -> ChosenOrder:
        """The length of the history, and the reason for it."""
        return self._check_fitted().order_choice

    @property
    def network_choice_(self) -> ChosenNetwork | None:
        """Which of the usual networks it is, and why. None if the settings of the network were given."""
        return ChosenNetwork.kept_in(self._check_fitted().config)

    @property
    def summary_(self) -> dict[str, Any]:
        """Best step, window, order, held-out errors of the forecaster and of naive forecasts, and notes."""
        return copy.deepcopy(self._check_fitted().summary)

    @property
    def notes_(self) -> list[str]:
        """Remarks for the user: gaps, a series that is too short, naive forecasts that are as good."""
        notes: list[str] = self.summary_["notes"]
        return notes

    @property
    def best_step_(self) -> int:
        """The step that was best on the held-out windows."""
        best_step: int = self.summary_["best_step"]
        return best_step

    @property
    def planned_steps_(self) -> int | None:
        """Maximum number of steps that fitted into the time budget. None without a budget."""
        planned: int | None = self._check_fitted().config.get(PLANNED_STEPS)
        return planned

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Step, loss and score of each validation on the held-out windows."""
        return copy.deepcopy(self._check_fitted().history)

    @property
    def intervals_(self) -> Intervals | None:
        """Intervals around the forecasts. None if there were too few held-out steps."""
        return self._check_fitted().intervals

    @property
    def maker_(self) -> FrameMaker:
        """Makes the frames of a panel."""
        return self._check_fitted().ensemble.maker

    @property
    def graph_(self) -> Graph:
        """The graph of the nodes."""
        return self._check_fitted().ensemble.graph

    @property
    def node_features_(self) -> NodeFeatures | None:
        """Features of the nodes, if any."""
        return self._check_fitted().ensemble.node_features

    def _prepare(
        self,
        panel: Panel,
        features: NodeFeatures | None,
        known: Mapping[str, Any],
        folder: RunFolder | None,
        on_progress: OnProgress,
        processes: Processes,
    ) -> ForecastTask:
        """Choose window and order, hold out the end, and learn how frames are made. A run folder keeps the choices."""
        # Physical states are what is forecast and nothing else.
        seasons = () if self.states == "physical" else self.seasons_of(panel.times)
        kept = {} if folder is None else folder.config
        window = kept.get("frames", {}).get("window") if self.window is None else self.window
        if window is None:
            window = processes.agree(choose_window(panel, self.horizon, seasons, self._window_limits, on_progress))
        split = split_for_forecast(panel.num_steps, window, self.horizon)
        training = panel[: split.training.stop]
        per: Per = "all" if self.states == "physical" else "node"
        maker = FrameMaker.fit(training, window, self.horizon, seasons=seasons, known=self.known, per=per)
        config = describe_frames(known, panel, maker)
        keep_decisions(folder, config)
        kept_order = ChosenOrder.kept_in(kept) if self.order == AUTO else None
        if self.order == AUTO and kept_order is None:
            if panel.graph_steps is not None:
                raise InputError(
                    "Expected one graph to find the order of series on, got edges that change. Give ",
                    Argument("order"),
                    " as a number.",
                )
            on_progress(Progress(ORDER_SEARCH, 0, 1))
        order_choice = kept_order or processes.agree(self.choose_order(training, window))
        if self.order == AUTO:
            config |= order_choice.to_config()
        later = (TRIAL_STEPS_KEPT, SCORES_KEPT, PLANNED_STEPS, NEEDED_SECONDS)
        config |= {name: kept[name] for name in later if name in kept}
        keep_decisions(folder, config)
        if features is not None:
            maker = maker.with_node_features(features)
        return ForecastTask(panel, split, maker, graph_of(panel), features, order_choice, config)

    @property
    def _window_limits(self) -> tuple[int, int]:
        """The shortest and the longest window to try.

        A layer sees more in a window than a ridge regression, which prefers short ones; the calendar says what a long
        one would.
        """
        if self.states != "windows":
            return 1, LONGEST_WINDOW
        return min(self.horizon, LONGEST_EMBEDDED), LONGEST_EMBEDDED

    def _with_usual_network(
        self,
        task: ForecastTask,
        folder: RunFolder | None,
        budget: TimeBudget | None,
        on_progress: OnProgress,
        processes: Processes,
    ) -> ForecastTask:
        """Return the task with the usual network to train, if any. A run folder keeps it."""
        kept = None if folder is None else ChosenNetwork.kept_in(folder.config)
        record = TrialRecord.kept_in(task.config, lambda entries: keep_decisions(folder, {**task.config, **entries}))
        network = kept or self._choose_network(task, record, budget, on_progress, processes)
        if network is None:
            return task
        config = {**task.config, **record.to_config(), **network.to_config()}
        keep_decisions(folder, config)
        return replace(task, config=config, network=network)

    def _choose_network(
        self,
        task: ForecastTask,
        record: TrialRecord,
        budget: TimeBudget | None,
        on_progress: OnProgress,
        processes: Processes,
    ) -> ChosenNetwork | None:
        """Return the usual network to train, given or chosen. None for the settings as given."""
        given = given_settings(self, ForecasterSettings)
        if self.network is None or (self.network == AUTO and given & {*NETWORK_SETTINGS}):
            return None
        networks = without_given(USUAL_NETWORKS, given)
        if self.network != AUTO:
            return ChosenNetwork(self.network, networks[self.network])

        has_edges, num_nodes = task.panel.has_edges, task.graph.num_nodes
        times = None if budget is None else TrialTime(budget, count_trials(has_edges=has_edges, num_nodes=num_nodes))

        def score_of(name: str, num_steps: int) -> float | None:
            tried = self.with_network(ChosenNetwork(name, networks[name]))
            tried.num_members, tried.num_steps = 1, num_steps
            is_longer = num_steps > TRIAL_STEPS
            # A longer trial of as many steps as the short one would say the same.
            fewest = 2 * record.steps.get(name, 0) if is_longer else 0
            trial = f"{name}{FOR_LONGER if is_longer else ''}"
            return try_network(tried, task, trial, record, times, on_progress, processes, fewest)

        most = wanted_steps(self, task)
        trials = try_networks(score_of, has_edges=has_edges, num_nodes=num_nodes, num_steps=most)
        return choose_tried(networks, trials)

    def _read_features(self, source: NodeFeaturesSource, panel: Panel) -> NodeFeatures | None:
        if source is None:
            return None
        if self.states == "physical":
            raise InputError(
                "Expected no node features with physical states, which are what is forecast and nothing else. Leave ",
                Argument("node_features"),
                " out.",
            )
        return read_node_features(source, panel)

    def _check_fitted(self) -> FittedForecaster:
        """Return `fitted_`. Raise a `NotFittedError` if there is none."""
        if not self.is_fitted:
            raise NotFittedError.of(self)
        return self.fitted_
