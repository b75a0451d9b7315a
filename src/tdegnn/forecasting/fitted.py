"""What a forecaster keeps besides its weights: how frames are made, graph, features, end of the series, intervals.

Numbers lie with the weights, names and times in the settings of the run folder. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.scalers import Scaler
from tdegnn.data.times.seasons import Season
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.intervals import ConformalIntervals
from tdegnn.forecasting.node_features import NodeFeatures
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.graph import Graph
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.temporal import TemporalNetwork

# What lies with the weights and is none.
KEPT = "kept."
# Steps of the end of the series that are kept at least: fewer do not tell days from business days.
FEWEST_KEPT = 16


class ForecastData(NamedTuple):
    """What a forecaster needs besides its weights.

    Attributes:
        maker: How frames are made.
        graph: The graph.
        features: What is known of each node.
        tail: The end of the series.
        widths: Widths of the intervals; None where there are none.
    """

    maker: FrameMaker
    graph: Graph
    features: NodeFeatures
    tail: Panel
    widths: Float[np.ndarray, "horizon nodes targets"] | None


def describe_forecast_data(
    panel: Panel, maker: FrameMaker, features: NodeFeatures, source: Mapping[str, Any]
) -> dict[str, Any]:
    """Names, times and settings of frames, as JSON keeps them."""
    graph = graph_of(panel)
    return {
        "data": {
            "nodes": list(panel.nodes),
            "steps": panel.num_steps,
            "channels": list(panel.channels),
            "num_targets": panel.num_targets,
            "node_features": list(features.names),
            "times": [str(time) for time in tail_of(panel, maker.window).times],
            "time_zone": panel.time_zone,
            "edges": graph.num_edges,
            "direction": graph.direction,
            "name": panel.name,
            "sha256": _checksum(panel, graph, features),
            **source,
        },
        "frames": {
            "window": maker.window,
            "horizon": maker.horizon,
            "seasons": [list(season) for season in maker.seasons],
            "step_length": maker.step_length,
            "has_mask": maker.has_mask,
        },
    }


def keep_forecast_data(
    maker: FrameMaker, graph: Graph, features: NodeFeatures, tail: Panel, intervals: ConformalIntervals | None
) -> dict[str, torch.Tensor]:
    """The numbers, each as one row, as weights are kept."""
    arrays = {
        "center": maker.scaler.center,
        "scale": maker.scaler.scale,
        "tail": tail.values,
        "edges": graph.edge_index.numpy(),
        "edge_weights": graph.edge_weight.numpy(),
    }
    if features.names:
        arrays["node_features"] = features.values
    if intervals is not None:
        arrays["widths"] = intervals.widths
    return {f"{KEPT}{name}": torch.from_numpy(np.ascontiguousarray(array))[None] for name, array in arrays.items()}


def read_forecast_data(
    config: Mapping[str, Any], stored: MutableMapping[str, torch.Tensor], known: Sequence[str]
) -> ForecastData:
    """What was kept; `stored` has the weights alone afterwards."""
    data, frames = config["data"], config["frames"]
    kept = {name.removeprefix(KEPT): stored.pop(name)[0].numpy() for name in list(stored) if name.startswith(KEPT)}
    maker = FrameMaker(
        frames["window"],
        frames["horizon"],
        (*data["channels"], *data.get("node_features", [])),
        data["num_targets"],
        tuple(known),
        Scaler(kept["center"], kept["scale"]),
        tuple(Season(*season) for season in frames["seasons"]),
        frames["step_length"],
        frames["has_mask"],
    )
    graph = Graph(kept["edges"], len(data["nodes"]), kept["edge_weights"], data["direction"])
    # Not `from_array`: a channel may have nothing observed at the end.
    tail = Panel(
        kept["tail"],
        _read_times(data),
        tuple(data["nodes"]),
        tuple(data["channels"]),
        data["num_targets"],
        graph,
        data["name"],
    )
    features = NodeFeatures.none(graph.num_nodes)
    if data.get("node_features"):
        features = NodeFeatures(kept["node_features"], tuple(data["node_features"]))
    return ForecastData(maker, graph, features, tail, kept.get("widths"))


def tail_of(panel: Panel, window: int) -> Panel:
    """The end of a panel that a forecast needs."""
    return panel[-max(window, FEWEST_KEPT) :]


def graph_of(panel: Panel) -> Graph:
    """The graph of a panel; one without edges where it has none."""
    return panel.graph if panel.graph is not None else Graph(np.zeros((2, 0), dtype=np.int64), panel.num_nodes)


def extend_panel(panel: Panel, forecast: Float[np.ndarray, "steps nodes targets"], future: Panel | None) -> Panel:
    """The panel with forecasts as if they had been observed, and with what is known of these steps."""
    times = panel.future_times(len(forecast))
    after = np.full((len(forecast), panel.num_nodes, panel.num_channels), np.nan)
    after[..., : panel.num_targets] = forecast
    if future is not None:
        rows = future.times.get_indexer(times)
        # Targets are what is forecast, though a future may hold what was observed later.
        for place_, name in list(enumerate(panel.channels))[panel.num_targets :]:
            if name in future.channels and (rows >= 0).all():
                after[..., place_] = future.values[rows][..., future.channels.index(name)]
    values = np.concatenate([panel.values, after])
    # A union, unlike `append`, knows the step still.
    return replace(panel, values=values, times=panel.times.union(times), notes=())


def _checksum(panel: Panel, graph: Graph, features: NodeFeatures) -> str:
    """SHA-256 of values, graph and features, so that a training is not resumed with others."""
    digest = hashlib.sha256()
    for array in (panel.values, graph.edge_index.numpy(), graph.edge_weight.numpy(), features.values):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _read_times(data: Mapping[str, Any]) -> pd.Index:
    """The times of the last window, as `_config` wrote them."""
    texts = data["times"]
    try:
        return pd.Index([int(text) if text.lstrip("-").isdigit() else float(text) for text in texts])
    except ValueError:
        # ISO 8601: whole seconds among others are written without decimals.
        dates = pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", utc=data["time_zone"] is not None))
        return dates if data["time_zone"] is None else dates.tz_convert(data["time_zone"])


ForecastNetwork: TypeAlias = TemporalNetwork | PhysicalSeriesNetwork
Values = Float[np.ndarray, "*windows horizon nodes targets"]


@dataclass(frozen=True, eq=False)
class ForecastNetworks:
    """Networks from seeds of their own, and what they need to see a panel.

    Attributes:
        networks: The networks.
        maker: How frames are made.
        graph: The graph of the nodes.
        node_features: What is known of the nodes.
        lowest: What forecasts do not go below; None where they may be anything.
    """

    networks: Sequence[ForecastNetwork]
    maker: FrameMaker
    graph: Graph
    node_features: NodeFeatures
    lowest: float | None = None

    def windows(
        self,
        panel: Panel,
        *,
        future: Panel | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> WindowSet:
        """All windows of a panel, with what is known of its nodes in each frame."""
        joined = self.node_features.joined_to(panel)
        return self.maker.windows(joined, future=future, device=device, dtype=dtype)

    def forecast(self, windows: WindowSet, numbers: slice) -> Values:
        """The mean of the networks, in the units of the panel."""
        frames, _ = windows.batch(numbers)
        with torch.no_grad():
            forecasts = [network.to(frames.window.device).eval()(frames, self.graph) for network in self.networks]
        return self.bounded(self.maker.to_units(torch.stack(forecasts).mean(dim=0).double().cpu().numpy()))

    def bounded(self, values: Values) -> Values:
        """Values that go no lower than they may."""
        return values if self.lowest is None else np.maximum(values, self.lowest)

    def run_freely(self, seen: Panel, horizon: int, future: Panel | None) -> Float[np.ndarray, "steps nodes targets"]:
        """Forecasts one after another, each from what is known and from those before it."""
        block = self.maker.horizon
        known, parts = seen[-self.maker.window :], [np.empty((0, seen.num_nodes, seen.num_targets))]
        while len(parts) * block < horizon + block:
            windows = self.windows(known, future=future, dtype=next(self.networks[0].parameters()).dtype)
            parts.append(self.forecast(windows, slice(-1, None))[0])
            known = extend_panel(known, parts[-1], future)
        return np.concatenate(parts)[:horizon]

    def mean_coefficients(self, windows: WindowSet) -> Float[np.ndarray, "layers order"]:
        """Their c for the last window, layer by layer."""
        frames, _ = windows.batch(slice(-1, None))
        with torch.no_grad():
            each = [network.integrate(frames, self.graph).coefficients for network in self.networks]
        # Attention has weights for each window: here there is one.
        by_layer = (
            torch.stack(each).mean(dim=0).flatten(2).mean(dim=-1) if each[0].dim() > 2 else torch.stack(each).mean(0)
        )
        return np.asarray(by_layer.double().cpu().numpy())


def members_of(training: SeriesTraining) -> list[ForecastNetwork]:
    """The networks of a training, with the weights they have now."""
    networks = [training.members.network(member) for member in range(len(training.members))]
    assert all(isinstance(network, ForecastNetwork) for network in networks)
    return cast(list[ForecastNetwork], networks)
