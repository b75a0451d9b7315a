"""The figure of deep networks: their accuracy, and the size of states and gradients from layer to layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tdegnn.analysis.plots import BLUE, GRAY, INK, ORANGE, PURPLE, styled
from tdegnn.core.rules import System
from tdegnn.errors import InputError
from tdegnn.experiments.depth import SYSTEMS, TASKS
from tdegnn.experiments.node_results import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS: dict[System, str] = {"DE-GNN": GRAY, "TDE-GNN_D": ORANGE, "TDE-GNN_A": PURPLE, "TDE-GNN_S": BLUE}
NAMES: dict[System, str] = {
    "DE-GNN": "fixed, c = [1]",
    "TDE-GNN_D": "learned vector",
    "TDE-GNN_A": "attention",
    "TDE-GNN_S": "stable vector",
}
PANEL_SIZE = (4.6, 8.6)
ROWS = {"states": "size of the states (rms)", "gradients": "norm of the loss's gradient"}


@styled
def plot_depth(chosen: Mapping[tuple[str, System], Sequence[Mapping[str, Any]]]) -> Figure:
    """Plot one column per task: test accuracy, and states and gradients by layer, as medians over the splits.

    Args:
        chosen: From `choose_lines`.
    """
    tasks = [name for name in TASKS if any(task == name for task, _ in chosen)]
    if not tasks:
        raise InputError("Expected result lines of at least one task, got none.")
    figure = Figure(figsize=(PANEL_SIZE[0] * len(tasks), PANEL_SIZE[1]), layout="constrained")
    panels = figure.subplots(1 + len(ROWS), len(tasks), squeeze=False, height_ratios=(1.0, 1.3, 1.3))
    for column, name in zip(panels.T, tasks, strict=True):
        own = {system: chosen[name, system] for system in SYSTEMS if (name, system) in chosen}
        by_quarter = TASKS[name].quarters is not None
        (_draw_accuracy_by_quarter if by_quarter else _draw_accuracy)(column[0], own)
        column[0].set_title(f"{TASKS[name].title}, {TASKS[name].config.num_layers} layers")
        for panel, row in zip(column[1:], ROWS, strict=True):
            _draw_norms(panel, own, row)
        column[-1].set_xlabel("layer")
    panels[0, 0].set_ylabel("test accuracy, %")
    for panel, label in zip(panels[1:, 0], ROWS.values(), strict=True):
        panel.set_ylabel(label)
    handles = [Line2D([], [], color=COLORS[system], linewidth=2, label=NAMES[system]) for system in SYSTEMS]
    handles += [
        Line2D([], [], color=INK, linewidth=1.6, label="trained"),
        Line2D([], [], color=INK, linewidth=1.6, linestyle=":", label="untrained"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3 * len(tasks)))
    return figure


def _draw_accuracy(panel: Axes, by_system: Mapping[System, Sequence[Mapping[str, Any]]]) -> None:
    cells = {system: Cell.from_lines(lines) for system, lines in by_system.items()}
    lowest = min(cell.mean - cell.deviation for cell in cells.values())
    for position, (system, cell) in enumerate(cells.items()):
        panel.errorbar(position, cell.mean, cell.deviation, color=COLORS[system], marker="o", capsize=4, linewidth=2)
        panel.text(position + 0.12, cell.mean, f"{cell.mean:.1f}", va="center", fontsize=9)
    panel.set(xlim=(-0.5, len(cells)), xticks=(), ylim=(min(lowest - 3, 0.9 * lowest), None))


def _draw_accuracy_by_quarter(panel: Axes, by_system: Mapping[System, Sequence[Mapping[str, Any]]]) -> None:
    ticks = sorted({quarter for lines in by_system.values() for line in lines for quarter in _by_quarter(line)})
    for shift, (system, lines) in zip((-0.09, -0.03, 0.03, 0.09), by_system.items(), strict=False):
        means = [np.mean([_by_quarter(line)[tick] for line in lines if tick in _by_quarter(line)]) for tick in ticks]
        places = [int(tick) + shift for tick in ticks]
        panel.plot(places, 100 * np.array(means), color=COLORS[system], marker="o", linewidth=1.6)
    panel.set(xticks=[int(tick) for tick in ticks], xlabel="quarter of the chain lengths", ylim=(0, 105))


def _by_quarter(line: Mapping[str, Any]) -> Mapping[str, float]:
    accuracies: Mapping[str, float] = line["test_accuracy_by_quarter"]
    return accuracies


def _draw_norms(panel: Axes, by_system: Mapping[System, Sequence[Mapping[str, Any]]], row: str) -> None:
    for when, style in (("untrained", ":"), ("trained", "-")):
        for system, lines in by_system.items():
            median = _median([line[when][row] for line in lines])
            panel.semilogy(np.arange(len(median)), median, style, color=COLORS[system], linewidth=1.8)


def _median(rows: Sequence[Sequence[float | None]]) -> Float[np.ndarray, " layers"]:
    """Return the median by layer. NaN counts as infinite, and values without a logarithm are left out."""
    numbers = np.array([[np.inf if value is None else value for value in row] for row in rows])
    median = np.median(numbers, axis=0)
    return np.where(np.isfinite(median) & (median > 0), median, np.nan)
