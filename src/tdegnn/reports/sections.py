"""What a page shows of a run: its facts, its scores, and sections of figures, each with a sentence that explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tdegnn.analysis.report import CoefficientReport
from tdegnn.markup import Html, element, table

# Characters that could end a script element, or that old JavaScript does not take in text.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Scores:
    """The score of a run beside those of simpler methods.

    Attributes:
        columns: Names of the scores.
        rows: Scores by method, that of the run first. None if there is none.
        is_error: Whether lower is better.
        measured: On what they were measured, in one sentence.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    is_error: bool
    measured: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its title.
        lead: One or two plain sentences on what is to be seen.
        blocks: Figures and tables.
        layout: Class of the element that holds them: `"grid"`, or `"grid thirds"` for small figures.
    """

    title: str
    lead: str
    blocks: tuple[Html, ...]
    layout: str = "grid"


@dataclass(frozen=True, eq=False)
class Run:
    """What a page shows of a run.

    Attributes:
        name: Its name, such as that of its folder.
        kind: What it does, such as "Forecaster".
        facts: What was fitted on what: names and values.
        headline: How good it is, in one sentence.
        scores: Its score beside those of simpler methods.
        report: What its mean c says.
        verdict: The same in one sentence for everybody.
        data_digest: Digest of the data. Runs of different data cannot be compared.
        sections: Everything else.
        notes: Remarks for the user.
    """

    name: str
    kind: str
    facts: Mapping[str, str]
    headline: str
    scores: Scores
    report: CoefficientReport
    verdict: str
    data_digest: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = field(default=())


def to_script(data: Any, **attributes: str) -> Html:
    """Return data for scripts, as JSON in an element that nothing in the data can close."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escaped in UNSAFE.items():
        text = text.replace(character, escaped)
    return element("script", Html(text), type="application/json", **attributes)


def figure(
    title: str,
    sentence: str,
    spec: Mapping[str, Any],
    *,
    numbers: Html | None = None,
    class_: str = "",
) -> Html:
    """Return a figure: a title, one sentence, and a Vega-Lite picture.

    Args:
        title: What it shows.
        sentence: How to read it.
        spec: The picture, without sizes and colors that all pictures share.
        numbers: A table of the same numbers, which the reader can open.
        class_: Classes of the element, for its size.
    """
    return element(
        "figure",
        element("h4", title),
        element("p", sentence, class_="how"),
        element("div", class_="plot", role="img", aria_label=f"{title}. {sentence}"),
        to_script(spec),
        Html() if numbers is None else element("details", element("summary", "Numbers"), numbers),
        class_=f"card {class_}".strip(),
    )


def number_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Html:
    """Return a table of numbers that scrolls on small screens, and can be scrolled with the keyboard."""
    return element(
        "div", table(columns, rows, class_="numbers"), class_="scroll", tabindex=0, role="group", aria_label="Table"
    )


def rounded(values: Any, digits: int = 4) -> Any:
    """Return numbers with a few significant digits, nested as they are. Those that are not finite become None."""
    if isinstance(values, list | tuple):
        return [rounded(value, digits) for value in values]
    if values is None or not isfinite(values):
        return None
    short = float(f"{values:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def count(number: int, name: str) -> str:
    """Return a number of things in words, such as "1 node" or "1,500 nodes"."""
    return f"1 {name}" if number == 1 else f"{number:,} {name}s"


def name_parts(network: Any) -> str:
    """Return the spatial term and the rule for c of a network, by their classes."""
    operator, rule = network.operator, network.coefficients
    # The rate of a network's layer is named after it.
    layer = getattr(operator, "backbone", None)
    name = type(operator).__name__ + ("" if layer is None else f"({type(layer).__name__})")
    return f"{name} in space, {type(rule).__name__} in time"
