"""Puts runs into one page: their scores side by side, then each run, then the stencil explorer.

The page holds everything it needs: its style and scripts (`assets/`), and Vega and Vega-Lite (`vendor/`), which draw
the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from tdegnn.errors import InputError
from tdegnn.markup import Html, Page, element, join
from tdegnn.reports.explorer import explorer
from tdegnn.reports.sections import Run, Scores, Section, number_table
from tdegnn.version import __version__

STYLE = "assets/page.css"
LIBRARIES = ("vendor/vega.min.js", "vendor/vega-lite.min.js")
SCRIPTS = ("assets/stencil.js", "assets/charts.js", "assets/series.js", "assets/explorer.js")


def render(runs: Sequence[Run]) -> Page:
    """Return a page about some runs, at least one."""
    if not runs:
        raise InputError("Expected at least one run to report on, got none.")
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    main = join(
        _side_by_side(runs) if len(runs) > 1 else Html(),
        element("div", *(_article(number, run) for number, run in enumerate(runs)), class_="runs"),
        explorer([(run.name, run.report.coefficients) for run in runs]),
    )
    page = _read("assets/page.html")
    for name, text in {
        "title": join(title),
        "style": _read(STYLE),
        "navigation": _navigation(runs),
        "main": main,
        "version": join(__version__),
        "scripts": join(*(element("script", Html(_read(name))) for name in (*LIBRARIES, *SCRIPTS))),
    }.items():
        page = page.replace(f"<!-- {name} -->", text, 1)
    return Page(Html(page))


def _read(name: str) -> str:
    return files("tdegnn.reports").joinpath(name).read_text(encoding="utf-8")


def _navigation(runs: Sequence[Run]) -> Html:
    links = [element("a", run.name, href=f"#run-{number}") for number, run in enumerate(runs)] if len(runs) > 1 else []
    return join(*links, element("a", "Stencil explorer", href="#explorer"))


def _side_by_side(runs: Sequence[Run]) -> Html:
    """Return a table of all runs: what they are, their score, and what they learned about time."""
    kinds = {(run.scores.columns, run.data_digest) for run in runs}
    note = "All were fitted on the same data, and are measured in the same way."
    if len(kinds) > 1:
        note = "They were fitted on different data, so their scores cannot be compared with each other."
    rows = []
    for number, run in enumerate(runs):
        own = next(iter(run.scores.rows.values()))
        best = _best_other(run.scores)
        rows.append(
            [
                element("a", run.name, href=f"#run-{number}"),
                run.kind,
                f"{_show(own[0], run.scores)} ({run.scores.columns[0]})",
                "" if best is None else f"{_show(best[1], run.scores)} ({best[0]})",
                run.verdict,
            ]
        )
    columns = ["run", "kind", "score", "best simple method", "what it learned about time"]
    table = number_table(columns, rows)
    return element(
        "section", element("h2", "Side by side"), element("p", note, class_="lead"), table, class_="card compare"
    )


def _best_other(scores: Scores) -> tuple[str, float] | None:
    others = [(name, row[0]) for name, row in list(scores.rows.items())[1:] if row[0] is not None]
    if not others:
        return None
    return (min if scores.is_error else max)(others, key=lambda each: each[1])


def _article(number: int, run: Run) -> Html:
    facts = [join(element("dt", name), element("dd", value)) for name, value in run.facts.items()]
    notes = Html()
    if run.notes:
        items = element("ul", *(element("li", note) for note in run.notes))
        notes = element("section", element("h3", "Notes"), items, class_="notes")
    return element(
        "article",
        element(
            "header",
            element("p", run.kind, class_="kind"),
            element("h2", run.name),
            element("p", run.headline, class_="headline"),
        ),
        element(
            "div",
            element("div", element("h3", "What was fitted on what"), element("dl", *facts), class_="card"),
            element("div", element("h3", "Score"), _score_table(run.scores), class_="card"),
            class_="grid",
        ),
        *(_section(section) for section in run.sections),
        notes,
        id=f"run-{number}",
        class_="run",
    )


def _section(section: Section) -> Html:
    return element(
        "section",
        element("h3", section.title),
        element("p", section.lead, class_="lead"),
        element("div", *section.blocks, class_=section.layout),
    )


def _score_table(scores: Scores) -> Html:
    """Return the scores with a bar per row, whose length is the first score that is known."""
    column = 0 if next(iter(scores.rows.values()))[0] is not None else 1
    largest = max((abs(row[column] or 0.0) for row in scores.rows.values()), default=0.0) or 1.0
    rows = []
    for place, (name, row) in enumerate(scores.rows.items()):
        share = abs(row[column] or 0.0) / largest
        bar = element(
            "span", class_="bar own" if place == 0 else "bar", style=f"width:{100 * share:.1f}%", aria_hidden="true"
        )
        label = element("strong", name) if place == 0 else join(name)
        rows.append([join(label, element("span", bar, class_="track")), *(_show(value, scores) for value in row)])
    better = "Lower is better." if scores.is_error else "Higher is better."
    return join(
        element("p", f"{better} {scores.measured}", class_="how"), number_table(["method", *scores.columns], rows)
    )


def _show(value: float | None, scores: Scores) -> str:
    if value is None:
        return "\u2013"
    return f"{value:.4g}" if scores.is_error else f"{100 * value:.1f} %"
