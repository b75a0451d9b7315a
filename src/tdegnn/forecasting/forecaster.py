"""`Forecaster`: a table of series and a graph in, forecasts with intervals out, and naive forecasts always beside them.

`fit` scales, holds out the end of the series, trains a few networks at once, chooses the step by the held-out windows,
measures intervals and naive forecasts on them, and trains again on everything for as many steps. A saved forecaster is
the folder of its training: it knows the graph and the last window, so that it can go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, LOOSE_TOLERANCE
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError, TrainingError, check_count
from tdegnn.forecasting.backtest import Backtest, run_backtest
from tdegnn.forecasting.fitted import (
    ForecastNetwork,
    ForecastNetworks,
    describe_forecast_data,
    graph_of,
    keep_forecast_data,
    members_of,
    read_forecast_data,
    tail_of,
)
from tdegnn.forecasting.forecast import Forecast
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.held_out import (
    ForecastSplit,
    HeldOut,
    choose_window,
    notes_of_settings,
    split_for_forecast,
    threads_for,
)
from tdegnn.forecasting.inputs import (
    check_goes_on,
    check_is_panel,
    check_seen,
    check_to_learn_from,
    cover_blocks,
    in_steps_of,
)
from tdegnn.forecasting.intervals import ConformalIntervals
from tdegnn.forecasting.linear_skip import Penalties, start_at_ridge
from tdegnn.forecasting.node_features import NodeFeatures, NodeFeaturesSource, read_node_features
from tdegnn.forecasting.plots import plot_forecast
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.forecasting.settings import ForecasterSettings
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.devices import Placement, choose_placement, place
from tdegnn.training.loop import Look, fit
from tdegnn.training.members import take_weights
from tdegnn.training.order_choice import AUTO, ChosenOrder, order_of_series

# Rows of nodes a training step sees at most where the user does not say: some milliseconds of work.
ROWS_A_STEP = 2**14
# Windows a training step sees at most: with more, steps cost more and learn no more (Chickenpox, tested to 440).
WINDOWS_A_STEP = 64


class _Start(NamedTuple):
    """A training before its first step: all that may be wrong with settings has been looked at.

    Attributes:
        networks: The members, as they start.
        windows: All windows of the series.
        held_out: Those that are held out.
        training: What is trained first, on the others.
        penalties: Those of the linear skip, where there is one; chosen on what is held out.
        placement: What to compute with.
    """

    networks: list[ForecastNetwork]
    windows: WindowSet
    held_out: WindowSet
    training: SeriesTraining
    penalties: Penalties | None
    placement: Placement


@dataclass(kw_only=True, repr=False, eq=False)
class Forecaster(ForecasterSettings):
    """Forecasts of series on a graph. Its settings are those of `ForecasterSettings`.

    Attributes:
        networks_: The networks whose mean is the forecast.
        coefficients_: The learned c, layers x order, their mean over the networks.
        summary_: Window, order, best step, errors on the held-out steps beside those of naive forecasts, and notes.
        notes_: What a user should know: gaps, too short a series, naive forecasts that do as well.
        history_: Step, loss and error of each look at the held-out windows.
    """

    def fit(
        self,
        panel: Panel,
        *,
        node_features: NodeFeaturesSource = None,
        run: str | Path | None = None,
        resume: bool = False,
        source: Mapping[str, Any] | None = None,
        on_look: Callable[[Look], object] = lambda _: None,
        on_refit: Callable[[int, int], object] = lambda *_: None,
    ) -> Self:
        """Learn to forecast a panel.

        Args:
            panel: The series. Without a graph, nodes are forecast each on its own.
            node_features: What is known of each node and does not change, by its name: a CSV or Parquet file, a frame,
                or a mapping as in `{"Paris": {"population": 2.1}}`. It is kept: `predict` does not ask for it.
            run: Folder to write to: settings, metrics, weights, checkpoints. A finished one can be loaded.
            resume: Go on with the training in `run`; where there is none, begin it.
            source: Where the data came from, kept in the settings of the run folder.
            on_look: Called with what each look at the held-out windows saw.
            on_refit: Called with the number of finished steps and of all, while it learns again from everything.
        """
        check_is_panel(panel)
        self._check_settings()
        check_to_learn_from(panel, self.lowest)
        if run is not None:
            RunFolder.check_free(run, resume=resume)
        features = self._take_features(node_features, panel)
        seasons = () if self.states == "physical" else self._seasons(panel)
        with threads_for(panel):
            window = choose_window(panel, self.horizon, seasons) if self.window is None else self.window
            split = split_for_forecast(panel.num_steps, window, self.horizon)
            kept = ChosenOrder.kept_by(run, resume=resume)
            self.order_choice_ = kept or self._choose_order(panel[: split.training.stop], window)
            maker = FrameMaker.fit(
                panel[: split.training.stop],
                window,
                self.horizon,
                seasons=seasons,
                known=self.known,
                per="all" if self.states == "physical" else "node",
            )
            config = {
                "kind": type(self).__name__,
                "settings": dict(self.get_params()) | {"known": list(self.known)},
                **self.order_choice_.to_config(self.order),
                **describe_forecast_data(panel, maker, features, source or {}),
            }
            self.maker_, self.node_features_, self.graph_ = features.added_to(maker), features, graph_of(panel)
            self._config_ = config
            # Before there is a folder: a mistake should leave none behind.
            start = self._start(panel, split)
            if run is None:
                self._train(panel, split, start, None, on_look, on_refit)
                return self
            with RunFolder.begin(run, config, resume=resume) as folder:
                if folder.is_finished:
                    self._take(folder)
                else:
                    self._train(panel, split, start, folder, on_look, on_refit)
        return self

    def predict(
        self, horizon: int | None = None, *, panel: Panel | None = None, future: Panel | None = None
    ) -> Forecast:
        """Forecast what comes after the end of a panel.

        Args:
            horizon: Number of steps; that of the training without it. Further steps are forecast from the forecasts
                before them, and have no intervals.
            panel: What is known by now; without it what was trained on.
            future: The channels of `known` in the steps to forecast. Where networks look further ahead, at the end of
                their own horizon, they go on with the last of it.
        """
        self._check_fitted()
        trained_horizon = self.maker_.horizon
        horizon = trained_horizon if horizon is None else horizon
        check_count(horizon=horizon)
        seen = self._tail if panel is None else self._check_panel(panel)
        if future is not None:
            check_is_panel(future)
        with threads_for(seen):
            values = self._trained.run_freely(seen, horizon, self._check_future(seen, horizon, future))
        low, high = self._intervals(values)
        further = f"Steps after the first {trained_horizon} are forecast from forecasts and have no intervals."
        return Forecast(
            values,
            low,
            high,
            seen.future_times(horizon),
            seen.nodes,
            seen.channels[: seen.num_targets],
            self.coverage if self.intervals_ is None else self.intervals_.coverage,
            (further,) if horizon > trained_horizon else (),
        )

    def update(self, panel: Panel, num_steps: int = 30) -> Self:
        """Go on learning with new data, from the weights there are.

        Scales, window, intervals and the linear part of the forecast stay as they are.

        Args:
            panel: The series as far as they are known by now, old steps included; the more, the less is forgotten.
            num_steps: Number of steps of the optimizer.
        """
        self._check_fitted()
        check_count(num_steps=num_steps)
        panel = self._check_panel(panel)
        check_goes_on(panel, self._tail)
        with threads_for(panel):
            placement = choose_placement(self.device, self.precision)
            windows = self._trained.windows(panel, device=placement.device, dtype=placement.dtype)
            learned = windows.predicting(range(panel.num_steps))
            training = self._start_training(self.networks_, learned, learned, placement)
            for _ in range(num_steps):
                training.step()
            self._learn_from(training, panel, windows)
        return self

    def backtest(
        self,
        panel: Panel,
        *,
        node_features: NodeFeaturesSource = None,
        num_folds: int = 3,
        stride: int | None = None,
        on_fold: Callable[[], object] = lambda: None,
    ) -> Backtest:
        """What these settings would have forecast, had the series ended earlier. What was learned stays as it is.

        Args:
            panel: The series.
            node_features: What is known of each node, as in `fit`.
            num_folds: Number of origins, the last of which is `horizon` steps before the end.
            stride: Steps from one origin to the next; the horizon without it.
            on_fold: Called after each fold, for a progress bar.
        """
        check_is_panel(panel)
        if self.is_fitted:
            panel = in_steps_of(panel, self._tail)
        features = None if node_features is None else self._take_features(node_features, panel)
        return run_backtest(self, panel, features, num_folds=num_folds, stride=stride, on_fold=on_fold)

    def plot(
        self,
        horizon: int | None = None,
        *,
        panel: Panel | None = None,
        future: Panel | None = None,
        nodes: Sequence[str] | None = None,
    ) -> Figure:
        """Draw the end of the series and the forecast, for some nodes."""
        forecast = self.predict(horizon, panel=panel, future=future)
        return plot_forecast(self._tail if panel is None else panel, forecast, nodes)

    def explain(self) -> CoefficientReport:
        """What the learned coefficients say, their mean over layers and networks.

        On latent states they say how the network integrates, not how the data evolve. On physical states they say
        which differential equation the data follow.
        """
        self._check_fitted()
        tolerance = LOOSE_TOLERANCE if self.states == "physical" else DEFAULT_TOLERANCE
        return replace(explain(self.coefficients_.mean(axis=0), tolerance=tolerance), states=self.states)

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a new run folder; `load` reads it."""
        self._check_fitted()
        # The one setting that may be changed after the training.
        self._config_["settings"]["lowest"] = self.lowest
        with RunFolder.create(path, self._config_) as folder:
            for line in self.history_:
                folder.append_metrics(line)
            self._write(folder)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save`, or `fit` with a run folder, wrote."""
        folder = RunFolder.open_finished(Path(path), kind=cls.__name__)
        settings = folder.config["settings"]
        loaded = cls(**settings | {"known": tuple(settings["known"])})
        loaded._take(folder)
        return loaded

    @property
    def is_fitted(self) -> bool:
        """Whether there is something to predict with."""
        return hasattr(self, "networks_")

    @property
    def order_(self) -> int:
        """The length of the history, whoever chose it."""
        return self.order_choice_.order

    @property
    def _sizes(self) -> SeriesSizes:
        return self.maker_.sizes(self.graph_.num_nodes)

    @property
    def _trained(self) -> ForecastNetworks:
        return self._together(self.networks_)

    def _together(self, networks: Sequence[ForecastNetwork]) -> ForecastNetworks:
        return ForecastNetworks(networks, self.maker_, self.graph_, self.node_features_, self.lowest)

    def _choose_order(self, panel: Panel, window: int) -> ChosenOrder:
        if self.system == "DE-GNN":
            return ChosenOrder.given(1)
        if self.order == AUTO:
            return order_of_series(panel, window)
        if self.order > window:
            reason = f"An order of {self.order} was asked for; it is {window}, all that a window of {window} steps has."
            return ChosenOrder(window, reason, {})
        return ChosenOrder.given(self.order)

    def _start(self, panel: Panel, split: ForecastSplit) -> _Start:
        placement, settings = (
            choose_placement(self.device, self.precision),
            self._series_config(self.order_, self._sizes),
        )
        seeds = range(self.seed, self.seed + self.num_members)
        networks = [settings.build(self._sizes, seed).to(placement.device) for seed in seeds]
        windows = self._together(networks).windows(panel, device=placement.device, dtype=placement.dtype)
        learned, held_out = windows.predicting(split.training), windows.predicting(split.validation)
        penalties = self._solve_skips(networks, learned, held_out)
        training = self._start_training(networks, learned, held_out, placement)
        return _Start(networks, windows, held_out, training, penalties, placement)

    def _train(
        self,
        panel: Panel,
        split: ForecastSplit,
        start: _Start,
        folder: RunFolder | None,
        on_look: Callable[[Look], object],
        on_refit: Callable[[int, int], object],
    ) -> None:
        self.history_: list[dict[str, Any]] = [] if folder is None else folder.read_metrics()

        def see(look: Look) -> None:
            self.history_.append(look.to_record())
            on_look(look)

        result = fit(
            start.training,
            num_steps=self.num_steps,
            validate_every=self.validate_every,
            patience=self.patience,
            on_look=see,
            run=folder,
        )
        if not result.best_scores.isfinite().all():
            raise TrainingError("Expected forecasts that are numbers, got none. Lower the learning rate or step size.")
        self.networks_ = members_of(start.training)
        self._tail = tail_of(panel, self.maker_.window)
        self.best_step_ = int(median_low(result.best_steps.tolist()))
        self._measure(panel, split, start.held_out)
        # Again on everything, for as many steps as were best: what is newest says most about what comes next.
        everything = start.windows.predicting(range(panel.num_steps))
        self._solve_skips(start.networks, everything, start.held_out, start.penalties)
        again = self._start_training(start.networks, everything, start.held_out, start.placement)
        for step in range(1, self.best_step_ + 1):
            again.step()
            on_refit(step, self.best_step_)
        if not again.members.weights.isfinite().all():
            raise TrainingError(
                "Expected weights that are numbers after learning from all steps, got others. Lower the learning rate."
            )
        self._learn_from(again, panel, start.windows)
        if folder is not None:
            self._write(folder)

    def _solve_skips(
        self,
        networks: Sequence[ForecastNetwork],
        learned: WindowSet,
        held_out: WindowSet,
        penalties: Penalties | None = None,
    ) -> Penalties | None:
        # Judged as the training is: nodes count alike, whatever their units.
        units = np.ones_like(self.maker_.target_scales)
        return start_at_ridge(networks, learned, held_out, self.graph_, units, penalties)

    def _start_training(
        self, networks: Sequence[ForecastNetwork], learned: WindowSet, held_out: WindowSet, placement: Placement
    ) -> SeriesTraining:
        return SeriesTraining(
            networks,
            [self._series_config(self.order_, self._sizes).descent] * len(networks),
            self.graph_,
            learned,
            held_out,
            batch_size=self.batch_size or max(1, min(WINDOWS_A_STEP, ROWS_A_STEP // self.graph_.num_nodes)),
            placement=placement,
            seed=self.seed,
        )

    def _learn_from(self, training: SeriesTraining, panel: Panel, windows: WindowSet) -> None:
        """Take the weights as the training left them, and remember the end of what it saw."""
        self.networks_ = members_of(training)
        members = training.members
        self._weights = {name: tensor.cpu() for name, tensor in (members.parameters() | members.buffers).items()}
        self.coefficients_ = self._trained.mean_coefficients(windows)
        self._tail = tail_of(panel, self.maker_.window)
        self._config_["data"]["times"] = [str(time) for time in self._tail.times]

    def _measure(self, panel: Panel, split: ForecastSplit, held_out: WindowSet) -> None:
        """What the held-out windows say, and what a user should know."""
        forecasts = self._trained.forecast(held_out, slice(None))
        measured = HeldOut.measure(self, panel, split, held_out, forecasts, self.maker_)
        self.intervals_ = measured.intervals
        self.notes_: list[str] = [
            *panel.notes,
            *self.node_features_.notes,
            *([self.order_choice_.reason] if self.order_choice_.reason else []),
            *notes_of_settings(self, panel, self.maker_.horizon),
            *measured.notes,
        ]
        self.summary_: dict[str, Any] = {
            "best_step": self.best_step_,
            "window": self.maker_.window,
            "order": self.order_,
            "held_out": {"steps": len(held_out.first_target_steps), **measured.errors},
            "notes": self.notes_,
        }

    def _intervals(
        self, values: Float[np.ndarray, "steps nodes targets"]
    ) -> tuple[Float[np.ndarray, "steps nodes targets"], Float[np.ndarray, "steps nodes targets"]]:
        widths = np.full(values.shape, np.nan)
        if self.intervals_ is not None:
            num_known = min(len(values), self.maker_.horizon)
            widths[:num_known] = self.intervals_.widths[:num_known]
        return self._trained.bounded(values - widths), values + widths

    def _take_features(self, node_features: NodeFeaturesSource, panel: Panel) -> NodeFeatures:
        if node_features is None:
            return NodeFeatures.none(panel.num_nodes)
        if self.states == "physical":
            raise InputError(
                "Expected no node features with physical states, which are what is forecast and nothing else. Leave "
                "node_features= out."
            )
        return read_node_features(node_features, panel)

    def _check_panel(self, panel: Panel) -> Panel:
        return check_seen(panel, self._tail, self.maker_.window)

    def _check_future(self, seen: Panel, horizon: int, future: Panel | None) -> Panel | None:
        """What is known of the steps to forecast, in whole blocks where something must be."""
        if not self.known:
            return future
        if future is None:
            raise InputError(f"Expected future values of {', '.join(self.known)}, got none. Pass future=.")
        block = self.maker_.horizon
        whole = seen.future_times(-(-horizon // block) * block)
        return cover_blocks(future, self.known, seen.future_times(horizon), whole)

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise InputError(
                "Expected a Forecaster that has been trained, got one that has not. Call fit, or load one."
            )

    def _write(self, folder: RunFolder) -> None:
        """The last files of a training, which make its folder a finished one."""
        kept = keep_forecast_data(self.maker_, self.graph_, self.node_features_, self._tail, self.intervals_)
        folder.write_weights(self._weights | kept)
        folder.write_coefficients(self.coefficients_)
        folder.finish(self.summary_)

    def _take(self, folder: RunFolder) -> None:
        """What a finished training learned."""
        stored = folder.read_weights()
        data = read_forecast_data(folder.config, stored, self.known)
        self.maker_, self.graph_, self.node_features_, self._tail, widths = data
        kept = ChosenOrder.kept_in(folder.config)
        self.order_choice_ = kept or self._choose_order(self._tail, self.maker_.window)
        settings = self._series_config(self.order_, self._sizes)
        self.networks_ = [settings.build(self._sizes, self.seed + member) for member in range(self.num_members)]
        for member, network in enumerate(self.networks_):
            place(network, choose_placement("cpu", self.precision))
            take_weights(network, stored, member, folder.path)
        self.intervals_ = None
        if widths is not None:
            self.intervals_ = ConformalIntervals(widths, self.coverage, np.zeros(widths.shape, dtype=bool))
        self._weights, self._config_ = stored, folder.config
        self.history_, self.summary_ = folder.read_metrics(), folder.read_summary()
        self.notes_, self.best_step_ = list(self.summary_["notes"]), self.summary_["best_step"]
        self.coefficients_ = folder.read_coefficients()["coefficients"]
