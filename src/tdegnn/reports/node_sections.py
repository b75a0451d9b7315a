"""The sections about classes: which are mixed up, for which nodes, how sure the network is, how it sees nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdegnn.markup import Html
from tdegnn.reports.colors import BLUE, CLASSES, ORANGE, SOFT_INK
from tdegnn.reports.node_facts import ClassFacts, Group
from tdegnn.reports.sections import Section, figure, number_table, rounded

# Maximum number of classes whose counts are written into the cells, and of classes with a color of their own.
MOST_COUNTED, MOST_COLORED = 10, 7
# Maximum number of nodes that are drawn.
MOST_DRAWN = 1500
PERCENT = {"format": ".0%"}
# Shares of the nodes beyond which the picture of the states ends.
FAR_AWAY = (0.005, 0.995)
# Letters of a name of which three stand beside each other.
SHORT_NAME = 10


def class_sections(facts: ClassFacts) -> list[Section]:
    """Return the sections about the classes of nodes."""
    which = f"{int(facts.judged.sum()):,} {facts.judged_name} nodes"
    error = facts.calibration_error
    return [
        Section("Which classes are mixed up", f"Measured on {which}.", (_confusion(facts),)),
        Section(
            "For which nodes it is right",
            f"Accuracy on the {which}, by how many neighbors a node has and how many of them are of its class.",
            (
                _groups("Accuracy by degree", "neighbors", facts.by_degree()),
                _groups("Accuracy by homophily", "same-class neighbors", facts.by_homophily()),
            ),
        ),
        Section(
            "How sure it is, and how it sees the nodes",
            f"Its probabilities are off by {100 * error:.1f} percentage points on average.",
            (_calibration(facts), _embedding(facts)),
        ),
    ]


def _confusion(facts: ClassFacts) -> Html:
    counts, names = facts.confusion, list(facts.names)
    sizes = counts.sum(axis=1)
    shares = counts / np.maximum(sizes[:, None], 1)
    rows = [
        {
            "true": names[row],
            "predicted": names[column],
            "count": int(count),
            "share": rounded(float(shares[row, column]), 3),
            "is_right": row == column,
        }
        for (row, column), count in np.ndenumerate(counts)
    ]
    layers: list[dict[str, Any]] = [
        {
            "mark": "rect",
            "encoding": {
                "fill": {"condition": {"test": "datum.is_right", "value": BLUE}, "value": ORANGE},
                "fillOpacity": {
                    "field": "share",
                    "type": "quantitative",
                    "scale": {"domain": [0, 1], "range": [0.03, 0.55]},
                    "legend": None,
                },
                "tooltip": [
                    {"field": "true", "title": "true class"},
                    {"field": "predicted", "title": "predicted class"},
                    {"field": "count", "title": "nodes"},
                    {"field": "share", "title": "share of the true class", "format": ".1%"},
                ],
            },
        }
    ]
    if len(names) <= MOST_COUNTED:
        layers.append({"mark": "text", "encoding": {"text": {"field": "count"}}})
    spec = {
        "data": {"values": rows},
        "encoding": {
            "x": {
                "field": "predicted",
                "type": "nominal",
                "sort": names,
                "title": "predicted class",
                "axis": {"labelAngle": 0 if sum(map(len, names)) < 24 else -40},
            },
            "y": {"field": "true", "type": "nominal", "sort": names, "title": "true class"},
        },
        "layer": layers,
        "height": len(names) * (36 if len(names) <= MOST_COUNTED else 16),
        "usermeta": {"columns": len(names)},
    }
    per_class = [
        [name, int(size), f"{100 * shares[number, number]:.1f} %"]
        for number, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    off = counts - np.diag(np.diag(counts))
    sentence = "Rows are true classes, columns what was predicted. Blue cells are right, orange ones are mistakes."
    if off.any():
        row, column = np.unravel_index(off.argmax(), off.shape)
        sentence += f" The most frequent mistake: {names[row]} taken for {names[column]} ({off[row, column]} nodes)."
    return figure(
        "Confusion matrix", sentence, spec, numbers=number_table(["class", "nodes", "right"], per_class), class_="wide"
    )


def _groups(title: str, axis: str, groups: list[Group]) -> Html:
    names = [group.name for group in groups]
    rows = [{"group": group.name, "share": rounded(group.share), "count": group.count} for group in groups]
    spec = {
        "data": {"values": rows},
        "encoding": {
            "y": {"field": "group", "type": "ordinal", "sort": names, "title": axis},
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": "share that is right",
                "axis": PERCENT,
                "scale": {"domain": [0, 1]},
            },
        },
        "layer": [
            {
                "mark": {"type": "bar", "color": BLUE, "fillOpacity": 0.4},
                "encoding": {
                    "tooltip": [
                        {"field": "group", "title": axis},
                        {"field": "share", "format": ".1%"},
                        {"field": "count", "title": "nodes"},
                    ]
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 5},
                "encoding": {"x": {"datum": 0}, "text": {"field": "label"}},
            },
        ],
        "transform": [{"calculate": "format(datum.share, '.0%') + ' of ' + format(datum.count, ',')", "as": "label"}],
        "height": 30 * len(groups),
    }
    worst, best = min(groups, key=lambda group: group.share), max(groups, key=lambda group: group.share)
    least = f"worst at {worst.name} ({100 * worst.share:.0f} % of {worst.count})"
    sentence = f"Best at {best.name} ({100 * best.share:.0f} %), {least}."
    table = number_table(
        [axis, "nodes", "right"], [[group.name, group.count, f"{100 * group.share:.1f} %"] for group in groups]
    )
    return figure(title, sentence, spec, numbers=table)


def _calibration(facts: ClassFacts) -> Html:
    bins = facts.calibration()
    lowest = min(1 / len(facts.names), *(given for given, *_ in bins))
    rows = [{"given": rounded(given), "reached": rounded(reached), "count": count} for given, reached, count in bins]
    line = [{"given": rounded(lowest), "reached": rounded(lowest)}, {"given": 1, "reached": 1}]
    x = {
        "field": "given",
        "type": "quantitative",
        "title": "probability of the predicted class",
        "axis": PERCENT,
        "scale": {"domain": [rounded(lowest), 1], "nice": False, "padding": 10},
    }
    y = {
        "field": "reached",
        "type": "quantitative",
        "title": "share that is right",
        "axis": PERCENT,
        "scale": {"domain": [0, 1]},
    }
    spec = {
        "layer": [
            {
                "data": {"values": line},
                "mark": {"type": "line", "strokeDash": [5, 4], "color": SOFT_INK},
                "encoding": {"x": x, "y": y},
            },
            {"data": {"values": rows}, "mark": {"type": "line", "color": BLUE}, "encoding": {"x": x, "y": y}},
            {
                "data": {"values": rows},
                "mark": {"type": "point", "filled": True, "color": BLUE, "opacity": 0.8},
                "encoding": {
                    "x": x,
                    "y": y,
                    "size": {"field": "count", "type": "quantitative", "legend": None, "scale": {"range": [30, 500]}},
                    "tooltip": [
                        {"field": "given", "title": "probability", "format": ".1%"},
                        {"field": "reached", "title": "right", "format": ".1%"},
                        {"field": "count", "title": "nodes"},
                    ],
                },
            },
        ],
        "height": 280,
    }
    table = number_table(
        ["probability", "right", "nodes"],
        [[f"{100 * given:.1f} %", f"{100 * reached:.1f} %", count] for given, reached, count in bins],
    )
    sentence = (
        "On the dashed line it is as sure as it is right; below the line it is too sure. Larger dots are more nodes."
    )
    return figure("Calibration", sentence, spec, numbers=table)


def _embedding(facts: ClassFacts) -> Html:
    places, share = facts.in_two_dimensions()
    known = np.flatnonzero(facts.truth >= 0)
    drawn = np.sort(np.random.default_rng(0).permutation(known)[:MOST_DRAWN])
    frequent = np.argsort(-np.bincount(facts.truth[known], minlength=len(facts.names)), kind="stable")[:MOST_COLORED]
    names = [facts.names[each] for each in sorted(frequent)]
    has_others = len(facts.names) > MOST_COLORED
    rows = [
        {
            "x": rounded(float(places[node, 0]), 3),
            "y": rounded(float(places[node, 1]), 3),
            "class": facts.names[facts.truth[node]] if facts.truth[node] in frequent else "other classes",
            "answer": "right" if facts.is_right[node] else "wrong",
            "node": int(node),
        }
        for node in drawn
    ]
    domain = [*names, *(["other classes"] if has_others else [])]
    colors = [*CLASSES[: len(names)], *([SOFT_INK] * has_others)]
    # A few states far away would squeeze all others into a spot.
    ends = np.quantile(places[drawn], FAR_AWAY, axis=0)
    ends += 0.08 * (ends[1] - ends[0]) * np.array([[-1.0], [1.0]])
    num_outside = int(((places[drawn] < ends[0]) | (places[drawn] > ends[1])).any(axis=1).sum())
    x, y = (
        {"type": "quantitative", "axis": None, "scale": {"domain": rounded(ends[:, axis].tolist()), "nice": False}}
        for axis in (0, 1)
    )
    spec = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 24, "opacity": 0.75, "clip": True},
        "encoding": {
            "x": {"field": "x", **x},
            "y": {"field": "y", **y},
            "color": {
                "field": "class",
                "type": "nominal",
                "sort": domain,
                "scale": {"domain": domain, "range": colors},
                "legend": {"title": "true class", "columns": 3 if max(map(len, domain)) <= SHORT_NAME else 2},
            },
            "shape": {
                "field": "answer",
                "type": "nominal",
                "scale": {"domain": ["right", "wrong"], "range": ["circle", "cross"]},
                "legend": {"title": "answer", "symbolFillColor": SOFT_INK, "symbolStrokeColor": SOFT_INK},
            },
            "tooltip": [{"field": "node"}, {"field": "class", "title": "true class"}, {"field": "answer"}],
        },
        "height": 320,
    }
    far = f" {num_outside} lie outside the picture." if num_outside else ""
    some = f" {len(drawn):,} of {len(known):,} nodes are drawn." if len(drawn) < len(known) else ""
    how = f"in the two directions that differ most ({100 * share:.0f} % of the variance)"
    sentence = f"The last state of each node, {how}.{some}{far}"
    return figure("How the network sees the nodes", sentence, spec)
