"""`Forecaster`: a table of series and a graph in, forecasts with intervals out, and naive forecasts always beside them.

`fit` scales, holds out the end of the series, trains a few networks at once, chooses the step by the held-out windows,
measures intervals and naive forecasts on them, and trains again on everything for as many steps. A saved forecaster is
the folder of its training: it knows the graph and the last window, so that it can go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, LOOSE_TOLERANCE
from tdegnn.data.panel import Panel
from tdegnn.data.seasons import Season, seasons_of
from tdegnn.errors import InputError, TrainingError, check_count
from tdegnn.estimators.auto_order import AUTO, USUAL_ORDER, ChosenOrder, Order, check_order, order_of_series
from tdegnn.estimators.backtest import Backtest, run_backtest
from tdegnn.estimators.forecast import Forecast
from tdegnn.estimators.forecast_folder import (
    describe_forecast_data,
    extend_panel,
    graph_of,
    keep_forecast_data,
    read_forecast_data,
    tail_of,
)
from tdegnn.estimators.forecast_inputs import check_is_panel, check_seen, cover_blocks, in_steps_of
from tdegnn.estimators.forecast_parts import (
    ForecastSplit,
    choose_window,
    measure_naive,
    split_for_forecast,
    threads_for,
)
from tdegnn.estimators.forecast_plots import plot_forecast
from tdegnn.estimators.node_features import NodeFeatures, NodeFeaturesSource, read_node_features
from tdegnn.estimators.saved_weights import take_weights
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.training.conformal import ConformalIntervals, fewest_residuals
from tdegnn.training.device import DeviceName
from tdegnn.training.fabric import Precision, make_fabric, place, weight_type
from tdegnn.training.fit import Look, fit
from tdegnn.training.members import GroupDescent
from tdegnn.training.ridge_skip import Penalties, fits_by_node, start_at_ridge
from tdegnn.training.run_folder import CONFIG, RunFolder
from tdegnn.training.series_config import SeriesConfig, Skip, States
from tdegnn.training.series_frames import FrameMaker, WindowSet
from tdegnn.training.series_training import SeriesTraining
from tdegnn.training.systems import Attention, System

# Waves of a season that the user names; as many as tell its shape without following its noise.
NUM_WAVES = 3
# Rows of nodes a training step sees at most where the user does not say: some milliseconds of work.
ROWS_A_STEP = 2**14
# Windows a training step sees at most: with more, steps cost more and learn no more (Chickenpox, tested to 440).
WINDOWS_A_STEP = 64

ForecastNetwork: TypeAlias = TemporalNetwork | PhysicalSeriesNetwork
Values = Float[np.ndarray, "*windows horizon nodes targets"]


class _Start(NamedTuple):
    """A training before its first step: all that may be wrong with settings has been looked at.

    Attributes:
        networks: The members, as they start.
        windows: All windows of the series.
        held_out: Those that are held out.
        training: What is trained first, on the others.
        penalties: Those of the linear skip, where there is one; chosen on what is held out.
        fabric: What to compute with.
    """

    networks: list[ForecastNetwork]
    windows: WindowSet
    held_out: WindowSet
    training: SeriesTraining
    penalties: Penalties | None
    fabric: Fabric


@dataclass(kw_only=True, repr=False, eq=False)
class Forecaster(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Forecasts of series on a graph.

    Attributes:
        system: Which rule gives c: `"DE-GNN"` c = [1], `"TDE-GNN_D"` a learned vector, `"TDE-GNN_A"` attention,
            `"TDE-GNN_S"` a vector that is stable whatever it learns.
        window: Number of steps a forecast sees; without it, chosen by the held-out steps.
        horizon: Number of steps that are forecast at once. `predict` goes on further on its own forecasts.
        order: Frames that become states, at most the window; `"auto"` for the order in time of the series themselves,
            as `tdegnn.find_order` finds it (`order_` says which, `order_choice_` why).
        season: Steps until a season comes round; without it, what the dates say.
        known: Names of channels whose future values `predict` will be given.
        states: What c combines: `"latent"` states, or `"physical"` ones, the observed frames themselves. Then c can be
            read: `explain` speaks of the data. See `Forecaster.physical` for settings that go with it.
        hidden_channels: Channels of a state; hidden channels of the spatial term where states are physical.
        num_layers: Number of layers.
        step_size: h.
        dropout: Part of states that is dropped in training.
        skip: The linear forecast beside the layers: `"none"`, `"linear"`, or `"by node"`, with weights of each node's
            own as far as the held-out steps want them. Without it, by node where that fits into memory.
        attention: For TDE-GNN_A: that of the paper, `"plain"`, or `"gated"`, which starts as forward Euler.
        learning_rate: How fast all but c learns.
        weight_decay: How strongly it is pulled to zero.
        c_learning_rate: How fast c learns.
        c_weight_decay: How strongly c is pulled to forward Euler.
        num_members: Networks, from seeds of their own, whose mean is the forecast.
        num_steps: Number of steps of the optimizer at most.
        validate_every: Steps between two looks at the held-out windows.
        patience: Training ends when they have not improved for so many steps. Without it, after `num_steps`.
        batch_size: Windows a step; without it as many as make a quick step.
        coverage: How often intervals are to hold what is observed.
        seed: Seed of weights, dropout and the order of windows.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: Numbers of 32 or of 64 bits, `"32-true"` or `"64-true"`.
    """

    system: System = "TDE-GNN_D"
    window: int | None = None
    horizon: int = 1
    order: Order = 4
    season: float | None = None
    known: Sequence[str] = ()
    states: States = "latent"
    hidden_channels: int = 32
    num_layers: int = 2
    step_size: float = 1.0
    dropout: float = 0.3
    skip: Skip | None = None
    attention: Attention = "gated"
    learning_rate: float = 0.003
    weight_decay: float = 0.01
    c_learning_rate: float = 0.001
    c_weight_decay: float = 0.01
    num_members: int = 3
    num_steps: int = 300
    validate_every: int = 10
    patience: int | None = 100
    batch_size: int | None = None
    coverage: float = 0.9
    seed: int = 0
    device: DeviceName = "auto"
    precision: Precision = "32-true"

    @classmethod
    def physical(cls, order: Order = 2, **settings: Any) -> Self:
        """A forecaster whose c can be read: on the observed frames, without decay, in 64 bits, to convergence.

        Args:
            order: Number of frames that c weighs, or `"auto"`.
            settings: Anything else; `step_size` is the time between two frames.
        """
        chosen: dict[str, Any] = dict(
            states="physical",
            window=USUAL_ORDER if order == AUTO else max(order, 2),
            skip="none",
            learning_rate=0.01,
            weight_decay=0.0,
            c_learning_rate=0.01,
            c_weight_decay=0.0,
            num_members=1,
            num_steps=1500,
            validate_every=50,
            patience=None,
            precision="64-true",
        )
        return cls(order=order, **chosen | settings)

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
        features = self._take_features(node_features, panel)
        seasons = () if self.states == "physical" else self._seasons(panel)
        with threads_for(panel):
            window = choose_window(panel, self.horizon, seasons) if self.window is None else self.window
            split = split_for_forecast(panel.num_steps, window, self.horizon)
            self.order_choice_ = self._choose_order(panel[: split.training.stop], window)
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
                **({"chosen_order": self.order_choice_.to_record()} if self.order == AUTO else {}),
                **describe_forecast_data(panel, maker, features, source or {}),
            }
            self.maker_, self.node_features_, self.graph_ = features.added_to(maker), features, graph_of(panel)
            self._config_ = config
            # Before there is a folder: a mistake should leave none behind.
            start = self._start(panel, split)
            if run is None:
                self._train(panel, split, start, None, on_look, on_refit)
                return self
            is_there = resume and (Path(run) / CONFIG).exists()
            with RunFolder.resume(run, config) if is_there else RunFolder.create(run, config) as folder:
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
        horizon = self.horizon if horizon is None else horizon
        check_count(horizon=horizon)
        seen = self._tail if panel is None else self._check_panel(panel)
        with threads_for(seen):
            values = self._run_freely(seen, horizon, self._check_future(seen, horizon, future))
        low, high = self._intervals(values)
        further = f"Steps after the first {self.horizon} are forecast from forecasts and have no intervals."
        return Forecast(
            values,
            low,
            high,
            seen.future_times(horizon),
            seen.nodes,
            seen.channels[: seen.num_targets],
            self.coverage,
            (further,) if horizon > self.horizon else (),
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
        with threads_for(panel):
            fabric = make_fabric(self.device, self.precision)
            windows = self._windows(panel, device=fabric.device, dtype=weight_type(fabric))
            learned = windows.predicting(range(panel.num_steps))
            training = self._start_training(self.networks_, learned, learned, fabric)
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
        return explain(self.coefficients_.mean(axis=0), tolerance=tolerance)

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a new run folder; `load` reads it."""
        self._check_fitted()
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

    def _seasons(self, panel: Panel) -> tuple[Season, ...]:
        if self.season is None:
            return seasons_of(panel.times)
        num_waves = min(NUM_WAVES, int((self.season - 1e-9) // 2))
        if num_waves < 1:
            raise InputError(f"Expected a season of more than two steps, got {self.season:g}.")
        return (Season(float(self.season), num_waves),)

    def _choose_order(self, panel: Panel, window: int) -> ChosenOrder:
        if self.system == "DE-GNN":
            return ChosenOrder.given(1)
        return order_of_series(panel, window) if self.order == AUTO else ChosenOrder.given(min(self.order, window))

    def _series_config(self, maker: FrameMaker) -> SeriesConfig:
        groups = GroupDescent(self.learning_rate, self.weight_decay)
        return SeriesConfig(
            system=self.system,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            order=self.order_,
            step_size=self.step_size,
            dropout=self.dropout,
            skip=self.skip or ("by node" if fits_by_node(maker.sizes(self.graph_.num_nodes)) else "linear"),
            attention=self.attention,
            embedding=groups,
            temporal=GroupDescent(self.c_learning_rate, self.c_weight_decay),
            spatial=groups,
            num_steps=self.num_steps,
            batch_size=self.batch_size,
            states=self.states,
        )

    def _start(self, panel: Panel, split: ForecastSplit) -> _Start:
        fabric, settings = make_fabric(self.device, self.precision), self._series_config(self.maker_)
        windows = self._windows(panel, device=fabric.device, dtype=weight_type(fabric))
        learned, held_out = windows.predicting(split.training), windows.predicting(split.validation)
        seeds = range(self.seed, self.seed + self.num_members)
        networks = [settings.build(self.maker_.sizes(panel.num_nodes), seed).to(fabric.device) for seed in seeds]
        penalties = self._solve_skips(networks, learned, held_out)
        training = self._start_training(networks, learned, held_out, fabric)
        return _Start(networks, windows, held_out, training, penalties, fabric)

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
        self.networks_ = [_member(start.training, member) for member in range(self.num_members)]
        self._tail = tail_of(panel, self.maker_.window)
        self.best_step_ = int(median_low(result.best_steps.tolist()))
        self._measure(panel, split, start.held_out)
        # Again on everything, for as many steps as were best: what is newest says most about what comes next.
        everything = start.windows.predicting(range(panel.num_steps))
        self._solve_skips(start.networks, everything, start.held_out, start.penalties)
        again = self._start_training(start.networks, everything, start.held_out, start.fabric)
        for step in range(1, self.best_step_ + 1):
            again.step()
            on_refit(step, self.best_step_)
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
        self, networks: Sequence[ForecastNetwork], learned: WindowSet, held_out: WindowSet, fabric: Fabric
    ) -> SeriesTraining:
        return SeriesTraining(
            networks,
            [self._series_config(self.maker_).descent] * len(networks),
            self.graph_,
            learned,
            held_out,
            batch_size=self.batch_size or max(1, min(WINDOWS_A_STEP, ROWS_A_STEP // self.graph_.num_nodes)),
            fabric=fabric,
            seed=self.seed,
        )

    def _learn_from(self, training: SeriesTraining, panel: Panel, windows: WindowSet) -> None:
        """Take the weights as the training left them, and remember the end of what it saw."""
        self.networks_ = [_member(training, member) for member in range(self.num_members)]
        members = training.members
        self._weights = {name: tensor.cpu() for name, tensor in (members.parameters() | members.buffers).items()}
        self.coefficients_ = self._mean_coefficients(windows)
        self._tail = tail_of(panel, self.maker_.window)
        self._config_["data"]["times"] = [str(time) for time in self._tail.times]

    def _measure(self, panel: Panel, split: ForecastSplit, held_out: WindowSet) -> None:
        """Errors on the held-out windows, ours and naive ones, intervals, and what a user should know."""
        observed = self.maker_.to_units(held_out.targets.double().cpu().numpy())
        residuals = observed - self._forecast(held_out, slice(None))
        own = {"mse": float(np.nanmean(residuals**2)), "mae": float(np.nanmean(np.abs(residuals)))}
        naive = measure_naive(panel, split, held_out.first_target_steps, self.maker_)
        self.notes_: list[str] = [*panel.notes, *self.node_features_.notes]
        if self.order_choice_.reason:
            self.notes_.append(self.order_choice_.reason)
        if panel.graph is None:
            self.notes_.append("There is no graph: nodes are forecast without their neighbors.")
        others = panel.channels[panel.num_targets :]
        if self.states == "physical" and others:
            self.notes_.append(f"States are physical: {', '.join(others)}, which is not forecast, is not seen.")
        self.intervals_ = None
        if np.isfinite(residuals).sum(axis=(0, 2)).min() >= fewest_residuals(self.coverage):
            self.intervals_ = ConformalIntervals.fit(residuals, self.coverage, scale=self.maker_.target_scales)
        else:
            self.notes_.append("There are too few held-out steps for intervals. Take a longer series.")
        best = min(naive, key=lambda name: naive[name]["mse"])
        if naive[best]["mse"] <= own["mse"]:
            self.notes_.append(
                f"On the held-out steps this forecaster is no better than {best}: the data do not support more."
            )
        self.summary_: dict[str, Any] = {
            "best_step": self.best_step_,
            "window": self.maker_.window,
            "order": self.order_,
            "held_out": {"steps": len(held_out.first_target_steps), "forecaster": own, **naive},
            "notes": self.notes_,
        }

    def _run_freely(self, seen: Panel, horizon: int, future: Panel | None) -> Float[np.ndarray, "steps nodes targets"]:
        """Forecasts one after another, each from what is known and from those before it."""
        known, parts = seen[-self.maker_.window :], [np.empty((0, seen.num_nodes, seen.num_targets))]
        while len(parts) * self.horizon < horizon + self.horizon:
            windows = self._windows(known, future=future, dtype=next(self.networks_[0].parameters()).dtype)
            parts.append(self._forecast(windows, slice(-1, None))[0])
            known = extend_panel(known, parts[-1], future)
        return np.concatenate(parts)[:horizon]

    def _forecast(self, windows: WindowSet, numbers: slice) -> Values:
        """The mean of the networks, in the units of the panel."""
        frames, _ = windows.batch(numbers)
        with torch.no_grad():
            forecasts = [network.to(frames.window.device).eval()(frames, self.graph_) for network in self.networks_]
        return self.maker_.to_units(torch.stack(forecasts).mean(dim=0).double().cpu().numpy())

    def _mean_coefficients(self, windows: WindowSet) -> Float[np.ndarray, "layers order"]:
        frames, _ = windows.batch(slice(-1, None))
        with torch.no_grad():
            each = [network.integrate(frames, self.graph_).coefficients for network in self.networks_]
        # Attention has weights for each window: here there is one.
        by_layer = (
            torch.stack(each).mean(dim=0).flatten(2).mean(dim=-1) if each[0].dim() > 2 else torch.stack(each).mean(0)
        )
        return np.asarray(by_layer.double().cpu().numpy())

    def _intervals(
        self, values: Float[np.ndarray, "steps nodes targets"]
    ) -> tuple[Float[np.ndarray, "steps nodes targets"], Float[np.ndarray, "steps nodes targets"]]:
        widths = np.full(values.shape, np.nan)
        if self.intervals_ is not None:
            num_known = min(len(values), self.horizon)
            widths[:num_known] = self.intervals_.widths[:num_known]
        return values - widths, values + widths

    def _windows(
        self,
        panel: Panel,
        *,
        future: Panel | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> WindowSet:
        """All windows of a panel, with what is known of its nodes in each frame."""
        joined = self.node_features_.joined_to(panel)
        return self.maker_.windows(joined, future=future, device=device, dtype=dtype)

    def _take_features(self, node_features: NodeFeaturesSource, panel: Panel) -> NodeFeatures:
        if node_features is None:
            return NodeFeatures.none(panel.num_nodes)
        if self.states == "physical":
            raise InputError(
                "Expected no node features with physical states, which are what is forecast and nothing else. Leave "
                "node_features= out."
            )
        return read_node_features(node_features, panel)

    def _check_settings(self) -> None:
        """Raise an `InputError` for a setting that is wrong whatever the data, and that no network looks at."""
        check_order(self.order)
        check_count(
            horizon=self.horizon,
            num_members=self.num_members,
            num_steps=self.num_steps,
            validate_every=self.validate_every,
            patience=1 if self.patience is None else self.patience,
            batch_size=1 if self.batch_size is None else self.batch_size,
        )
        fewest_residuals(self.coverage)  # refuses a coverage that is none

    def _check_panel(self, panel: Panel) -> Panel:
        return check_seen(panel, self._tail, self.maker_.window)

    def _check_future(self, seen: Panel, horizon: int, future: Panel | None) -> Panel | None:
        """What is known of the steps to forecast, in whole blocks where something must be."""
        if not self.known:
            return future
        if future is None:
            raise InputError(f"Expected future values of {', '.join(self.known)}, got none. Pass future=.")
        num_blocks = -(-horizon // self.horizon)
        whole = seen.future_times(num_blocks * self.horizon)
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
        chosen = folder.config.get("chosen_order")
        self.order_choice_ = ChosenOrder(**chosen) if chosen else self._choose_order(self._tail, self.maker_.window)
        settings, sizes = self._series_config(self.maker_), self.maker_.sizes(self.graph_.num_nodes)
        self.networks_ = [settings.build(sizes, self.seed + member) for member in range(self.num_members)]
        for member, network in enumerate(self.networks_):
            place(network, make_fabric("cpu", self.precision))
            take_weights(network, stored, member, folder.path)
        self.intervals_ = None
        if widths is not None:
            self.intervals_ = ConformalIntervals(widths, self.coverage, np.zeros(widths.shape, dtype=bool))
        self._weights, self._config_ = stored, folder.config
        self.history_, self.summary_ = folder.read_metrics(), folder.read_summary()
        self.notes_, self.best_step_ = list(self.summary_["notes"]), self.summary_["best_step"]
        self.coefficients_ = folder.read_coefficients()["coefficients"]


def _member(training: SeriesTraining, member: int) -> ForecastNetwork:
    network = training.members.network(member)
    assert isinstance(network, TemporalNetwork | PhysicalSeriesNetwork)
    return network
