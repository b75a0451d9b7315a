"""Plot the result of the search for the order of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tdegnn.analysis.order_report import LowerDerivative, OrderFound
from tdegnn.analysis.order_trials import OrderTrial, percent_reached
from tdegnn.analysis.plots import BLUE, GRAY, GREEN, INK, ORANGE, add_headline, new_figure, styled
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Labels stand in one row above all bars, where neither the threshold nor an interval crosses them.
LABEL_HEIGHT, HIGHEST = 1.03, 1.12


@styled
def plot_order(found: OrderFound) -> Figure:
    """Plot the explained share of each order and, if there are any, the lower derivatives of the order found."""
    num_panels = 2 if found.derivatives else 1
    figure, panels = new_figure(num_panels, (5.6, 4.4))
    add_headline(figure, found.verdict)
    _draw_shares(panels[0], found)
    if found.derivatives:
        _draw_derivatives(panels[1], found)
    return figure


def _draw_shares(panel: Axes, found: OrderFound) -> None:
    panel.axhline(EXPLAINED_ENOUGH, color=INK, linewidth=1, linestyle="--")
    for trial in found.trials:
        _draw_trial(panel, trial, GREEN if trial.order == found.order else BLUE)
    panel.set(
        title="What each order explains of held-out data",
        xlabel="order, and share of resamples that chose it",
        ylabel=f"explained share ({EXPLAINED_ENOUGH:.0%} are enough)",
        xticks=[trial.order for trial in found.trials],
        xticklabels=[f"{trial.order}\n{percent_reached(trial.chosen)}" for trial in found.trials],
        xlim=(0.5, len(found.trials) + 0.5),
        yticks=[0, 0.2, 0.4, 0.6, 0.8, 1.0],
        ylim=(0, HIGHEST),
    )
    panel.grid(visible=False, axis="x")


def _draw_trial(panel: Axes, trial: OrderTrial, color: str) -> None:
    if trial.explained_share is None or trial.low is None or trial.high is None:
        panel.text(trial.order, 0.5, "hidden\nby noise", ha="center", va="center", color=GRAY)
        return
    panel.bar(trial.order, trial.explained_share, width=0.6, color=color)
    panel.vlines(trial.order, trial.low, trial.high, color=INK, linewidth=1.5)
    panel.text(trial.order, LABEL_HEIGHT, percent_reached(trial.explained_share, 1), ha="center", fontsize=9)


def _draw_derivatives(panel: Axes, found: OrderFound) -> None:
    ends = [_beside_leading(entry, end) for entry in found.derivatives for end in (entry.low, entry.high)]
    reach = 1.2 * max(0.1, *(abs(end) for end in ends))
    for entry in found.derivatives:
        low, middle, high = (_beside_leading(entry, weight) for weight in (entry.low, entry.weight, entry.high))
        color = ORANGE if entry.takes_part else GRAY
        panel.hlines(entry.order, low, high, color=color, linewidth=3)
        panel.plot(middle, entry.order, "o", color=color, markersize=8)
        words = entry.meaning.split(",")[0]
        # Two lines are short enough to end before the line at zero.
        text = f"$D_{entry.order}$ = {entry.weight:.3g}: {words}\n({entry.low:.3g} to {entry.high:.3g})"
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        panel.text(-0.95 * reach, entry.order + 0.16, text, fontsize=9, bbox=paper)
    panel.axvline(0, color=INK, linewidth=1)
    panel.set(
        title="Lower derivatives in the equation",
        xlabel=f"size of the term, where that of the derivative of order {found.order} is 1",
        ylabel="derivative of order",
        yticks=[entry.order for entry in found.derivatives],
        ylim=(0.5, len(found.derivatives) + 0.5),
        xlim=(-reach, reach),
    )
    panel.grid(visible=False, axis="y")


def _beside_leading(entry: LowerDerivative, weight: float) -> float:
    """Return a weight in units in which the leading term is one."""
    return weight * entry.size / abs(entry.weight) if entry.weight else 0.0
