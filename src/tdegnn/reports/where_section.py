"""The section on where errors are: a map or a graph of the nodes, and the nodes with the largest errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.markup import Html, element
from tdegnn.reports.colors import PAPER, SCALE, SOFT_INK
from tdegnn.reports.forecast_facts import ForecastErrors
from tdegnn.reports.layout import MOST_EDGES, MOST_NODES, edges_between, places_by_graph, places_on_map
from tdegnn.reports.sections import Section, count, figure, number_table, rounded

# Number of nodes in the table of the worst ones.
WORST = 10
# Ends of the classes of the error relative to the last value, with a name for each.
RELATIVE_ENDS = (0.5, 0.8, 1.0, 1.25)
RELATIVE_NAMES = ("below 0.5", "0.5 to 0.8", "0.8 to 1", "1 to 1.25", "above 1.25")
# The class of nodes of which nothing was observed.
NOT_KNOWN = "not known"


def where_section(
    fitted: FittedForecaster, errors: ForecastErrors, coordinates: Any, coverage: dict[str, Any] | None
) -> Section:
    """Return the section on where errors are.

    Args:
        fitted: What was learned.
        errors: Errors on held-out steps.
        coordinates: Where the nodes are. None if it is not known.
        coverage: Coverage of the intervals, as the summary of a run holds it. None if it is not known.
    """
    relative = errors.relative_by_node
    known = relative[~np.isnan(relative)]
    worse = int((known > 1).sum())
    found = "none is" if not worse else "1 is" if worse == 1 else f"{worse:,} are"
    lead = f"Of {count(len(known), 'node')}, {found} forecast worse than by repeating the last value."
    blocks = [_drawn_nodes(fitted, errors, coordinates), _worst_table(fitted, errors, coverage)]
    return Section("Where the errors are", lead, tuple(blocks))


def _drawn_nodes(fitted: FittedForecaster, errors: ForecastErrors, coordinates: Any) -> Html:
    names, graph = fitted.tail.nodes, fitted.ensemble.graph
    chosen = np.sort(errors.worst_first[:MOST_NODES])
    is_map = coordinates is not None
    places = places_on_map(coordinates, names)[chosen] if is_map else places_by_graph(graph, chosen)
    edges = edges_between(graph, chosen)
    edges = edges[:, :: max(1, -(-edges.shape[1] // MOST_EDGES))]
    relative = errors.relative_by_node
    is_known = ~np.isnan(relative)
    classes = [
        RELATIVE_NAMES[number] if known else NOT_KNOWN
        for number, known in zip(np.digitize(relative, RELATIVE_ENDS), is_known, strict=True)
    ]
    has_unknown = not is_known[chosen].all()
    domain, colors = [*RELATIVE_NAMES, *([NOT_KNOWN] * has_unknown)], [*SCALE, *([SOFT_INK] * has_unknown)]
    nodes = [
        {
            "x": rounded(float(place[0])),
            "y": rounded(float(place[1])),
            "node": names[node],
            "class": classes[node],
            "relative": rounded(float(relative[node]), 3),
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
            "scale": {
                "domain": rounded([middle[axis] - half[axis], middle[axis] + half[axis]], 6),
                "nice": False,
                "padding": 8,
            },
        }
        for axis in (0, 1)
    )
    spec = {
        "layer": [
            {
                "data": {"values": links},
                "mark": {"type": "rule", "color": SOFT_INK, "opacity": 0.35, "strokeWidth": 0.7},
                "encoding": {
                    "x": {"field": "x", **x},
                    "y": {"field": "y", **y},
                    "x2": {"field": "x2"},
                    "y2": {"field": "y2"},
                },
            },
            {
                "data": {"values": nodes},
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 70,
                    "stroke": PAPER,
                    "strokeWidth": 0.8,
                    "opacity": 1,
                },
                "encoding": {
                    "x": {"field": "x", **x},
                    "y": {"field": "y", **y},
                    "fill": {
                        "field": "class",
                        "type": "ordinal",
                        "sort": domain,
                        "scale": {"domain": domain, "range": colors},
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
    how = " Neighbors are drawn near each other." if edges.size and not is_map else ""
    sentence = (
        f"Each dot is a node. Blue ones are forecast better than by their last value, orange ones worse.{how}{left_out}"
    )
    return figure(f"{kind} of the nodes, colored by error", sentence, spec)


def _worst_table(fitted: FittedForecaster, errors: ForecastErrors, coverage: dict[str, Any] | None) -> Html:
    names, by_node = fitted.tail.nodes, (coverage or {}).get("by_node", {})
    columns = ["node", "mean absolute error", "relative to last value"] + (["in the interval"] if by_node else [])
    rows = []
    for node in errors.worst_first[:WORST]:
        name = names[node]
        button = element("button", name, type="button", class_="pick", data_node=name)
        share = by_node.get(name)
        rows.append(
            [
                button,
                _show(errors.by_node[node], ".4g"),
                _show(errors.relative_by_node[node], ".2f"),
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


def _show(error: float, how: str) -> str:
    """Return an error as text. A node without observations has none."""
    return "\u2013" if np.isnan(error) else format(error, how)
