"""The section on intervals: how often they contain what is observed, by steps ahead, by hour and by node."""

from __future__ import annotations

from typing import Any

from tdegnn.markup import Html
from tdegnn.reports.colors import BLUE, ORANGE
from tdegnn.reports.sections import Section, figure, number_table, rounded

# Width of the classes of nodes with about the same coverage.
BINS_OF_NODES = 0.05


def coverage_section(coverage: dict[str, Any], method: str) -> Section:
    """Return the section on intervals.

    Args:
        coverage: Their coverage, as the summary of a run holds it.
        method: Name of the method.
    """
    aimed = coverage["aimed"]
    steps = [{"place": step + 1, "share": share} for step, share in enumerate(coverage["by_step"]) if share is not None]
    blocks = [_coverage_figure("steps ahead", steps, aimed)] if len(steps) > 1 else []
    if coverage["by_hour"]:
        hours = [
            {"place": int(hour), "share": share} for hour, share in coverage["by_hour"].items() if share is not None
        ]
        blocks.append(_coverage_figure("hour", hours, aimed))
    shares = [share for share in coverage["by_node"].values() if share is not None]
    blocks.append(_coverage_by_node(shares, aimed))
    lead = (
        f"{100 * coverage['reached']:.1f} % of the observations lie in the intervals, which aim at {100 * aimed:g} %: "
        "measured on the last held-out steps, with intervals that were learned from the others. The method is "
        f"{method!r}; the mean width is {coverage['width']:.3g}."
    )
    layout = "grid thirds" if len(blocks) > 2 else "grid"
    return Section("Can the intervals be trusted?", lead, tuple(blocks), layout)


def _coverage_figure(by: str, rows: list[dict[str, Any]], aimed: float) -> Html:
    last = max(row["place"] for row in rows)
    first = min(row["place"] for row in rows)
    lowest = min(0.5, *(row["share"] for row in rows))
    y = {
        "type": "quantitative",
        "title": "share in the interval",
        "axis": {"format": ".0%"},
        "scale": {"domain": [lowest, 1]},
    }
    spec = {
        "layer": [
            {
                "data": {"values": [{"aimed": aimed}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": ORANGE, "strokeWidth": 1.5},
                "encoding": {"y": {"field": "aimed", **y}},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "point": {"filled": True, "size": 45}, "color": BLUE},
                "encoding": {
                    "x": {
                        "field": "place",
                        "type": "quantitative",
                        "title": by,
                        "axis": {"tickMinStep": 1, "format": "d"},
                        "scale": {"domain": [first, last], "nice": False},
                    },
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
                "mark": {"type": "bar", "color": BLUE},
                "encoding": {
                    "x": {
                        "field": "share",
                        "bin": {"step": BINS_OF_NODES},
                        "type": "quantitative",
                        "title": "share in the interval",
                        "axis": {"format": ".0%"},
                    },
                    "y": {"aggregate": "count", "type": "quantitative", "title": "nodes", "axis": {"tickMinStep": 1}},
                    "tooltip": [
                        {"field": "share", "bin": {"step": BINS_OF_NODES}, "format": ".0%"},
                        {"aggregate": "count", "title": "nodes"},
                    ],
                },
            },
            {
                "data": {"values": [{"aimed": aimed}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": ORANGE, "strokeWidth": 1.5},
                "encoding": {"x": {"field": "aimed", "type": "quantitative"}},
            },
        ],
        "height": 200,
    }
    ends = f"from {100 * min(shares):.0f} to {100 * max(shares):.0f} %"
    sentence = f"How many nodes have which coverage, {ends}. The dashed line is the aim."
    return figure("Coverage by node", sentence, spec)
