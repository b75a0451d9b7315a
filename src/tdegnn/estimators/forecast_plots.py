"""The picture of a forecast: the end of each series, what is expected, and the intervals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tdegnn.analysis.plots import BLUE, INK, new_figure, styled
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.estimators.forecast import Forecast

MOST_PANELS = 4


@styled
def plot_forecast(seen: Panel, forecast: Forecast, nodes: Sequence[str] | None = None) -> Figure:
    """Draw some nodes; the first few without names.

    Args:
        seen: What came before the forecast.
        forecast: What is expected.
        nodes: Names of the nodes to draw.
    """
    chosen = list(forecast.nodes[:MOST_PANELS] if nodes is None else nodes)
    unknown = [node for node in chosen if node not in forecast.nodes]
    if unknown:
        raise InputError(f"Expected nodes of the forecast, such as {forecast.nodes[0]!r}, got {unknown[0]!r}.")
    figure, panels = new_figure(len(chosen), (4.2, 3.4))
    for panel, node in zip(panels, chosen, strict=True):
        place = forecast.nodes.index(node)
        panel.plot(seen.times, seen.values[:, place, 0], color=INK, linewidth=1.2, label="observed")
        panel.plot(forecast.times, forecast.values[:, place, 0], color=BLUE, linewidth=2, label="forecast")
        panel.fill_between(
            forecast.times,
            forecast.low[:, place, 0],
            forecast.high[:, place, 0],
            color=BLUE,
            alpha=0.2,
            linewidth=0,
            label=f"{forecast.coverage:.0%} interval",
        )
        panel.set_title(node)
        panel.tick_params(axis="x", rotation=30)
    panels[0].set_ylabel(forecast.channels[0])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
