"""The result of a backtest: all forecasts, and tables of their errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tdegnn.data.times.times import show_time
from tdegnn.forecasting.backtests.errors import Judge, Measured
from tdegnn.forecasting.backtests.own_training import OwnTraining, describe_trainings
from tdegnn.forecasting.backtests.paired import Difference, OriginErrors, block_length, compare
from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.forecasting.held_out import OURS
from tdegnn.metrics import Per

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class MethodForecasts:
    """The forecasts of one method, from all origins.

    Attributes:
        values: The forecasts.
        low: Lower ends of the intervals. NaN if there are none.
        high: Upper ends of the intervals. NaN if there are none.
        fit_seconds: Time of all trainings.
        predict_seconds: Time of all forecasts.
    """

    values: Predictions
    low: Predictions
    high: Predictions
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True, eq=False)
class Backtest:
    """The result of a backtest.

    Attributes:
        methods: Forecasts by method, those of the forecaster first.
        judge: What was observed, and the units of errors.
        times: The times of the series, from the first step that is forecast on.
        stride: Steps from one origin to the next.
        nodes: Names of the nodes.
        channels: Names of the channels that are forecast.
        period: Steps of the season by whose naive forecast MASE is scaled. 1 stands for the last value.
        trainings: What the forecaster chose, per training.
        refit: Whether everything was trained anew for each origin.
        settings: The settings of the forecaster, as a run folder keeps them.
        notes: Remarks for the user.
    """

    methods: dict[str, MethodForecasts]
    judge: Judge
    times: pd.Index
    stride: int
    nodes: tuple[str, ...]
    channels: tuple[str, ...]
    period: int
    trainings: tuple[OwnTraining, ...]
    refit: bool
    settings: dict[str, Any]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        title = f"Errors from {self.num_origins} origins; intervals aim at {100 * self.aimed_coverage:g}%"
        table = pd.DataFrame(self.means()).T.to_string(float_format="{:.4g}".format)
        return "\n".join([title, table, *describe_trainings(self.trainings)])

    @property
    def num_origins(self) -> int:
        """Number of origins."""
        return len(self.judge.observed)

    @property
    def horizon(self) -> int:
        """Number of steps that are forecast from an origin."""
        return int(self.judge.observed.shape[1])

    @property
    def aimed_coverage(self) -> float:
        """Share of the observations that intervals should contain."""
        return self.judge.coverage

    @property
    def origins(self) -> pd.Index:
        """The time of the first step that is forecast, per origin."""
        return self.times[: self.num_origins * self.stride : self.stride]

    @property
    def orders(self) -> tuple[int, ...]:
        """Length of the history of the forecaster, given or found, per training."""
        return tuple(training.order for training in self.trainings)

    def means(self) -> dict[str, dict[str, float]]:
        """Return the errors of each method over all origins, steps and nodes, lowest mean absolute error first."""
        errors = {name: {error: float(value) for error, value in self._measure(name).items()} for name in self.methods}
        # NaN sorts last.
        return dict(sorted(errors.items(), key=lambda item: (np.isnan(item[1]["mae"]), item[1]["mae"])))

    def by_step(self) -> pd.DataFrame:
        """Return one row per method and step of the horizon."""
        return self._table("horizon", "step", range(1, self.horizon + 1))

    def by_node(self) -> pd.DataFrame:
        """Return one row per method and node."""
        return self._table("node", "node", self.nodes)

    def by_origin(self) -> pd.DataFrame:
        """Return one row per method and origin."""
        table = self._table("step", "origin", [show_time(time) for time in self.origins])
        fold = np.tile(np.arange(self.num_origins), len(self.methods))
        table.insert(1, "fold", fold)
        orders = np.resize(np.array(self.orders), self.num_origins)
        return table.assign(order=pd.array(orders[fold], dtype="Int64")).assign(
            order=lambda rows: rows["order"].where(rows["method"] == OURS)
        )

    def by_node_and_step(self) -> pd.DataFrame:
        """Return one row per method, node, channel and step of the horizon."""
        shape = len(self.nodes), len(self.channels), self.horizon
        node, channel, step = (axis.ravel() for axis in np.indices(shape))
        frames = []
        for name, each in self.methods.items():
            measured = self.judge.by_node_and_step(each.values, each.low, each.high)
            columns = {"method": name, "node": np.array(self.nodes, dtype=object)[node]}
            columns["channel"] = np.array(self.channels, dtype=object)[channel]
            frames.append(
                pd.DataFrame(columns | {"step": step + 1} | {key: values.ravel() for key, values in measured.items()})
            )
        return self._without_one_channel(pd.concat(frames, ignore_index=True))

    def to_frame(self) -> pd.DataFrame:
        """Return all forecasts: one row per method, origin, step of the horizon, node and channel.

        `error` is observed minus forecast.
        """
        shape = self.judge.observed.shape
        origin, step, node, channel = (axis.ravel() for axis in np.indices(shape))
        shared = {
            "origin": self.origins[origin],
            "step": step + 1,
            "time": self.times[origin * self.stride + step],
            "node": np.array(self.nodes, dtype=object)[node],
            "channel": np.array(self.channels, dtype=object)[channel],
            "observed": self.judge.observed.ravel(),
        }
        frames = [
            pd.DataFrame(
                {"method": name}
                | shared
                | {"forecast": each.values.ravel(), "low": each.low.ravel(), "high": each.high.ravel()}
            ).assign(error=lambda rows: rows["observed"] - rows["forecast"])
            for name, each in self.methods.items()
        ]
        return self._without_one_channel(pd.concat(frames, ignore_index=True))

    def differences(self) -> dict[str, dict[str, Difference]]:
        """Return MAE and RMSE of each other method minus those of the forecaster, with 95 % intervals.

        Intervals come from a bootstrap over blocks of origins.
        """
        weights = (~np.isnan(self.judge.observed)).sum(axis=(1, 2, 3)).astype(np.float64)
        errors = {}
        for name in self.methods:
            measured = self._measure(name, "step")
            errors[name] = OriginErrors(measured["mae"], measured["mse"], weights)
        block = block_length(self.num_origins, self.horizon, self.stride)
        return {name: compare(errors[OURS], errors[name], block) for name in self.methods if name != OURS}

    def plot(self) -> Figure:
        """Draw the error of each method by step of the horizon, and its difference to the forecaster."""
        from tdegnn.forecasting.backtests.plots import plot_backtest

        return plot_backtest(self)

    def to_record(self) -> dict[str, Any]:
        """Return everything but the forecasts, for JSON."""
        seconds = {
            name: {"fit": each.fit_seconds, "predict": each.predict_seconds} for name, each in self.methods.items()
        }
        differences = {
            name: {error: each._asdict() for error, each in of_method.items()}
            for name, of_method in self.differences().items()
        }
        return {
            "folds": self.num_origins,
            "horizon": self.horizon,
            "stride": self.stride,
            "refit": self.refit,
            "origins": [show_time(self.origins[0]), show_time(self.origins[-1])],
            "aimed_coverage": self.aimed_coverage,
            "mase_period": self.period,
            "orders": list(self.orders),
            "settings": self.settings,
            "trainings": [training.to_record() for training in self.trainings],
            "means": self.means(),
            "differences": differences,
            "seconds": seconds,
            "by_step": self.by_step().to_dict("records"),
            "by_node": self.by_node().to_dict("records"),
            "lines": self.by_origin().astype({"order": object}).replace({pd.NA: None}).to_dict("records"),
        }

    def _measure(self, name: str, per: Per | None = None) -> Measured:
        if (name, per) not in self._measured:
            each = self.methods[name]
            self._measured[name, per] = self.judge.measure(each.values, each.low, each.high, per)
        return self._measured[name, per]

    @cached_property
    def _measured(self) -> dict[tuple[str, Per | None], Measured]:
        """Errors that were measured before."""
        return {}

    def _table(self, per: Per, column: str, names: Any) -> pd.DataFrame:
        frames = [
            pd.DataFrame({"method": name, column: list(names)} | dict(self._measure(name, per)))
            for name in self.methods
        ]
        return pd.concat(frames, ignore_index=True)

    def _without_one_channel(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame if len(self.channels) > 1 else frame.drop(columns="channel")
