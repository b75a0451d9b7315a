"""Plot coefficients: roots in the unit disc, stability regions, consistency of the stencil, coefficients by layer.

Every function returns a matplotlib `Figure`, and `save_figure` writes it to a file. None of them changes matplotlib's
global settings or opens a window.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch
from numpy.typing import ArrayLike

from tdegnn.analysis.report import CoefficientReport
from tdegnn.analysis.stencil import REGION_ROUNDING, as_array, boundary, real_limit, sine_consistency, stability_region
from tdegnn.errors import InputError, check_count
from tdegnn.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arguments = ParamSpec("Arguments")

BLUE, ORANGE, GREEN, RED, PURPLE, GRAY = "#2563eb", "#f59e0b", "#059669", "#dc2626", "#7c3aed", "#94a3b8"
INK, SHADE = "#1e293b", "#dbeafe"
# Letters of a headline per inch of the figure.
LETTERS_PER_INCH = 11
REGION_HEADLINE = (
    "How strongly neighbors may act before states grow without bound, for these weights c (hλ: step size times the "
    "rate at which neighbors change states)"
)
CONSISTENCY_HEADLINE = (
    "Which derivative the weights c measure: a sine goes in, and a c of second order gives its second derivative"
)
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e2e8f0",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def styled(plot: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Make a plot function draw in the style of this library without changing the caller's settings."""

    @wraps(plot)
    def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with matplotlib.rc_context(STYLE):
            return plot(*args, **kwargs)

    return draw


def new_figure(num_panels: int, panel_size: tuple[float, float] = (4.0, 3.6)) -> tuple[Figure, list[Axes]]:
    """Return a figure with a row of panels. Call it in a function decorated with `styled`."""
    if num_panels < 1:
        raise InputError("Expected at least one thing to draw, got none.")
    figure = Figure(figsize=(panel_size[0] * num_panels, panel_size[1]), layout="constrained")
    return figure, list(figure.subplots(1, num_panels, squeeze=False)[0])


