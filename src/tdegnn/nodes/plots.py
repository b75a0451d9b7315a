"""The figure of a classifier: which classes it takes for which, and whether it is as sure as it is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tdegnn.analysis.plots import BLUE, GRAY, INK, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Maximum number of classes whose counts are written into the cells, and whose names are written beside them.
MOST_COUNTED, MOST_NAMED = 10, 30
# Number of bins of probabilities, and the area of the dot of a bin that holds all nodes.
NUM_BINS, LARGEST_DOT = 10, 600


@styled
def plot_classes(
    names: Sequence[str], truth: Int64[np.ndarray, " nodes"], probabilities: Float[np.ndarray, "nodes classes"]
) -> Figure:
    """Draw the true class of nodes against the predicted one, and the share that is right by the probability given.

    Args:
        names: Names of the classes.
        truth: The number of the true class of each node.
        probabilities: The probability of each class.
    """
    size = min(9.0, max(4.4, 2.4 + 0.3 * len(names)))
    figure, panels = new_figure(2, (size, size))
    _draw_confusion(panels[0], names, truth, probabilities.argmax(axis=1))
    _draw_reliability(panels[1], truth, probabilities)
    keys = [
        Line2D([], [], color=GRAY, label="as sure as it is right"),
        Line2D([], [], color=BLUE, marker="o", label="what was reached (area of a dot: share of the nodes)"),
    ]
    # Dots and lines may be anywhere in their panel, so what they are stands below it.
    figure.legend(handles=keys, loc="outside lower right", fontsize=9, ncols=2)
    return figure


def _draw_confusion(
    panel: Axes,
    names: Sequence[str],
    truth: Int64[np.ndarray, " nodes"],
    predicted: Int64[np.ndarray, " nodes"],
) -> None:
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (truth, predicted), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.grid(visible=False)
    if len(names) <= MOST_COUNTED:
        for (row, column), count in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.6 else INK
            panel.text(column, row, str(count), ha="center", va="center", fontsize=9, color=color)
    if len(names) <= MOST_NAMED:
        is_long = sum(map(len, names)) > 24
        panel.set_xticks(range(len(names)), names, rotation=90 if is_long else 0)
        panel.set_yticks(range(len(names)), names)
    panel.set(xlabel="predicted class", ylabel="true class")
    panel.set_title(f"{(truth == predicted).mean():.1%} of {len(truth)} nodes are right")


def _draw_reliability(
    panel: Axes, truth: Int64[np.ndarray, " nodes"], probabilities: Float[np.ndarray, "nodes classes"]
) -> None:
    sure, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    bins = np.minimum((sure * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    in_bins = [bins == each for each in np.unique(bins)]
    given, reached = (np.array([values[each].mean() for each in in_bins]) for values in (sure, is_right))
    areas = [LARGEST_DOT * each.mean() for each in in_bins]
    lowest = 1 / probabilities.shape[1]
    panel.plot([lowest, 1], [lowest, 1], color=GRAY, linewidth=1.5)
    panel.plot(given, reached, color=BLUE, linewidth=1.5)
    panel.scatter(given, reached, s=areas, color=BLUE, alpha=0.6, linewidth=0)
    panel.set(xlim=(min(lowest, given.min()) - 0.03, 1.05), ylim=(-0.05, 1.08))
    panel.set(xlabel="probability of the predicted class", ylabel="share that is right")
    panel.set_title("Below the line: too sure")
