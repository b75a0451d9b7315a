"""The picture of a backtest: errors by step of the horizon, and differences to the forecaster with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from tdegnn.analysis.plots import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, new_figure, styled
from tdegnn.forecasting.held_out import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tdegnn.forecasting.backtests.result import Backtest

COLORS = (ORANGE, GREEN, RED, PURPLE, "#0891b2", "#a16207", "#db2777", "#4d7c0f", GRAY)
MARKERS = "osD^vPX"
# From this ratio of the largest to the smallest error on, the axis is logarithmic.
FAR = 4


@styled
def plot_backtest(backtest: Backtest) -> Figure:
    """Draw the mean absolute error by step of the horizon, and how much more it is than that of the forecaster."""
    names = list(backtest.means())
    others = [name for name in names if name != OURS]
    look = {OURS: (BLUE, "o")} | {
        name: (COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]) for place, name in enumerate(others)
    }
    figure, panels = new_figure(2 if others else 1, (5.2, max(3.6, 1.6 + 0.3 * len(names))))
    _draw_steps(panels[0], backtest, names, look)
    if others:
        _draw_differences(panels[1], backtest, others, look)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
    return figure


def _draw_steps(panel: Axes, backtest: Backtest, names: list[str], look: dict[str, tuple[str, str]]) -> None:
    table = backtest.by_step()
    for name in names:
        rows, (color, marker) = table[table["method"] == name], look[name]
        width, order = (2.6, 3) if name == OURS else (1.3, 2)
        line = panel.plot(rows["step"], rows["mae"], color=color, marker=marker, markersize=4, label=name)[0]
        line.set(linewidth=width, zorder=order)
    lowest, highest = table["mae"].min(), table["mae"].max()
    if lowest > 0 and highest > FAR * lowest:
        # One bad method must not press all others together.
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_locator(NullLocator())
    panel.set_xlim(0.7, backtest.horizon + 0.3)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panel.set_xlabel("steps ahead")
    panel.set_ylabel("mean absolute error")
    panel.set_title(f"Error from {backtest.num_origins} origins")


def _draw_differences(panel: Axes, backtest: Backtest, others: list[str], look: dict[str, tuple[str, str]]) -> None:
    differences = {name: backtest.differences()[name]["mae"] for name in others}
    # Methods that are far behind are named at the edge.
    edge = backtest.means()[OURS]["mae"]
    near = [name for name in others if not differences[name].difference > edge]
    panel.axvline(0.0, color=BLUE, linewidth=2.0)
    for place, name in enumerate(others):
        found, (color, marker) = differences[name], look[name]
        if name not in near:
            panel.annotate(f"{found.difference:+.3g} \u2192", (0.99, place), xycoords=("axes fraction", "data"),
                           color=color, ha="right", va="center")  # fmt: skip
            continue
        if np.isfinite(found.low):
            panel.plot([found.low, found.high], [place, place], color=color, linewidth=2.0)
        panel.plot([found.difference], [place], color=color, marker=marker, markersize=6)
    panel.margins(x=0.15)
    panel.set_yticks(range(len(others)), others, color=INK)
    panel.set_ylim(len(others) - 0.5, -0.5)
    panel.set_xlabel("MAE minus that of the forecaster, 95% interval")
    panel.set_title("Right of the line: worse")
