"""The sections about forecasts: one node at a time here, then where and when errors are large, and the intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.forecasting.forecast import Forecast
from tdegnn.markup import element
from tdegnn.reports.coverage_section import coverage_section
from tdegnn.reports.forecast_facts import ForecastErrors
from tdegnn.reports.node_series import series_of_nodes
from tdegnn.reports.sections import Section, to_script
from tdegnn.reports.when_section import when_section
from tdegnn.reports.where_section import where_section


def forecast_sections(
    fitted: FittedForecaster, errors: ForecastErrors, forecast: Forecast | None, coordinates: Any, num_runs: int
) -> list[Section]:
    """Return the sections about the forecasts of a forecaster.

    Args:
        fitted: What was learned.
        errors: Errors on held-out steps.
        forecast: Forecasts of the steps after the series. None if they need values that are known ahead.
        coordinates: Where the nodes are. None if it is not known.
        num_runs: Number of runs that share the page.
    """
    facts = fitted.summary.get("intervals") or {}
    coverage = facts.get("coverage")
    sections = [
        _one_node(fitted, errors, forecast, num_runs),
        where_section(fitted, errors, coordinates, coverage),
        when_section(errors),
    ]
    if coverage is not None:
        sections.append(coverage_section(coverage, facts["method"]))
    return sections


def _one_node(fitted: FittedForecaster, errors: ForecastErrors, forecast: Forecast | None, num_runs: int) -> Section:
    tail = fitted.tail
    data = series_of_nodes(
        errors.kept, forecast, tail.nodes, tail.channels[: tail.num_targets], errors.worst_first, num_runs
    )
    choices = [element("option", name, value=number) for number, name in enumerate(data["nodes"])]
    targets = [element("option", name, value=number) for number, name in enumerate(data["channels"])]
    hidden = f" {data['hidden']:,} nodes with smaller errors are left out of this page." if data["hidden"] else ""
    controls = element(
        "div",
        element("label", "Search ", element("input", type="search", class_="find", placeholder="part of a name")),
        element("label", "Node ", element("select", *choices, class_="node")),
        element("label", "Channel ", element("select", *targets, class_="channel"), hidden=len(targets) < 2),
        element(
            "span",
            *(
                element("button", text, type="button", class_=f"zoom {name}", aria_label=label)
                for name, text, label in (
                    ("earlier", "\u2190", "Earlier"),
                    ("in", "+", "Zoom in"),
                    ("out", "\u2212", "Zoom out"),
                    ("later", "\u2192", "Later"),
                    ("all", "All", "Show all steps"),
                )
            ),
            class_="buttons",
        ),
        class_="controls",
    )
    count = errors.kept.horizon
    each = "every step" if count == 1 else f"every {count} steps"
    shaded = ""
    if not np.isnan(errors.kept.low).all() or forecast is not None:
        shaded = (
            " Shaded: intervals, from the first step of a forecast on, where they were not learned from the same steps."
        )
    sentence = (
        f"Gray: observed. Blue: forecasts of held-out steps, made {each} by networks that had not seen these steps. "
        f"Orange: what comes next.{shaded}{hidden}"
    )
    picture = element(
        "figure",
        controls,
        element("p", sentence, class_="how"),
        element("div", class_="plot", role="img", aria_label="Observed values and forecasts of the chosen node"),
        element("p", class_="status", role="status", aria_live="polite"),
        to_script(data),
        class_="card wide series",
    )
    lead = "Choose a node to see its forecasts. Drag the picture to move in time, or use the buttons to zoom."
    return Section("Forecasts, node by node", lead, (picture,))