def add_headline(figure: Figure, sentence: str) -> None:
    """Write a sentence above all panels, in as many lines as the width of the figure needs."""
    lines = textwrap.fill(sentence, int(LETTERS_PER_INCH * figure.get_figwidth()))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=11)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write the figure to `path`, completely or not at all, and return `path`. The folder is created if needed."""
    picture_format = path.suffix.removeprefix(".").lower() or "png"
    known = figure.canvas.get_supported_filetypes()
    if picture_format not in known:
        raise InputError(f"Expected a picture that ends in .png, .pdf or .svg, got {path.name}. Rename it.")
    content = BytesIO()
    figure.savefig(content, dpi=160, format=picture_format)
    write_whole(path, content.getvalue())
    return path


def _panel_size(num_panels: int) -> tuple[float, float]:
    """Return the size of a panel under a headline. A single panel is wider, so that the headline has few lines."""
    return (5.4, 5.0) if num_panels == 1 else (3.6, 4.3)


@styled
def plot_roots(reports: Mapping[str, CoefficientReport]) -> Figure:
    """Plot the roots of each vector in the complex plane, with the unit disc."""
    figure, panels = new_figure(len(reports), (3.4, 3.7))
    for panel, (name, report) in zip(panels, reports.items(), strict=True):
        panel.add_patch(Circle((0, 0), 1.0, facecolor="#eff6ff", edgecolor=BLUE, linewidth=1.5))
        roots = np.array(report.roots)
        is_outside = np.abs(roots) > 1 + report.tolerance
        for chosen, color, label in ((~is_outside, BLUE, "inside"), (is_outside, RED, "outside")):
            if chosen.any():
                panel.scatter(roots[chosen].real, roots[chosen].imag, s=55, color=color, zorder=3, label=label)
        if report.root_multiplicity > 1:
            panel.annotate(
                f"{report.root_multiplicity}-fold at 1",
                (1, 0),
                (0.12, 0.2),
                fontsize=9,
                arrowprops={"arrowstyle": "-"},
            )
        reach = max(1.3, 1.15 * report.max_root_modulus)
        panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="real part")
        stability = "stable" if report.is_stable else "unstable"
        largest = f"largest |root| {report.max_root_modulus:.3f}, tolerance {report.tolerance:g}"
        panel.set_title(f"{name}: {stability}")
        panel.text(0.03, 0.99, largest, transform=panel.transAxes, va="top", fontsize=9)
    panels[0].set_ylabel("imaginary part")
    return figure


@styled
def plot_stability_regions(
    vectors: Mapping[str, ArrayLike], num_points: int = 121, tolerance: float = REGION_ROUNDING
) -> Figure:
    """Plot the stability region of each vector in the plane of `z = h lambda`, and the curve that contains its edge."""
    check_count(2, num_points=num_points)
    figure, panels = new_figure(len(vectors), _panel_size(len(vectors)))
    add_headline(figure, REGION_HEADLINE)
    for panel, (name, vector) in zip(panels, vectors.items(), strict=True):
        curve = boundary(vector)
        reach = 0.62 * max(np.ptp(curve.real), np.ptp(curve.imag), 1.0)
        axis = np.linspace(-reach, reach, num_points)
        real = axis + (curve.real.max() + curve.real.min()) / 2
        region = stability_region(vector, real, axis, tolerance)
        # A single row or column of pixels is a line, which has no area: it hides under the curve.
        has_area = bool((region[1:, 1:] & region[1:, :-1] & region[:-1, 1:] & region[:-1, :-1]).any())
        panel.imshow(
            region & has_area,
            cmap=ListedColormap(["white", SHADE]),
            vmin=0,
            vmax=1,
            extent=(real[0], real[-1], -reach, reach),
            origin="lower",
        )
        panel.plot(curve.real, curve.imag, color=BLUE, linewidth=1.5)
        panel.set(title=name, xlabel="real part of hλ (below 0: decay)")
        words = _say_region(real_limit(vector, tolerance), has_area=has_area, is_empty=not region.any())
        panel.text(0.03, 0.99, words, transform=panel.transAxes, va="top", fontsize=9)
    panels[0].set_ylabel("imaginary part of hλ (oscillation)")
    keys = [
        Patch(color=SHADE, label="states stay bounded"),
        Line2D([], [], color=BLUE, label="one part of a state neither grows nor decays"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=1 if len(panels) == 1 else 2)
    return figure


def _say_region(limit: float, *, has_area: bool, is_empty: bool) -> str:
    """Say what a region contains.

    Args:
        limit: The smallest real hλ from which on all are in the region. 0 if there is none.
        has_area: Whether there is an area to shade.
        is_empty: Whether nothing that is drawn is in the region.
    """
    if has_area:
        return f"shaded, with all real hλ from {limit:.3g} to 0" if limit else "shaded, but no real hλ just below 0"
    if limit:
        return f"nothing is shaded: only real hλ from {limit:.3g} to 0"
    return f"nothing is shaded: {'states grow for every hλ' if is_empty else 'only a line or a speck'}"


@styled
def plot_consistency(vectors: Mapping[str, ArrayLike]) -> Figure:
    """Plot the stencil of each vector applied to a sine, with the second derivative scaled to fit (paper's figure)."""
    figure, panels = new_figure(len(vectors), _panel_size(len(vectors)))
    add_headline(figure, CONSISTENCY_HEADLINE)
    for panel, (name, vector) in zip(panels, vectors.items(), strict=True):
        result = sine_consistency(vector)
        panel.plot(
            result.times,
            result.second_derivative,
            color=ORANGE,
            linewidth=4,
            alpha=0.6,
            label="second derivative of y, scaled to fit",
        )
        panel.plot(
            result.times,
            result.residual,
            color=BLUE,
            linewidth=1.6,
            label="new value of y minus what c predicts",
        )
        panel.set(title=f"{name}\n{result.second_derivative_share:.1%} second derivative", xlabel="t")
    panels[0].set_ylabel("c applied to y = sin(2πt)")
    ncols = 1 if len(panels) == 1 else 2
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=ncols)
    return figure


@styled
def plot_coefficients_by_layer(coefficients: ArrayLike) -> Figure:
    """Plot the weight of each past state, layer by layer.

    Args:
        coefficients: Array of shape (layers, order), as in `Integration.coefficients` of one batch element.
    """
    matrix = as_array(coefficients)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"Expected coefficients of shape (layers, order), got {matrix.shape}.")
    figure, (panel,) = new_figure(1, (6.0, 3.8))
    largest = float(np.abs(matrix).max())
    image = panel.imshow(matrix.T, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    if matrix.size <= 144:
        for (layer, past), value in np.ndenumerate(matrix):
            color = "white" if abs(value) > 0.6 * largest else INK
            panel.text(layer, past, f"{value:.2g}", ha="center", va="center", fontsize=8, color=color)
    panel.grid(visible=False)
    panel.set(
        title="Temporal coefficients by layer",
        xlabel="layer",
        ylabel="state",
        xticks=range(matrix.shape[0]),
        yticks=range(matrix.shape[1]),
        yticklabels=["current", *[f"{past} before" for past in range(1, matrix.shape[1])]],
    )
    figure.colorbar(image, ax=panel, label="c")
    return figure
