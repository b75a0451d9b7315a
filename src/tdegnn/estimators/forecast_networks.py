"""Trained networks as one: windows of a panel in, the mean of their forecasts out, in the units of the panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.estimators.forecast_folder import extend_panel
from tdegnn.estimators.node_features import NodeFeatures
from tdegnn.graph import Graph
from tdegnn.nets.physical_series import PhysicalSeriesNetwork
from tdegnn.nets.temporal import TemporalNetwork
from tdegnn.training.series_frames import FrameMaker, WindowSet
from tdegnn.training.series_training import SeriesTraining

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
