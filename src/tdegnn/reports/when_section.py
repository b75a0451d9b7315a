"""The section on when errors are large: by steps ahead, and by the hour, weekday or month."""

from __future__ import annotations

from typing import Any

from tdegnn.markup import Html
from tdegnn.reports.colors import BLUE, ORANGE, SOFT_INK
from tdegnn.reports.forecast_facts import ForecastErrors
from tdegnn.reports.sections import Section, figure, number_table, rounded


def when_section(errors: ForecastErrors) -> Section:
    """Return the section on when errors are large."""
    by_step = errors.by_step()
    rows = [
        {"ahead": ahead + 1, "method": name, "error": rounded(value)}
        for name, values in by_step.items()
        for ahead, value in enumerate(values)
    ]
    horizon = errors.kept.horizon
    count_axis = {"tickMinStep": 1, "format": "d"}
    colors = {"this run": BLUE, "ridge": ORANGE, "last value": SOFT_INK}
    dashes = {"this run": [1, 0], "ridge": [6, 3], "last value": [2, 2]}
    color = {
        "field": "method",
        "type": "nominal",
        "sort": list(by_step),
        "scale": {"domain": list(by_step), "range": [colors[name] for name in by_step]},
        "legend": {"title": None, "symbolType": "stroke"},
    }
    spec: dict[str, Any] = {
        "data": {"values": rows},
        "mark": {"type": "line", "point": {"filled": True, "size": 40}},
        "encoding": {
            "x": {
                "field": "ahead",
                "type": "quantitative",
                "title": "steps ahead",
                "axis": count_axis,
                "scale": {"domain": [1, horizon], "nice": False},
            },
            "y": {"field": "error", "type": "quantitative", "title": "mean absolute error", "scale": {"zero": True}},
            "color": color,
            "strokeDash": {**color, "scale": {"domain": list(by_step), "range": [dashes[name] for name in by_step]}},
            "tooltip": [{"field": "method"}, {"field": "ahead", "title": "steps ahead"}, {"field": "error"}],
        },
        "height": 220,
    }
    if horizon == 1:
        spec["mark"] = {"type": "bar"}
        spec["encoding"] |= {
            "x": {"field": "error", "type": "quantitative", "title": "mean absolute error"},
            "y": {"field": "method", "type": "nominal", "sort": list(by_step), "title": None},
            "color": {**color, "legend": None},
        }
        del spec["encoding"]["strokeDash"]
        spec["height"] = 34 * len(by_step)
    table = number_table(
        ["steps ahead", *by_step],
        [[ahead + 1, *(f"{values[ahead]:.4g}" for values in by_step.values())] for ahead in range(horizon)],
    )
    title = "Error one step ahead" if horizon == 1 else "Error by steps ahead"
    blocks = [figure(title, "Mean absolute error of each method. Lower is better.", spec, numbers=table)]
    cycle, cells = errors.cycle, errors.by_part()
    if cycle is not None and cells:
        blocks.append(_cycle_figure(cells, cycle.unit, cycle.names))
    return Section(
        "When the errors are large",
        "Errors on the held-out steps: by steps ahead, and by the time of the day, week or year.",
        tuple(blocks),
    )


def _cycle_figure(cells: list[dict[str, Any]], unit: str, names: tuple[str, ...]) -> Html:
    largest = max(abs(cell["mean"]) for cell in cells) or 1.0
    rows = [cell | {"mean": rounded(cell["mean"], 3), "size": abs(cell["mean"]) / largest} for cell in cells]
    present = [name for name in names if any(cell["part"] == name for cell in cells)]
    spec = {
        "data": {"values": rows},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {
                "field": "part",
                "type": "ordinal",
                "sort": present,
                "title": unit,
                "axis": {"labelAngle": 0, "labelOverlap": True},
            },
            "y": {
                "field": "ahead",
                "type": "ordinal",
                "title": "steps ahead",
                "sort": "descending",
                "axis": {"labelOverlap": True},
            },
            "fill": {"condition": {"test": "datum.mean < 0", "value": ORANGE}, "value": BLUE},
            "fillOpacity": {
                "field": "size",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "range": [0.02, 0.95]},
                "legend": None,
            },
            "tooltip": [
                {"field": "part", "title": unit},
                {"field": "ahead", "title": "steps ahead"},
                {"field": "mean", "title": "observed minus forecast"},
                {"field": "count", "title": "values"},
            ],
        },
        "height": 220,
    }
    sentence = (
        f"Observed minus forecast, on average. Blue: forecasts are too low; orange: too high. The strongest color is "
        f"{largest:.3g}."
    )
    return figure(f"Residuals by {unit} and steps ahead", sentence, spec)
