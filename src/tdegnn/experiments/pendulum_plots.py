"""The pictures of the pendulum experiment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tdegnn.analysis.order import show_share
from tdegnn.analysis.plots import (
    BLUE,
    GRAY,
    GREEN,
    INK,
    ORANGE,
    RED,
    new_figure,
    plot_consistency,
    plot_roots,
    save_figure,
    styled,
)
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.experiments.noisy_pendulum import NoisyPendulum
from tdegnn.experiments.pendulum import BOB, ROLL_OUT_STEPS, PendulumResult

# Three swings: enough to see the noise and what is behind it.
SHOWN_STEPS = 200
COLORS = {"naive": GRAY, "LSTM, one state": RED, "LSTM, two states": ORANGE, "TDE-GNN, order 2": BLUE}


@styled
def plot_prediction(result: PendulumResult) -> Figure:
    """Plot free runs from the first test step, their errors, and how fast each model learned."""
    figure, (run, error, learning) = new_figure(3, (5.0, 4.0))
    start, _ = result.data.bounds["test"]
    truth = result.data.states[0, start : start + ROLL_OUT_STEPS, BOB, -1].cpu().numpy()
    step_size = result.data.simulation.step_size
    times = (start + np.arange(ROLL_OUT_STEPS)) * step_size
    run.plot(times, truth, color=INK, linewidth=5, alpha=0.25, label="true")
    for model, color in COLORS.items():
        predicted = result[model].roll_out[:, -1]
        width = 2.2 if model.startswith("TDE") else 1.4
        run.plot(times, predicted, color=color, linewidth=width, label=model)
        error.semilogy(times, np.abs(predicted - truth) + 1e-9, color=color, linewidth=width)
        if result[model].curve:
            learning.semilogy(result[model].curve_steps, result[model].curve, color=color, linewidth=width)
    learning.axhline(result["naive"].validation_mse, color=GRAY, linewidth=1.4)
    run.set(
        title="100 steps on its own predictions",
        xlabel="time",
        ylabel="angle of the bob" if result.data.states.shape[-1] == 1 else "height of the bob",
    )
    error.set(title="Error of these runs", xlabel="time", ylabel="absolute error")
    learning.set(title="Learning", xlabel="training step", ylabel="one-step validation MSE")
    # In closed form there are few steps.
    learning.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*run.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


@styled
def plot_order(result: PendulumResult) -> Figure:
    """Plot how much each history length explains, and the coefficients it learned."""
    figure, (share, coefficients) = new_figure(2, (5.2, 3.8))
    orders = sorted(result.shares)
    shares = [max(result.shares[order], 0.0) for order in orders]
    found = result.dynamics_order
    share.bar(orders, shares, color=[BLUE if order == found else "#bfdbfe" for order in orders], width=0.6)
    share.axhline(EXPLAINED_ENOUGH, color=RED, linestyle="--", linewidth=1.2)
    # Above the bar of order 1, which explains the least.
    share.text(orders[0] - 0.3, EXPLAINED_ENOUGH - 0.05, "counts as\nexplained", color=RED, va="top", fontsize=9)
    for order, height in zip(orders, shares, strict=True):
        label = show_share(result.shares[order])
        is_tall = height > 0.2
        color = "white" if is_tall and order == found else INK
        share.text(order, height - 0.13 if is_tall else height + 0.02, label, ha="center", fontsize=9, color=color)
    share.set(
        title="Explained share of the o-th difference",
        xlabel="history length o",
        xticks=orders,
        ylim=(0, 1.08),
    )
    width = 0.8 / len(orders)
    for position, order in enumerate(orders):
        vector = result.by_order[order].coefficients or ()
        offsets = np.arange(1, len(vector) + 1) + (position - (len(orders) - 1) / 2) * width
        color = GREEN if order == 1 else BLUE
        coefficients.bar(offsets, vector, width=width, color=color, alpha=1.0 - 0.15 * position, label=f"o = {order}")
    coefficients.axhline(0, color=INK, linewidth=0.8)
    coefficients.set(title="Learned coefficients", xlabel="state (1 is the current one)", ylabel="c", xticks=orders)
    coefficients.legend(ncols=2, fontsize=9)
    return figure


@styled
def plot_noisy(noisy: NoisyPendulum, step_size: float) -> Figure:
    """Plot the noisy angle, its second differences, and the shares that the orders explain."""
    figure, (angle, difference, share) = new_figure(3, (5.0, 4.0))
    times = np.arange(SHOWN_STEPS) * step_size
    angle.plot(times, noisy.observed[:SHOWN_STEPS], ".", color=ORANGE, markersize=4, label="observed")
    angle.plot(times, noisy.angles[:SHOWN_STEPS], color=INK, linewidth=1.4, label="true")
    angle.set(title="The angle, as it is observed", xlabel="time", ylabel="angle of the bob")
    angle.legend(fontsize=9)
    for values, color, style in ((noisy.observed, ORANGE, "."), (noisy.angles, INK, "-")):
        difference.plot(times[1:-1], np.diff(values[:SHOWN_STEPS], 2), style, color=color, markersize=4, linewidth=1.4)
    difference.set(title="Its second differences", xlabel="time")
    trials = noisy.found.trials
    shares = [trial.explained_share or 0.0 for trial in trials]
    orders = [trial.order for trial in trials]
    share.bar(orders, shares, color=[BLUE if order == noisy.found.order else "#bfdbfe" for order in orders], width=0.6)
    share.axhline(EXPLAINED_ENOUGH, color=RED, linestyle="--", linewidth=1.2)
    share.set(title="Explained, without the noise", xlabel="order", xticks=orders, ylim=(0, 1.08))
    return figure


def save_plots(result: PendulumResult, folder: Path) -> list[Path]:
    """Write all pictures into `folder` and return their paths."""
    reports = {f"order {order}": model.report() for order, model in result.by_order.items() if order > 1}
    known = {name: report for name, report in reports.items() if report is not None}
    figures = {
        "prediction": plot_prediction(result),
        "order": plot_order(result),
        "roots": plot_roots(known),
        "consistency": plot_consistency({name: report.coefficients for name, report in known.items()}),
    }
    return [save_figure(figure, folder / f"{name}.png") for name, figure in figures.items()]
