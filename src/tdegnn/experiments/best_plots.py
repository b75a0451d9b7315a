"""The figure of the best networks: validation accuracy by step, for each rule for c, and how far test is below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tdegnn.analysis.plots import BLUE, GRAY, INK, ORANGE, PURPLE, styled
from tdegnn.errors import InputError
from tdegnn.experiments.best_rows import Row
from tdegnn.experiments.best_search import SYSTEM
from tdegnn.experiments.best_tables import BestResult, validation_of
from tdegnn.experiments.operator_rules import EULER, RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = dict(zip(RULES, (GRAY, ORANGE, PURPLE, BLUE), strict=True))
PANELS_PER_ROW, PANEL_SIZE = 4, (3.6, 3.2)
NUM_PLACES = 200
# A mean of fewer trainings than this says more about which of them ended than about the step.
FEWEST_CURVES = 5


@styled
def plot_curves(lines: Sequence[Mapping[str, Any]], found: Mapping[str, BestResult]) -> Figure:
    """Plot a panel per dataset: the mean validation accuracy over the splits by step, for each rule for c.

    Args:
        lines: Result lines of `tdegnn reproduce best`.
        found: What is known of each dataset, from `summarize_best`.
    """
    if not found:
        raise InputError("Expected the rows of at least one dataset, got none.")
    num_rows = -(-len(found) // PANELS_PER_ROW)
    num_columns = min(len(found), PANELS_PER_ROW)
    size = (PANEL_SIZE[0] * num_columns, PANEL_SIZE[1] * num_rows)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False)
    for panel, (name, result) in zip(panels.flat, found.items(), strict=False):
        _draw(panel, [line for line in lines if line["dataset"] == name], result)
        panel.set_title(name)
    for panel in panels.flat[len(found) :]:
        panel.set_visible(False)
    for row in panels:
        row[0].set_ylabel("accuracy, %")
    for panel in panels[-1]:
        panel.set_xlabel("training step")
    handles = [Line2D([], [], color=color, label=rule) for rule, color in COLORS.items()]
    handles += [
        Line2D([], [], color=INK, linestyle="--", label="best row: validation at the chosen steps"),
        Line2D([], [], color=INK, linestyle=":", label="best row: test"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 2 * num_columns))
    return figure


def mean_curve(
    curves: Sequence[Sequence[Sequence[int | float]]],
) -> tuple[Float[np.ndarray, " places"], Float[np.ndarray, " places"]]:
    """Return steps and the mean accuracy there, in percent, over the trainings that had not ended yet.

    Args:
        curves: Two or more pairs of step and validation accuracy, per training. Trainings end at different steps.
    """
    lasts = sorted((curve[-1][0] for curve in curves), reverse=True)
    places = np.linspace(0, lasts[min(FEWEST_CURVES, len(lasts)) - 1], NUM_PLACES)
    values = [
        np.interp(places, steps, accuracies, left=np.nan, right=np.nan)
        for steps, accuracies in map(np.transpose, curves)
    ]
    is_known = ~np.isnan(values).all(axis=0)
    return places[is_known], 100 * np.nanmean(np.array(values)[:, is_known], axis=0)


def _draw(panel: Axes, lines: Sequence[Mapping[str, Any]], result: BestResult) -> None:
    lowest = []
    for rule, color in COLORS.items():
        row = Row(rule, result.best.has_skip)
        record = result.configs[row].to_record()
        own = [line for line in lines if line["system"] == SYSTEM and line["configuration"] == record]
        # Some lines stand in two stages, and some are of other seeds.
        by_split = {line["split"]: line["curve"] for line in reversed(own) if len(line.get("curve", ())) > 1}
        if by_split:
            steps, accuracies = mean_curve(list(by_split.values()))
            panel.plot(steps, accuracies, color=color, linewidth=2.2 if rule == EULER else 1.4)
            lowest.append(np.quantile(accuracies, 0.15))
    best = result.rows[result.best]
    panel.axhline(validation_of(best), color=INK, linestyle="--", linewidth=1)
    panel.axhline(best.mean, color=INK, linestyle=":", linewidth=1.4)
    # The first steps of a training are far below all that matters.
    highest = max(validation_of(best), best.mean)
    panel.set_ylim(min([*lowest, best.mean]) - 1, highest + 0.1 * (highest - min([*lowest, best.mean])) + 0.2)
