"""The result of `Forecaster.predict`: numbers with names, times and intervals, as a frame or a panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.data.times.times import show_time

Values = Float[np.ndarray, "horizon nodes targets"]


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """Forecasts of all nodes.

    Attributes:
        values: The forecasts.
        low: Lower ends of the intervals. NaN if there is none.
        high: Upper ends of the intervals. NaN if there is none.
        times: The times of the forecasts.
        nodes: Names of the nodes.
        channels: Names of the channels.
        coverage: Share of the observations that the intervals should contain.
        notes: Remarks for the user.
        quantiles: Forecasts of quantiles by their level, such as 0.1, if any were asked for.
    """

    values: Values
    low: Values
    high: Values
    times: pd.Index
    nodes: tuple[str, ...]
    channels: tuple[str, ...]
    coverage: float
    notes: tuple[str, ...] = field(default=())
    quantiles: Mapping[float, Values] = field(default_factory=dict)

    def __repr__(self) -> str:
        first, last = show_time(self.times[0]), show_time(self.times[-1])
        when = f"{len(self.times)} steps, {first} to {last}" if len(self.times) > 1 else f"1 step, {first}"
        intervals = "no intervals" if bool(np.isnan(self.low).all()) else f"{100 * self.coverage:g}% intervals"
        return f"Forecast({when}; {len(self.nodes)} nodes; {', '.join(self.channels)}; {intervals})"

    def _repr_html_(self) -> str:
        from tdegnn.forecasting.notebook import show_forecast

        return show_forecast(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per time, node and channel: `time, node[, channel], forecast, low, high`.

        If quantiles were asked for, there is a column for each, such as `q0.1`.
        """
        horizon, num_nodes, num_channels = self.values.shape
        columns = {
            "time": np.repeat(self.times, num_nodes * num_channels),
            "node": np.tile(np.repeat(np.array(self.nodes, dtype=object), num_channels), horizon),
            "channel": np.tile(np.array(self.channels, dtype=object), horizon * num_nodes),
            "forecast": self.values.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            **{f"q{level:g}": values.ravel() for level, values in self.quantiles.items()},
        }
        frame = pd.DataFrame(columns)
        return frame if num_channels > 1 else frame.drop(columns="channel")

    def to_panel(self) -> Panel:
        """Return the forecasts as a panel, without intervals."""
        return Panel(self.values, self.times, self.nodes, self.channels, num_targets=len(self.channels))
