"""The stencil explorer: change the weights c or move their roots. `assets/explorer.js` runs it."""

from __future__ import annotations

from collections.abc import Sequence

from tdegnn.analysis.report import NEARLY_NOTHING, ORDINALS
from tdegnn.analysis.stencil import ROUNDING
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE
from tdegnn.markup import Html, element
from tdegnn.reports.sections import to_script

# Vectors to start from.
KNOWN = (
    ("forward Euler", (1.0,)),
    ("leapfrog", (2.0, -1.0)),
    ("third difference", (3.0, -3.0, 1.0)),
    ("damped, order 3", (1.4, 0.2, -0.6)),
    ("BDF2", (4 / 3, -1 / 3)),
    ("unstable", (0.5, 1.2, -0.7)),
)
LONGEST = 8


def explorer(learned: Sequence[tuple[str, tuple[float, ...]]]) -> Html:
    """Return the explorer.

    Args:
        learned: Names of runs, and their mean c.
    """
    vectors = [*((f"learned: {name}", c) for name, c in learned), *KNOWN]
    choices = [element("option", name, value=number) for number, (name, _) in enumerate(vectors)]
    constants = {
        "tolerance": DEFAULT_TOLERANCE,
        "rounding": ROUNDING,
        "nearlyNothing": NEARLY_NOTHING,
        "ordinals": list(ORDINALS),
        "longest": LONGEST,
        "vectors": [list(c) for _, c in vectors],
    }
    signals = [element("option", name, value=name) for name in ("sine", "damped swing", "ramp", "step", "noise")]
    return element(
        "section",
        element("h2", "Stencil explorer"),
        element(
            "p",
            "The weights c of the last states decide how a recursion moves on in time. Change them, or move the roots "
            "in the plane with the mouse or the arrow keys, and see what happens.",
            class_="lead",
        ),
        element(
            "div",
            element(
                "div",
                element(
                    "div",
                    element("label", "Start from ", element("select", *choices, class_="preset")),
                    element(
                        "label", "Length ", element("input", type="number", class_="length", min=1, max=LONGEST, step=1)
                    ),
                    class_="controls",
                ),
                element("h3", "Weights c"),
                element("p", "The first one follows from the others: they sum to 1.", class_="how"),
                element("div", class_="weights"),
                class_="card",
            ),
            element(
                "div",
                element("h3", "Roots"),
                element(
                    "p",
                    "1 is always a root. Real roots move along the axis, others in pairs. Shift makes small steps.",
                    class_="how",
                ),
                element("div", class_="disc"),
                class_="card",
            ),
            element(
                "div",
                element("h3", "Verdict"),
                element("p", class_="verdict", role="status", aria_live="polite"),
                element("dl", class_="results"),
                class_="card",
            ),
            element(
                "div",
                element("h3", "The stencil on a signal"),
                element(
                    "div", element("label", "Signal ", element("select", *signals, class_="signal")), class_="controls"
                ),
                element(
                    "p",
                    "Gray: the signal y. Blue: what c predicts from the values before. Orange: y minus the prediction, "
                    "which is what the spatial term would have to add.",
                    class_="how",
                ),
                element(
                    "div",
                    class_="plot acting",
                    role="img",
                    aria_label="The signal, what c predicts, and the difference",
                ),
                class_="card",
            ),
            class_="grid explorer",
        ),
        to_script(constants, class_="constants"),
        id="explorer",
    )
