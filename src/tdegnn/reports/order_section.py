"""The section on time: coefficients by layer, roots in the unit disc, the stability region, and the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from tdegnn.analysis.report import CoefficientReport, tidy_root
from tdegnn.analysis.stencil import boundary, real_limit, stability_region
from tdegnn.markup import Html, element
from tdegnn.reports.colors import BLUE, ORANGE, SHADED, SOFT_INK
from tdegnn.reports.sections import Section, figure, number_table, rounded

# Points of the grid on which the region is drawn, per axis, and of its boundary.
GRID, CURVE = 121, 181
# Layers and states up to which cells show their numbers.
MOST_CELLS = 60


def order_section(
    report: CoefficientReport, verdict: str, coefficients: Float[np.ndarray, "layers order"], reason: str
) -> Section:
    """Return the section on what c says.

    Args:
        report: The analysis of c, averaged over layers.
        verdict: The order in one plain sentence.
        coefficients: c of each layer.
        reason: Why this length of the history was taken. Empty if the user chose.
    """
    exact = element("p", element("strong", "In terms of roots: "), report.verdict, class_="how")
    chosen = element("p", reason, class_="how") if reason else Html()
    facts = element("div", element("p", verdict, class_="verdict"), exact, chosen, class_="card wide")
    return Section(
        "What it learned about time",
        "Each new state is a weighted sum of the last ones, plus what the neighbors add. The weights c say how the "
        "network, or the data, move on in time.",
        (facts, _weights(coefficients), _roots(report), _region(report)),
    )


def _weights(coefficients: Float[np.ndarray, "layers order"]) -> Html:
    order = coefficients.shape[1]
    names = ["newest", *(f"{past} before" for past in range(1, order))]
    rows = [
        {"layer": layer + 1, "state": names[past], "c": rounded(float(value), 3)}
        for (layer, past), value in np.ndenumerate(coefficients)
    ]
    axes = {
        "x": {"field": "layer", "type": "ordinal", "title": "layer", "axis": {"labelAngle": 0, "labelOverlap": True}},
        "y": {"field": "state", "type": "ordinal", "sort": names, "title": None},
    }
    layered: list[dict[str, Any]] = [
        {
            "mark": "rect",
            "encoding": {
                "fill": {"condition": {"test": "datum.c < 0", "value": ORANGE}, "value": BLUE},
                "fillOpacity": {
                    "field": "size",
                    "type": "quantitative",
                    "scale": {"range": [0.03, 0.5]},
                    "legend": None,
                },
                "tooltip": [{"field": "layer"}, {"field": "state"}, {"field": "c"}],
            },
        }
    ]
    if coefficients.size <= MOST_CELLS:
        layered.append({"mark": {"type": "text"}, "encoding": {"text": {"field": "c", "format": ".2~r"}}})
    spec = {
        "data": {"values": rows},
        "transform": [{"calculate": "abs(datum.c)", "as": "size"}],
        "encoding": axes,
        "layer": layered,
        "height": 34 * order,
        "usermeta": {"columns": len(coefficients)},
    }
    table = number_table(
        ["layer", *names],
        [[layer + 1, *(f"{value:.4g}" for value in values)] for layer, values in enumerate(coefficients)],
    )
    sentence = (
        "How much each past state counts in each layer. Blue weights add, orange ones subtract; each layer's sum to 1."
    )
    return figure("Weights c by layer", sentence, spec, numbers=table, class_="wide")


def _roots(report: CoefficientReport) -> Html:
    angles = np.linspace(0, 2 * np.pi, 121)
    circle = [
        {"x": round(float(np.cos(a)), 4), "y": round(float(np.sin(a)), 4), "place": i} for i, a in enumerate(angles)
    ]
    reach = max(1.25, 1.15 * report.max_root_modulus)
    roots = [
        {
            "x": float(root.real),
            "y": float(root.imag),
            "root": tidy_root(root),
            "modulus": rounded(abs(root), 5),
            "is_outside": bool(abs(root) > 1 + report.tolerance),
        }
        for root in report.roots
    ]
    spec = {
        "layer": [
            {
                "data": {"values": circle},
                "mark": {"type": "line", "color": SOFT_INK, "interpolate": "linear-closed"},
                "encoding": {**plane(reach, "real part", "imaginary part"), "order": {"field": "place"}},
            },
            {
                "data": {"values": roots},
                "mark": {"type": "point", "filled": True, "size": 130, "opacity": 0.85},
                "encoding": {
                    **plane(reach, "real part", "imaginary part"),
                    "fill": {
                        "condition": {"test": "datum.is_outside", "value": ORANGE},
                        "value": BLUE,
                    },
                    "shape": {"condition": {"test": "datum.is_outside", "value": "diamond"}, "value": "circle"},
                    "tooltip": [{"field": "root"}, {"field": "modulus"}],
                },
            },
        ],
        **SQUARE,
    }
    table = number_table(["root", "modulus"], [[root["root"], root["modulus"]] for root in roots])
    outside = sum(bool(root["is_outside"]) for root in roots)
    found = "All lie in the disc" if not outside else f"{outside} of {len(roots)} lie outside (orange diamonds)"
    sentence = f"Roots in the unit disc die out or stay; roots outside grow. {found}. 1 is always a root."
    return figure("Roots in the unit disc", sentence, spec, numbers=table, class_="square")


def _region(report: CoefficientReport) -> Html:
    curve = boundary(report.coefficients, CURVE)
    reach = 0.62 * max(float(np.ptp(curve.real)), float(np.ptp(curve.imag)), 1.0)
    middle = float(curve.real.max() + curve.real.min()) / 2
    up = np.linspace(-reach, reach, GRID)
    along, half = up + middle, reach / (GRID - 1)
    is_inside = stability_region(report.coefficients, along, up, report.tolerance)
    cells = [
        {
            "x": round(float(along[start] - half), 4),
            "x2": round(float(along[stop - 1] + half), 4),
            # Rows overlap a little: no gap may be seen between them.
            "y": round(float(up[row] - 1.3 * half), 4),
            "y2": round(float(up[row] + 1.3 * half), 4),
        }
        for row in range(GRID)
        for start, stop in _stretches(is_inside[row])
    ]
    limit = real_limit(report.coefficients, report.tolerance)
    kind = {"type": "quantitative", "axis": FEW_TICKS}
    x = {**kind, "title": "real part of hλ", "scale": {"domain": [middle - reach, middle + reach], "nice": False}}
    y = {**kind, "title": "imaginary part of hλ", "scale": {"domain": [-reach, reach], "nice": False}}
    points = [
        {"x": rounded(float(z.real)), "y": rounded(float(z.imag)), "place": place} for place, z in enumerate(curve)
    ]
    spec = {
        "layer": [
            {
                "data": {"values": cells},
                "mark": {"type": "rect", "fill": SHADED, "clip": True},
                "encoding": {
                    "x": {"field": "x", **x},
                    "x2": {"field": "x2"},
                    "y": {"field": "y", **y},
                    "y2": {"field": "y2"},
                },
            },
            {
                "data": {"values": points},
                "mark": {"type": "line", "color": BLUE, "strokeWidth": 1.5, "clip": True},
                "encoding": {"x": {"field": "x", **x}, "y": {"field": "y", **y}, "order": {"field": "place"}},
            },
        ],
        **SQUARE,
    }
    decays = f"Of real hλ, those from {limit:.3g} to 0 are in it." if limit else "No decay is in it, however slow."
    sentence = f"With a linear term s = λF and step size h, states stay bounded where hλ is shaded. {decays}"
    return figure("Stability region", sentence, spec, class_="square")


# Both axes have the same scale: the script makes such pictures as high as they are wide, less what the axes take.
SQUARE: dict[str, Any] = {"usermeta": {"square": 62}}
FEW_TICKS = {"tickCount": 5}


def plane(reach: float, x_title: str | None, y_title: str | None) -> dict[str, Any]:
    """Return the encoding of a square part of the plane around 0."""
    scale = {"domain": [-reach, reach], "nice": False}
    return {
        "x": {"field": "x", "type": "quantitative", "title": x_title, "scale": scale, "axis": FEW_TICKS},
        "y": {"field": "y", "type": "quantitative", "title": y_title, "scale": scale, "axis": FEW_TICKS},
    }


def _stretches(is_inside: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last + 1 of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_inside, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
