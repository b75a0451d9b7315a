"""The sections about forecasts: one node at a time, where and when errors are large, and how often intervals hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.forecasting.forecast import Forecast
from tdegnn.markup import Html, element
from tdegnn.reports.forecast_facts import ForecastErrors
from tdegnn.reports.layout import MOST_EDGES, MOST_NODES, edges_between, places_by_graph, places_on_map
from tdegnn.reports.node_series import series_of_nodes
from tdegnn.reports.sections import Section, figure, number_table, rounded, to_script

# Number of nodes in the table of the worst ones.
WORST = 10
# Ends of the classes of the error relative to the last value, with a name and a color for each.
RELATIVE_ENDS = (0.5, 0.8, 1.0, 1.25)
RELATIVE_NAMES = ("below 0.5", "0.5 to 0.8", "0.8 to 1", "1 to 1.25", "above 1.25")
RELATIVE_COLORS = tuple(f"var(--scale-{number})" for number in range(1, 6))
BINS_OF_NODES = 0.05


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
        _where(fitted, errors, coordinates, coverage),
        _when(errors),
    ]
    if coverage is not None:
        sections.append(_coverage(coverage, facts["method"], errors))
    return sections


def _worst_first(errors: ForecastErrors) -> np.ndarray:
    return np.argsort(-np.nan_to_num(errors.by_node, nan=-1.0), kind="stable")


def _one_node(fitted: FittedForecaster, errors: ForecastErrors, forecast: Forecast | None, num_runs: int) -> Section:
    tail = fitted.tail
    data = series_of_nodes(
        errors.kept, forecast, tail.nodes, tail.channels[: tail.num_targets], _worst_first(errors), num_runs
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
        shaded = " Shaded: intervals, where there are some that were not learned from the same steps."
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


def _where(
    fitted: FittedForecaster, errors: ForecastErrors, coordinates: Any, coverage: dict[str, Any] | None
) -> Section:
    relative = errors.relative_by_node
    known = relative[~np.isnan(relative)]
    worse = int((known > 1).sum())
    count = "none is" if not worse else "1 is" if worse == 1 else f"{worse:,} are"
    lead = f"Of {len(known):,} nodes, {count} forecast worse than by repeating the last value."
    blocks = [_drawn_nodes(fitted, errors, coordinates), _worst_table(fitted, errors, coverage)]
    return Section("Where the errors are", lead, tuple(blocks))


def _drawn_nodes(fitted: FittedForecaster, errors: ForecastErrors, coordinates: Any) -> Html:
    names, graph = fitted.tail.nodes, fitted.ensemble.graph
    chosen = np.sort(_worst_first(errors)[:MOST_NODES])
    is_map = coordinates is not None
    places = places_on_map(coordinates, names)[chosen] if is_map else places_by_graph(graph, chosen)
    edges = edges_between(graph, chosen)
    edges = edges[:, :: max(1, -(-edges.shape[1] // MOST_EDGES))]
    classes = np.digitize(np.nan_to_num(errors.relative_by_node, nan=1.0), RELATIVE_ENDS)
    nodes = [
        {
            "x": rounded(float(place[0])),
            "y": rounded(float(place[1])),
            "node": names[node],
            "class": RELATIVE_NAMES[classes[node]],
            "relative": rounded(float(errors.relative_by_node[node]), 3),
            "error": rounded(float(errors.by_node[node])),
        }
        for node, place in zip(chosen, places, strict=True)
    ]
    links = [
        {"x": nodes[a]["x"], "y": nodes[a]["y"], "x2": nodes[b]["x"], "y2": nodes[b]["y"]} for a, b in edges.T.tolist()
    ]
    middle, half = (places.max(axis=0) + places.min(axis=0)) / 2, (places.max(axis=0) - places.min(axis=0)) / 2
    # A map keeps its proportions, a graph fills the picture.
    half = np.full(2, half.max()) if is_map else half
    x, y = (
        {
            "type": "quantitative",
            "axis": None,
            "scale": {"domain": rounded([middle[axis] - half[axis], middle[axis] + half[axis]], 6), "nice": False, "padding": 8},
        }
        for axis in (0, 1)
    )
    spec = {
        "layer": [
            {
                "data": {"values": links},
                "mark": {"type": "rule", "color": "var(--soft-ink)", "opacity": 0.35, "strokeWidth": 0.7},
                "encoding": {
                    "x": {"field": "x", **x},
                    "y": {"field": "y", **y},
                    "x2": {"field": "x2"},
                    "y2": {"field": "y2"},
                },
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "point", "filled": True, "size": 70, "stroke": "var(--paper)", "strokeWidth": 0.8, "opacity": 1},
                "encoding": {
                    "x": {"field": "x", **x},
                    "y": {"field": "y", **y},
                    "fill": {
                        "field": "class",
                        "type": "ordinal",
                        "sort": list(RELATIVE_NAMES),
                        "scale": {"domain": list(RELATIVE_NAMES), "range": list(RELATIVE_COLORS)},
                        "legend": {"title": "error / error of the last value", "columns": 3},
                    },
                    "tooltip": [
                        {"field": "node"},
                        {"field": "error", "title": "mean absolute error"},
                        {"field": "relative", "title": "divided by that of the last value"},
                    ],
                },
            },
        ],
        "usermeta": {"square": 0, "picks": "node"},
    }
    left_out = f" The {len(chosen):,} nodes with the largest errors are drawn." if len(chosen) < len(names) else ""
    kind = "Map" if is_map else "Graph"
    how = "" if is_map else " Neighbors are drawn near each other."
    sentence = f"Each dot is a node. Blue ones are forecast better than by their last value, orange ones worse.{how}{left_out}"
    return figure(f"{kind} of the nodes, colored by error", sentence, spec)


def _worst_table(fitted: FittedForecaster, errors: ForecastErrors, coverage: dict[str, Any] | None) -> Html:
    names, by_node = fitted.tail.nodes, (coverage or {}).get("by_node", {})
    columns = ["node", "mean absolute error", "relative to last value"] + (["in the interval"] if by_node else [])
    rows = []
    for node in _worst_first(errors)[:WORST]:
        name = names[node]
        button = element("button", name, type="button", class_="pick", data_node=name)
        share = by_node.get(name)
        rows.append(
            [
                button,
                f"{errors.by_node[node]:.4g}",
                f"{errors.relative_by_node[node]:.2f}",
                *([("" if share is None else f"{100 * share:.0f} %")] if by_node else []),
            ]
        )
    return element(
        "div",
        element("h4", "Nodes with the largest errors"),
        element("p", "Choose one to see its forecasts above.", class_="how"),
        number_table(columns, rows),
        class_="card",
    )


def _when(errors: ForecastErrors) -> Section:
    by_step = errors.by_step()
    rows = [
        {"ahead": ahead + 1, "method": name, "error": rounded(value)}
        for name, values in by_step.items()
        for ahead, value in enumerate(values)
    ]
    horizon = errors.kept.horizon
    count_axis = {"tickMinStep": 1, "format": "d"}
    colors = {"this run": "var(--blue)", "ridge": "var(--orange)", "last value": "var(--soft-ink)"}
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
            "x": {"field": "ahead", "type": "quantitative", "title": "steps ahead", "axis": count_axis, "scale": {"domain": [1, horizon], "nice": False}},
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
        ["steps ahead", *by_step], [[ahead + 1, *(f"{values[ahead]:.4g}" for values in by_step.values())] for ahead in range(horizon)]
    )
    blocks = [figure("Error by steps ahead", "The further ahead, the harder. Lower is better.", spec, numbers=table)]
    cycle, cells = errors.cycle, errors.by_part()
    if cycle is not None and cells:
        blocks.append(_cycle_figure(cells, cycle.unit, cycle.names))
    return Section(
        "When the errors are large",
        "Measured on the held-out steps, which also decided when the training stopped.",
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
            "x": {"field": "part", "type": "ordinal", "sort": present, "title": unit, "axis": {"labelAngle": 0, "labelOverlap": True}},
            "y": {"field": "ahead", "type": "ordinal", "title": "steps ahead", "sort": "descending", "axis": {"labelOverlap": True}},
            "fill": {"condition": {"test": "datum.mean < 0", "value": "var(--orange)"}, "value": "var(--blue)"},
            "fillOpacity": {"field": "size", "type": "quantitative", "scale": {"domain": [0, 1], "range": [0.02, 0.95]}, "legend": None},
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


def _coverage(coverage: dict[str, Any], method: str, errors: ForecastErrors) -> Section:
    aimed = coverage["aimed"]
    steps = [{"place": step + 1, "share": share} for step, share in enumerate(coverage["by_step"]) if share is not None]
    blocks = [_coverage_figure("steps ahead", steps, aimed, "quantitative")]
    if coverage["by_hour"]:
        hours = [{"place": int(hour), "share": share} for hour, share in coverage["by_hour"].items() if share is not None]
        blocks.append(_coverage_figure("hour", hours, aimed, "quantitative"))
    shares = [share for share in coverage["by_node"].values() if share is not None]
    blocks.append(_coverage_by_node(shares, aimed))
    lead = (
        f"{100 * coverage['reached']:.1f} % of the observations lie in the intervals, which aim at {100 * aimed:g} %: "
        "measured on the last held-out steps, with intervals that were learned from the others. The method is "
        f"{method!r}; the mean width is {coverage['width']:.3g}."
    )
    layout = "grid thirds" if len(blocks) > 2 else "grid"
    return Section("Can the intervals be trusted?", lead, tuple(blocks), layout)


def _coverage_figure(by: str, rows: list[dict[str, Any]], aimed: float, kind: str) -> Html:
    last = max(row["place"] for row in rows)
    first = min(row["place"] for row in rows)
    lowest = min(0.5, *(row["share"] for row in rows))
    y = {"type": "quantitative", "title": "share in the interval", "axis": {"format": ".0%"}, "scale": {"domain": [lowest, 1]}}
    spec = {
        "layer": [
            {
                "data": {"values": [{"aimed": aimed}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": "var(--orange)", "strokeWidth": 1.5},
                "encoding": {"y": {"field": "aimed", **y}},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "point": {"filled": True, "size": 45}, "color": "var(--blue)"},
                "encoding": {
                    "x": {"field": "place", "type": kind, "title": by, "axis": {"tickMinStep": 1, "format": "d"}, "scale": {"domain": [first, last], "nice": False}},
                    "y": {"field": "share", **y},
                    "tooltip": [{"field": "place", "title": by}, {"field": "share", "format": ".1%"}],
                },
            },
        ],
        "height": 200,
    }
    table = number_table([by, "share"], [[row["place"], f"{100 * row['share']:.1f} %"] for row in rows])
    sentence = f"The share of observations in the interval. The dashed line is the aim, {100 * aimed:g} %."
    return figure(f"Coverage by {by}", sentence, spec, numbers=table)


def _coverage_by_node(shares: list[float], aimed: float) -> Html:
    spec = {
        "layer": [
            {
                "data": {"values": [{"share": rounded(share, 3)} for share in shares]},
                "mark": {"type": "bar", "color": "var(--blue)"},
                "encoding": {
                    "x": {
                        "field": "share",
                        "bin": {"step": BINS_OF_NODES},
                        "type": "quantitative",
                        "title": "share in the interval",
                        "axis": {"format": ".0%"},
                    },
                    "y": {"aggregate": "count", "type": "quantitative", "title": "nodes", "axis": {"tickMinStep": 1}},
                    "tooltip": [{"field": "share", "bin": {"step": BINS_OF_NODES}, "format": ".0%"}, {"aggregate": "count", "title": "nodes"}],
                },
            },
            {
                "data": {"values": [{"aimed": aimed}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": "var(--orange)", "strokeWidth": 1.5},
                "encoding": {"x": {"field": "aimed", "type": "quantitative"}},
            },
        ],
        "height": 200,
    }
    sentence = f"How many nodes have which coverage, from {100 * min(shares):.0f} to {100 * max(shares):.0f} %. The dashed line is the aim."
    return figure("Coverage by node", sentence, spec)
