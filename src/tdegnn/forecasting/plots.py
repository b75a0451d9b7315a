"""The figure of a forecast: the end of each series, the forecast, and the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Bool
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from tdegnn.analysis.plots import BLUE, INK, new_figure, styled
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError, suggest
from tdegnn.forecasting.forecast import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 4
PANEL_SIZE = (4.2, 3.4)
# Number of observed steps that are drawn per forecast step, and its minimum.
SEEN_FOR_EACH, FEWEST_SEEN = 4, 40
# Width of the bar of an interval, as a share of a step, and its limits in points.
SHARE_OF_STEP, THINNEST, WIDEST = 0.6, 0.8, 6.0


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
        near = suggest(str(unknown[0]), forecast.nodes)
        raise InputError(f"Expected nodes of the forecast, such as {forecast.nodes[0]!r}, got {unknown[0]!r}.{near}")
    figure, panels = new_figure(len(chosen), PANEL_SIZE)
    seen = seen[-max(FEWEST_SEEN, SEEN_FOR_EACH * len(forecast.times)) :]
    points_per_step = 72 * PANEL_SIZE[0] / (len(seen.times) + len(forecast.times))
    width = min(max(SHARE_OF_STEP * points_per_step, THINNEST), WIDEST)
    for panel, node in zip(panels, chosen, strict=True):
        place = forecast.nodes.index(node)
        panel.plot(seen.times, seen.values[:, place, 0], color=INK, linewidth=1.2, label="observed")
        _draw_forecast(panel, seen, forecast, place)
        _draw_intervals(panel, forecast, place, width)
        panel.set_title(node)
        if isinstance(seen.times, pd.DatetimeIndex):
            locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
            panel.xaxis.set_major_locator(locator)
            panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if len(chosen) < len(forecast.nodes) and nodes is None:
        figure.suptitle(f"{len(chosen)} of {len(forecast.nodes)} nodes", fontsize=10, x=0.99, ha="right")
    panels[0].set_ylabel(forecast.channels[0])
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2 if len(chosen) == 1 else 4
    )
    return figure


def _draw_forecast(panel: Axes, seen: Panel, forecast: Forecast, place: int) -> None:
    """Draw the forecast from the last observation on, so that both lines are one. Dotted after the last interval."""
    times = seen.times[-1:].append(forecast.times)
    values = np.append(seen.values[-1:, place, 0], forecast.values[:, place, 0])
    last = int(np.flatnonzero(_has_interval(forecast, place)).max(initial=-1)) + 1 or len(forecast.times)
    panel.plot(times[: last + 1], values[: last + 1], color=BLUE, linewidth=2, label="forecast")
    if last < len(forecast.times):
        label = "forecast without interval"
        panel.plot(times[last:], values[last:], color=BLUE, linewidth=2, linestyle=":", label=label)


def _draw_intervals(panel: Axes, forecast: Forecast, place: int, width: float) -> None:
    """Draw one bar per forecast step, because each step has an interval of its own.

    A band would also cover the time between the last observation, which has no interval, and the first forecast.
    """
    has_interval = _has_interval(forecast, place)
    low, high = forecast.low[has_interval, place, 0], forecast.high[has_interval, place, 0]
    if len(low):
        label = f"{100 * forecast.coverage:g}% interval of each step"
        bars = panel.vlines(forecast.times[has_interval], low, high, color=BLUE, alpha=0.3, label=label)
        # Round ends would go beyond those of the interval: counts seem to fall below zero.
        bars.set(linewidth=width, capstyle="butt")


def _has_interval(forecast: Forecast, place: int) -> Bool[np.ndarray, " horizon"]:
    return np.asarray(np.isfinite(forecast.high[:, place, 0] - forecast.low[:, place, 0]))
