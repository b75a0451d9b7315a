"""The figure of a forecast: the end of each series, the forecast, and the intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from tdegnn.analysis.plots import BLUE, INK, new_figure, styled
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.forecasting.forecast import Forecast

MOST_PANELS = 4
# Number of observed steps that are drawn per forecast step, and its minimum.
SEEN_FOR_EACH, FEWEST_SEEN = 12, 60


@styled
def plot_forecast(seen: Panel, forecast: Forecast, nodes: Sequence[str] | None = None) -> Figure:
    """Draw the end of the series of some nodes, and the forecast.

    Args:
        seen: The series before the forecast.
        forecast: The forecast.
        nodes: Names of the nodes to draw. If None, the first few.
    """
    chosen = [nodes] if isinstance(nodes, str) else list(forecast.nodes[:MOST_PANELS] if nodes is None else nodes)
    unknown = [node for node in chosen if node not in forecast.nodes]
    if unknown:
        raise InputError(f"Expected nodes of the forecast, such as {forecast.nodes[0]!r}, got {unknown[0]!r}.")
    figure, panels = new_figure(len(chosen), (4.2, 3.4))
    seen = seen[-max(FEWEST_SEEN, SEEN_FOR_EACH * len(forecast.times)) :]
    for panel, node in zip(panels, chosen, strict=True):
        place = forecast.nodes.index(node)
        panel.plot(seen.times, seen.values[:, place, 0], color=INK, linewidth=1.2, label="observed")
        # From the last observation on, so that both lines are one.
        times = seen.times[-1:].append(forecast.times)
        middle, low, high = (
            np.append(seen.values[-1:, place, 0], each[:, place, 0])
            for each in (forecast.values, forecast.low, forecast.high)
        )
        panel.plot(times, middle, color=BLUE, linewidth=2, label="forecast")
        panel.fill_between(
            times,
            low,
            high,
            color=BLUE,
            alpha=0.2,
            linewidth=0,
            label=f"{100 * forecast.coverage:g}% interval",
        )
        panel.set_title(node)
        if isinstance(seen.times, pd.DatetimeIndex):
            locator = AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
            panel.xaxis.set_major_locator(locator)
            panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if len(chosen) < len(forecast.nodes) and nodes is None:
        figure.suptitle(f"{len(chosen)} of {len(forecast.nodes)} nodes", fontsize=10, x=0.99, ha="right")
    panels[0].set_ylabel(forecast.channels[0])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
