"""The paper's tables of coefficients and roots, and its consistency figure, from the printed numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdegnn.analysis.plots import plot_consistency, plot_roots, save_figure
from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, LOOSE_TOLERANCE
from tdegnn.experiments.paper import PENDULUM_COEFFICIENTS, PENDULUM_ROOT_MODULI


@dataclass(frozen=True)
class PrintedVector:
    """A printed vector, analyzed at the default tolerance and, because it was rounded in print, at a loose one."""

    order: int
    report: CoefficientReport
    loose_report: CoefficientReport
    printed_moduli: tuple[float, ...]

    @property
    def stability(self) -> str:
        """Stability in words."""
        if self.report.is_stable:
            return "stable"
        if self.loose_report.is_stable:
            return f"stable only at tolerance {LOOSE_TOLERANCE:g}"
        return f"unstable ({self.report.max_root_modulus:.3f})"

    def to_record(self) -> dict[str, Any]:
        """Return the analysis, the paper's moduli and the stability in words."""
        return {
            "order": self.order,
            "stability": self.stability,
            "printed_root_moduli": list(self.printed_moduli),
            **self.report.to_dict(),
        }


def analyze_printed_coefficients() -> list[PrintedVector]:
    """Analyze the four vectors that the paper prints for the pendulum."""
    return [
        PrintedVector(
            order,
            explain(vector, DEFAULT_TOLERANCE),
            explain(vector, LOOSE_TOLERANCE),
            PENDULUM_ROOT_MODULI[order],
        )
        for order, vector in PENDULUM_COEFFICIENTS.items()
    ]


def save_plots(vectors: list[PrintedVector], folder: Path) -> list[Path]:
    """Write the roots and the consistency figure into `folder`."""
    roots = plot_roots({f"order {vector.order}": vector.report for vector in vectors})
    consistency = plot_consistency({f"order {vector.order}": vector.report.coefficients for vector in vectors})
    return [save_figure(roots, folder / "roots.png"), save_figure(consistency, folder / "consistency.png")]
