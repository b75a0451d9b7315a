"""The report of a vector c in a notebook: the verdict, the numbers, and a small picture of the roots."""

from __future__ import annotations

from tdegnn.analysis.plain_words import say_order
from tdegnn.analysis.report import CoefficientReport, tidy_root
from tdegnn.markup import Html, element, table

# Half the width of the picture, in pixels.
HALF = 75


def show_coefficients(report: CoefficientReport) -> Html:
    """Return the report as HTML. Text and lines take the color of the page, so that dark themes work."""
    facts = table(
        ["", ""],
        [
            ["c", ", ".join(f"{value:.6g}" for value in report.coefficients)],
            ["roots", ", ".join(tidy_root(root) for root in report.roots)],
            ["largest modulus", f"{report.max_root_modulus:.4g}"],
            ["multiplicity of 1", f"{report.root_multiplicity} (at tolerance {report.tolerance:g})"],
        ],
    )
    text = element("div", element("p", element("strong", report.verdict)), element("p", say_order(report)), facts)
    return element("div", _draw_roots(report), text, style="display:flex;flex-wrap:wrap;gap:1em;align-items:center")


def _draw_roots(report: CoefficientReport) -> Html:
    scale = 0.9 * HALF / max(1.0, report.max_root_modulus)
    axes = [
        element("line", x1=-HALF, y1=0, x2=HALF, y2=0, stroke="currentColor", stroke_opacity=0.3),
        element("line", x1=0, y1=-HALF, x2=0, y2=HALF, stroke="currentColor", stroke_opacity=0.3),
        element("circle", r=f"{scale:.2f}", fill="none", stroke="currentColor"),
    ]
    dots = [
        element(
            "circle",
            cx=f"{root.real * scale:.2f}",
            cy=f"{-root.imag * scale:.2f}",
            r=4.5,
            fill="#d55e00" if abs(root) > 1 + report.tolerance else "#0072b2",
        )
        for root in report.roots
    ]
    return element(
        "svg",
        *axes,
        *dots,
        viewBox=f"{-HALF} {-HALF} {2 * HALF} {2 * HALF}",
        width=2 * HALF,
        height=2 * HALF,
        role="img",
        aria_label="Roots of c in the complex plane, with the unit circle",
    )
