"""The picture of stable and free coefficients on the pendulum: free runs, roots, and how long the swing lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from tdegnn.analysis.plots import BLUE, GRAY, GREEN, INK, ORANGE, RED, styled
from tdegnn.errors import InputError
from tdegnn.experiments.stable_pendulum import (
    BOUND,
    FREE,
    PRINTED,
    RUN_STEPS,
    STABLE,
    SWING_STEPS,
    StablePendulumResult,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {FREE: ORANGE, STABLE: BLUE, PRINTED: RED}
NAMES = {FREE: "free c", STABLE: "stable c, 1 is a double root", PRINTED: "c as the paper prints it"}


@styled
def plot_stable_pendulum(results: Sequence[StablePendulumResult]) -> Figure:
    """Plot free runs of the first seed, the roots of all seeds, and the swings of all seeds over ten times as long."""
    by_name = {name: [result for result in results if result.contestant == name] for name in COLORS}
    missing = [name for name, found in by_name.items() if not found]
    if missing:
        raise InputError(f"Expected results of {', '.join(COLORS)}, got none of {missing[0]}.")
    figure = Figure(figsize=(14.0, 5.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(2.2, 1.1, 1.7))
    upper = figure.add_subplot(grid[0, 0])
    lower = figure.add_subplot(grid[1, 0], sharex=upper, sharey=upper)
    for panel, name in ((upper, FREE), (lower, STABLE)):
        _draw_run(panel, by_name[name][0], by_name[PRINTED][0])
    upper.tick_params(labelbottom=False)
    upper.set_title(f"{RUN_STEPS:,} steps on its own predictions")
    lower.set(xlabel="step", xlim=(0, RUN_STEPS), ylim=(-2.4, 2.4))
    _draw_all_roots(figure.add_subplot(grid[0, 1]), by_name)
    _draw_roots_near_one(figure.add_subplot(grid[1, 1]), by_name)
    _draw_swings(figure.add_subplot(grid[:, 2]), by_name)
    handles = [Line2D([], [], color=INK, linewidth=5, alpha=0.25, label="true pendulum")]
    handles += [Line2D([], [], color=color, linewidth=2, label=NAMES[name]) for name, color in COLORS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _draw_run(panel: Axes, result: StablePendulumResult, printed: StablePendulumResult) -> None:
    steps = np.arange(min(RUN_STEPS, len(result.run.angles)))
    panel.plot(steps, result.run.truth[steps], color=INK, linewidth=4, alpha=0.25)
    panel.plot(steps, result.run.angles[steps], color=COLORS[result.contestant], linewidth=1.3)
    # A run that grows without bound is drawn until it has left the picture.
    left_at = printed.run.num_bounded_steps
    drawn = steps[: left_at + 2]
    panel.plot(drawn, printed.run.angles[drawn], color=RED, linewidth=1.8)
    if result.contestant == FREE:
        told = f"beyond {BOUND:g} times the true amplitude after {left_at} steps"
        panel.text(left_at + 14, 1.92, told, fontsize=9, color=RED, va="top")
    for bound in (-BOUND, BOUND):
        panel.axhline(bound * np.abs(result.run.truth).max(), color=GRAY, linestyle="--", linewidth=1)
    panel.set(ylabel=f"angle, {result.contestant.split(',', maxsplit=1)[0]} c")


def _draw_all_roots(panel: Axes, by_name: Mapping[str, list[StablePendulumResult]]) -> None:
    _draw_roots(panel, by_name)
    panel.set(xlim=(-1.6, 1.35), ylim=(-1.2, 1.2), title="Roots of c, all seeds")
    furthest = max(by_name[PRINTED][0].report.roots, key=abs)
    panel.text(furthest.real, furthest.imag + 0.15, f"{abs(furthest):.2f}", fontsize=9, color=RED, ha="center")


def _draw_roots_near_one(panel: Axes, by_name: Mapping[str, list[StablePendulumResult]]) -> None:
    _draw_roots(panel, by_name)
    panel.set(xlim=(0.986, 1.014), ylim=(-0.011, 0.011), xlabel="real part", title="Near 1")
    panel.set(xticks=(0.99, 1.0, 1.01), yticks=(-0.01, 0.0, 0.01))
    panel.text(0.9992, -0.0095, "unit circle", color=GREEN, fontsize=9, ha="right")
    panel.text(0.9992, 0.0022, "double", color=BLUE, fontsize=9, ha="right")


def _draw_roots(panel: Axes, by_name: Mapping[str, list[StablePendulumResult]]) -> None:
    panel.add_patch(Circle((0, 0), 1.0, facecolor="#f0fdf4", edgecolor=GREEN, linewidth=1.5))
    for name, results in by_name.items():
        roots = np.concatenate([result.report.roots for result in results])
        if name == STABLE:
            # All have 1 as a root: a ring stays visible around the marks of the others.
            panel.scatter(roots.real, roots.imag, 95, facecolors="none", edgecolors=BLUE, linewidths=1.8, zorder=3)
        else:
            marker = "X" if name == PRINTED else "o"
            panel.scatter(roots.real, roots.imag, 48, COLORS[name], marker=marker, edgecolors="white", zorder=3)
    panel.set(aspect="equal", ylabel="imaginary part")


def _draw_swings(panel: Axes, by_name: Mapping[str, list[StablePendulumResult]]) -> None:
    for name in (FREE, STABLE):
        for result in by_name[name]:
            angles = result.run.relative_angles
            swings = angles[: len(angles) // SWING_STEPS * SWING_STEPS].reshape(-1, SWING_STEPS).max(axis=1)
            # Values outside of the picture may be too large to draw.
            drawn = np.fmin(swings, 100.0)
            panel.loglog(SWING_STEPS * np.arange(1, len(drawn) + 1), drawn, color=COLORS[name], linewidth=1.5)
    panel.axhline(1.0, color=INK, linewidth=5, alpha=0.25, zorder=1)
    panel.axhline(BOUND, color=GRAY, linestyle="--", linewidth=1)
    panel.axvline(RUN_STEPS, color=GRAY, linestyle="--", linewidth=1)
    panel.text(SWING_STEPS * 1.1, BOUND * 1.08, "twice the amplitude", fontsize=9)
    panel.text(RUN_STEPS * 0.94, 0.0235, "as far as on the left", fontsize=9, ha="right")
    panel.set(
        title="How the swing lasts, all seeds",
        xlabel="step",
        ylabel="largest angle of 100 steps (true amplitude: 1)",
        xlim=(SWING_STEPS, None),
        ylim=(0.02, 5.0),
        yticks=(0.03, 0.1, 0.3, 1.0, 3.0),
        yticklabels=("0.03", "0.1", "0.3", "1", "3"),
    )
