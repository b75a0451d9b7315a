"""The fitted state of a forecaster, as one value: it forecasts, explains itself, and is stored in a run folder.

A `FittedForecaster` needs nothing else and never changes, so that a training that fails does not change the previous
one. In a run folder, arrays are stored with the weights, names and times in the settings. Nothing is pickled.
`forecasting/read_back.py` reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, LOOSE_TOLERANCE
from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.errors import Argument, InputError
from tdegnn.forecasting.forecast import Forecast
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.inputs import cover_blocks, extend_panel
from tdegnn.forecasting.intervals import Context, Intervals, apply_intervals, growth_of, widen_intervals
from tdegnn.forecasting.intervals.base import MOST_FOLLOWED, can_follow, follow_newer
from tdegnn.forecasting.kept_forecasts import OF_HELD_OUT, KeptForecasts
from tdegnn.forecasting.series_config import ForecastNetwork
from tdegnn.forecasting.settings import ForecasterSettings, are_counts
from tdegnn.graph import Graph
from tdegnn.runs.run_folder import RunFolder
from tdegnn.training.network_choice import ChosenNetwork
from tdegnn.training.order_choice import ChosenOrder

# Prefix of the names of arrays stored with the weights, and the prefix that follows it for those of the intervals.
KEPT, OF_INTERVALS = "kept.", "intervals."
# Marks that there are intervals, because a method may store nothing else.
HAS_INTERVALS = "has_intervals"
# Maximum number of values that networks see at once, if there are many windows: their states fit into any memory.
NUMBERS_AT_ONCE = 2**21
# Minimum number of steps stored of the end of the series: fewer cannot tell days from business days.
FEWEST_KEPT = 16
# Maximum number of steps since the training that are forecast at once, for intervals that learn from them.
FOLLOWED_AT_ONCE = 64

Steps: TypeAlias = Float[np.ndarray, "steps nodes targets"]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks from different seeds, and everything that they need to forecast a panel.

    Attributes:
        networks: The networks. Their mean is the forecast.
        maker: Makes the frames.
        graph: The graph of the nodes. If edges change, windows have graphs of their own.
        node_features: Features of the nodes, if any.
    """

    networks: tuple[ForecastNetwork, ...]
    maker: FrameMaker
    graph: Graph
    node_features: NodeFeatures | None = None

    def forecast(
        self, windows: WindowSet, numbers: slice = slice(None), lowest: float | None = None
    ) -> Float[np.ndarray, "windows horizon nodes targets"]:
        """Return the mean forecast for some windows, in the units of the panel and not below `lowest`."""
        chosen = windows.some(numbers)
        means = []
        for block in chosen.blocks(NUMBERS_AT_ONCE):
            frames, _ = chosen.batch(block)
            graph = chosen.graph_at(block, self.graph)
            with torch.no_grad():
                forecasts = [network.to(frames.window.device).eval()(frames, graph) for network in self.networks]
            means.append(torch.stack(forecasts).mean(dim=0).double().cpu().numpy())
        return _bounded(self.maker.to_units(np.concatenate(means)), lowest)

    def run_freely(self, seen: Panel, horizon: int, future: Panel | None, lowest: float | None) -> Steps:
        """Return forecasts of any number of steps, each block from known values and the blocks before it."""
        block, dtype = self.maker.horizon, next(self.networks[0].parameters()).dtype
        known, blocks = seen[-self.maker.window :], [np.empty((0, seen.num_nodes, seen.num_targets))]
        while len(blocks) * block < horizon + block:
            windows = self.maker.windows(known, node_features=self.node_features, future=future, dtype=dtype)
            blocks.append(self.forecast(windows, slice(-1, None), lowest)[0])
            known = extend_panel(known, blocks[-1], future)
        return np.concatenate(blocks)[:horizon]

    def mean_coefficients(self, windows: WindowSet) -> Float[np.ndarray, "layers order"]:
        """Return c of every layer for the last window, averaged over the networks."""
        last = slice(-1, None)
        frames, _ = windows.batch(last)
        graph = windows.graph_at(last, self.graph)
        with torch.no_grad():
            each = torch.stack([network.integrate(frames, graph).coefficients for network in self.networks])
        mean = each.mean(dim=0)
        # Attention has weights per window: here there is one.
        by_layer = mean.flatten(2).mean(dim=-1) if mean.dim() > 2 else mean
        return np.asarray(by_layer.double().cpu().numpy())

    def weights(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name, one row per network, on the CPU."""
        tensors = [dict([*network.named_parameters(), *network.named_buffers()]) for network in self.networks]
        return {name: torch.stack([each[name].detach() for each in tensors]).cpu() for name in tensors[0]}


@dataclass(frozen=True, eq=False)
class FittedForecaster:
    """A trained forecaster.

    Attributes:
        ensemble: The networks, and everything that they need to forecast a panel.
        tail: The end of the series, from which forecasts continue.
        intervals: Intervals around the forecasts. None if there were too few held-out steps.
        coefficients: The learned c, averaged over the networks.
        order_choice: Length of the history, and the reason for it.
        config: The settings of the run folder: those of the forecaster, the data, the frames.
        history: Step, loss and score of each validation on the held-out windows.
        summary: Best step, window, order, held-out errors and notes.
        held_out: Forecasts of held-out steps by networks that had not seen them. None in folders of earlier versions.
    """

    ensemble: Ensemble
    tail: Panel
    intervals: Intervals | None
    coefficients: Float[np.ndarray, "layers order"]
    order_choice: ChosenOrder
    config: Mapping[str, Any]
    history: list[dict[str, Any]]
    summary: dict[str, Any]
    held_out: KeptForecasts | None = None

    def predict(
        self,
        seen: Panel,
        horizon: int,
        future: Panel | None,
        lowest: float | None,
        *,
        coverage: float | None = None,
        quantiles: Sequence[float] = (),
    ) -> Forecast:
        """Forecast the steps after the end of a panel.

        Args:
            seen: The series up to now, in the steps of the training.
            horizon: Number of steps.
            future: The channels known ahead, in the steps to forecast.
            lowest: Lowest value of forecasts and intervals.
            coverage: Share of the observations that the intervals should contain. If None, that of the training.
            quantiles: Levels of quantiles to forecast too.
        """
        trained_horizon = self.ensemble.maker.horizon
        if self.intervals is None and (coverage is not None or quantiles):
            raise InputError(
                "Expected a forecaster with intervals for another coverage or quantiles, got one without: too few "
                "steps were held out. Train on a longer series."
            )
        if coverage is None:
            coverage = float(self.config["settings"]["coverage"])
        values = self.ensemble.run_freely(seen, horizon, self._check_future(seen, horizon, future), lowest)
        ends_at = self._intervals_around(values, seen, lowest)
        low, high = ends_at(coverage)
        further = f"Steps after the first {trained_horizon} are forecast from forecasts."
        if self.intervals is not None:
            further += " Their intervals are extrapolated: no held-out forecast was that long."
        return Forecast(
            values,
            low,
            high,
            seen.future_times(horizon),
            seen.nodes,
            seen.channels[: seen.num_targets],
            coverage,
            (further,) if horizon > trained_horizon else (),
            {level: _quantile(level, values, ends_at) for level in quantiles},
        )

    def follow(self, seen: Panel, lowest: float | None) -> Intervals:
        """Return the intervals after the steps of a panel that were observed since the training.

        Args:
            seen: The series up to now, in the steps of the training.
            lowest: Lowest value of forecasts.
        """
        assert self.intervals is not None
        window, num_new = self.ensemble.maker.window, int((seen.times > self.tail.times[-1]).sum())
        num_new = min(num_new, seen.num_steps - window, MOST_FOLLOWED)
        if num_new <= 0 or not can_follow(self.intervals):
            return self.intervals
        newest = seen[-num_new - window :]
        ensemble, dtype = self.ensemble, next(self.ensemble.networks[0].parameters()).dtype
        windows = ensemble.maker.windows(newest, node_features=ensemble.node_features, dtype=dtype)
        # The last window forecasts the steps after the panel, of which none was observed.
        batches = [
            slice(start, min(start + FOLLOWED_AT_ONCE, num_new)) for start in range(0, num_new, FOLLOWED_AT_ONCE)
        ]
        forecasts = np.concatenate([ensemble.forecast(windows, batch, lowest) for batch in batches])
        return follow_newer(self.intervals, newest, range(window, window + num_new), forecasts, ensemble.maker)

    def explain(self) -> CoefficientReport:
        """Return the analysis of c, averaged over layers and networks."""
        network = ChosenNetwork.kept_in(self.config)
        settings = self.config["settings"] | ({} if network is None else network.settings)
        # Embedded windows are latent states too.
        states: Literal["latent", "physical"] = "physical" if settings["states"] == "physical" else "latent"
        tolerance = LOOSE_TOLERANCE if states == "physical" else DEFAULT_TOLERANCE
        return replace(explain(self.coefficients.mean(axis=0), tolerance=tolerance), states=states)

    def lowest_of(self, settings: ForecasterSettings) -> float | None:
        """Return the lowest value of forecasts, given or usual for the series of the training."""
        return settings.lowest_of(are_counts=self.config["data"]["are_counts"])

    def to_config(self, lowest: float | None) -> dict[str, Any]:
        """Return the settings for a new run folder. `lowest` may have changed since the training."""
        settings = {**self.config["settings"], "lowest": lowest}
        return {**self.config, "settings": settings, "data": {**self.config["data"], "times": _texts_of(self.tail)}}

    def write(self, folder: RunFolder) -> None:
        """Write the last files of a training, which mark its folder as finished."""
        maker, graph, features = self.ensemble.maker, self.ensemble.graph, self.ensemble.node_features
        arrays = {
            "center": maker.scaler.center,
            "scale": maker.scaler.scale,
            "tail": self.tail.values,
            "edges": graph.edge_index.numpy(),
            "edge_weights": graph.edge_weight.numpy(),
        }
        if self.tail.graph_steps is not None:
            arrays |= self.tail.graph_steps.to_arrays()
        if features is not None:
            arrays["node_features"] = features.values
        if self.intervals is not None:
            arrays |= {f"{OF_INTERVALS}{name}": array for name, array in self.intervals.to_arrays().items()}
            arrays[HAS_INTERVALS] = np.array(True)
        if self.held_out is not None:
            arrays |= {f"{OF_HELD_OUT}{name}": array for name, array in self.held_out.to_arrays().items()}
        # One row each, as weights have one row per network. Not `ascontiguousarray`, which adds an axis to a number.
        kept = {f"{KEPT}{name}": torch.from_numpy(np.array(each, order="C"))[None] for name, each in arrays.items()}
        folder.write_weights(self.ensemble.weights() | kept)
        folder.write_coefficients(self.coefficients)
        folder.finish(self.summary)

    def _intervals_around(
        self, values: Steps, seen: Panel, lowest: float | None
    ) -> Callable[[float], tuple[Steps, Steps]]:
        """Return a function from a coverage to the ends of the intervals. They are NaN if there are no intervals."""
        if self.intervals is None:
            missing = np.full(values.shape, np.nan)
            return lambda _: (missing, missing)
        maker, intervals = self.ensemble.maker, self.follow(seen, lowest)
        blocks = np.full((-(-len(values) // maker.horizon), maker.horizon, *values.shape[1:]), np.nan)
        blocks.reshape(-1, *values.shape[1:])[: len(values)] = values
        longer = extend_panel(seen[-maker.window :], values, None)
        starts = [maker.window + number * maker.horizon for number in range(len(blocks))]
        contexts = [
            Context.of(longer, range(start, start + 1), block[None], maker)
            for start, block in zip(starts, blocks, strict=True)
        ]

        def own_ends(of_coverage: Intervals) -> tuple[Steps, Steps]:
            ends = [apply_intervals(of_coverage, *each) for each in zip(blocks, contexts, strict=True)]
            low, high = (np.concatenate(each)[: len(values)] for each in zip(*ends, strict=True))
            return low, high

        powers = None
        if len(blocks) > 1:
            # By the coverage of the training: intervals of a higher one must contain those of a lower one.
            below, above = own_ends(intervals)
            powers = growth_of((above - below)[: maker.horizon])

        def ends_at(coverage: float) -> tuple[Steps, Steps]:
            low, high = own_ends(intervals.at(coverage))
            if powers is not None:
                low, high = widen_intervals(values, low, high, maker.horizon, powers)
            return _bounded(low, lowest), high

        return ends_at

    def _check_future(self, seen: Panel, horizon: int, future: Panel | None) -> Panel | None:
        """Return the channels known ahead in the steps to forecast, in whole blocks if the networks see them."""
        block, known = self.ensemble.maker.horizon, self.ensemble.maker.known
        if not known:
            return future
        if future is None:
            raise InputError(f"Expected future values of {', '.join(known)}, got none. Pass ", Argument("future"), ".")
        whole = seen.future_times(-(-horizon // block) * block)
        return cover_blocks(future, known, seen.future_times(horizon), whole)


def describe_data(panel: Panel, features: NodeFeatures | None, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return names and the checksum of the data, as the settings of a run folder store them."""
    graph = graph_of(panel)
    return {
        # First: what is needed to read the data back must not be replaced.
        **source,
        "nodes": list(panel.nodes),
        "steps": panel.num_steps,
        "channels": list(panel.channels),
        "num_targets": panel.num_targets,
        "node_features": [] if features is None else list(features.names),
        "are_counts": are_counts(panel),
        "time_zone": panel.time_zone,
        "edges": graph.num_edges,
        "direction": graph.direction,
        "is_weighted": graph.is_weighted,
        **({} if panel.graph_steps is None else {"graphs": len(panel.graph_steps.compact().graphs)}),
        "name": panel.name,
        "sha256": _checksum(panel, graph, features),
    }


def describe_frames(config: Mapping[str, Any], panel: Panel, maker: FrameMaker) -> dict[str, Any]:
    """Return the settings of a run folder with those of the frames, and the times of the last window."""
    return {
        **config,
        "data": {**config["data"], "times": _texts_of(tail_of(panel, maker.window))},
        "frames": {
            "window": maker.window,
            "horizon": maker.horizon,
            "seasons": [list(season) for season in maker.seasons],
            "step_length": maker.step_length,
            "has_mask": maker.has_mask,
        },
    }


def tail_of(panel: Panel, window: int) -> Panel:
    """Return the end of a panel that a forecast needs."""
    tail = panel[-max(window, FEWEST_KEPT) :]
    # A copy: what the user does to the panel later must not change the forecasts.
    return replace(tail, values=tail.values.copy())


def graph_of(panel: Panel) -> Graph:
    """Return the graph of a panel. If it has none, one without edges."""
    return panel.graph if panel.graph is not None else Graph(np.zeros((2, 0), dtype=np.int64), panel.num_nodes)


def _quantile(level: float, middle: Steps, ends_at: Callable[[float], tuple[Steps, Steps]]) -> Steps:
    """Return the forecast of a quantile: an end of an interval, or the forecast itself as the median."""
    if level == 0.5:
        return middle
    # 2 * 0.95 - 1 is not quite 0.9.
    low, high = ends_at(round(abs(2 * level - 1), 12))
    return low if level < 0.5 else high


def _bounded(values: np.ndarray, lowest: float | None) -> np.ndarray:
    return values if lowest is None else np.maximum(values, lowest)


def _checksum(panel: Panel, graph: Graph, features: NodeFeatures | None) -> str:
    """Return the SHA-256 of values, graph and features, so that a training is not resumed with other data."""
    graphs = [graph.edge_index.numpy(), graph.edge_weight.numpy()]
    if panel.graph_steps is not None:
        graphs = list(panel.graph_steps.to_arrays().values())
    arrays = [panel.values, *graphs]
    digest = hashlib.sha256()
    for array in [*arrays, *([] if features is None else [features.values])]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _texts_of(tail: Panel) -> list[str]:
    return [str(time) for time in tail.times]
