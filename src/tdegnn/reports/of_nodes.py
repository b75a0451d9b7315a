"""The report of a node estimator: what was fitted on what, its score beside simpler answers, and its sections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tdegnn.analysis.plain_words import say_order
from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.markup import Html, Page
from tdegnn.nodes.fitted import FittedNodes
from tdegnn.reports.colors import BLUE, SOFT_INK
from tdegnn.reports.node_facts import class_facts, judged_nodes
from tdegnn.reports.node_sections import class_sections
from tdegnn.reports.order_section import order_section
from tdegnn.reports.page import render
from tdegnn.reports.sections import Run, Scores, Section, figure, name_parts, rounded
from tdegnn.training.network_choice import ChosenNetwork

THIS_RUN = "this run"
KINDS = {"NodeClassifier": "Node classifier", "NodeRegressor": "Node regressor"}
SCORE_NAMES = {"accuracy": "accuracy", "roc-auc": "ROC-AUC", "squared error": "squared error"}


def report_nodes(fitted: FittedNodes) -> Page:
    """Return a page about a node estimator that has its data. See `NodeEstimator.report`."""
    data = fitted.config["data"]
    return render([describe_nodes(str(data.get("benchmark") or "This estimator"), fitted)])


def describe_nodes(name: str, fitted: FittedNodes) -> Run:
    """Return what a page shows of a node estimator.

    Args:
        name: Name of the run.
        fitted: What was learned, with the nodes and the task.
    """
    report = _explain(fitted)
    verdict = say_order(report)
    has_classes = "classes" in fitted.learned
    sections = class_sections(class_facts(fitted)) if has_classes else [_numbers_section(fitted)]
    sections.append(order_section(report, verdict, fitted.coefficients, fitted.order_choice.reason))
    scores = _scores(fitted)
    return Run(
        name,
        KINDS[fitted.config["kind"]],
        _facts(fitted),
        _headline(fitted, scores),
        scores,
        report,
        verdict,
        fitted.config["data"]["sha256"],
        tuple(sections),
        tuple(str(note) for note in fitted.summary["notes"]),
    )


def _explain(fitted: FittedNodes) -> CoefficientReport:
    return replace(explain(fitted.coefficients.mean(axis=0)), states="latent")


def _facts(fitted: FittedNodes) -> dict[str, str]:
    assert fitted.question is not None
    data, subsets, order = fitted.config["data"], fitted.question.subsets, fitted.order_choice.order
    training, validation, test = (f"{int(mask.sum()):,}" for mask in subsets)
    chosen = ChosenNetwork.kept_in(fitted.config)
    classes = fitted.learned.get("classes")
    facts = {
        "Graph": f"{data['nodes']:,} nodes, {data['edges']:,} edges, {data['features']:,} features per node",
        "Answer": f"one of {len(classes)} classes" if classes else "numbers",
        "Nodes": f"{training} to train, {validation} to validate, {test} to test",
        "Network": f"{name_parts(fitted.network)}; {fitted.settings.num_layers} layers, order {order}",
    }
    if chosen is not None:
        facts["Chosen"] = f"the usual network {chosen.name!r}"
    return facts


def _scores(fitted: FittedNodes) -> Scores:
    summary = fitted.summary
    is_error = summary["score"] == "squared error"
    sign = -1 if is_error else 1

    def row(validation: float | None, test: float | None) -> tuple[float | None, ...]:
        return tuple(None if score is None else sign * score for score in (test, validation))

    rows = {THIS_RUN: row(summary["validation_score"], summary["test_score"])}
    others = {name: row(each["validation"], each["test"]) for name, each in summary["baselines"].items()}
    rows |= dict(sorted(others.items(), key=lambda each: -sign * (each[1][1] or 0.0)))
    name = SCORE_NAMES[summary["score"]]
    measured = "Validation nodes decided when the training stopped; test nodes were used for nothing else."
    return Scores((f"{name} on test", f"{name} on validation"), rows, is_error, measured)


def _headline(fitted: FittedNodes, scores: Scores) -> str:
    column = 0 if scores.rows[THIS_RUN][0] is not None else 1
    own = scores.rows[THIS_RUN][column]
    where = "test" if column == 0 else "validation"
    others = {name: row[column] for name, row in scores.rows.items() if name != THIS_RUN and row[column] is not None}
    if own is None:
        return "There are no nodes on which it could be judged."
    if scores.is_error:
        found = f"On {where} nodes, its squared error is {own:.3g}"
        best = min(others, key=lambda name: others[name] or 0.0, default=None)
        return f"{found}." if best is None else f"{found}; that of {best} is {others[best]:.3g}."
    kind = "of the classes are right" if fitted.summary["score"] == "accuracy" else "is the ROC-AUC"
    found = f"On {where} nodes, {100 * own:.1f} % {kind}"
    best = max(others, key=lambda name: others[name] or 0.0, default=None)
    return (
        f"{found}."
        if best is None
        else f"{found}; the best simple answer, {best}, reaches {100 * (others[best] or 0):.1f} %."
    )


def _numbers_section(fitted: FittedNodes) -> Section:
    return Section("Predicted and true numbers", "Each dot is a node.", (_scatter(fitted),))


def _scatter(fitted: FittedNodes) -> Html:
    assert fitted.question is not None
    assert fitted.nodes is not None
    judged, which = judged_nodes(fitted)
    learned = fitted.learned
    outputs = fitted.outputs(fitted.nodes, "auto") * np.array(learned["scale"]) + np.array(learned["center"])
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(judged))[:1000]
    rows = [
        {
            "true": rounded(float(fitted.question.answers[node, 0])),
            "predicted": rounded(float(outputs[node, 0])),
            "node": int(node),
        }
        for node in drawn
    ]
    ends = [rounded(float(f([row["true"] for row in rows]))) for f in (min, max)]
    x = {"field": "true", "type": "quantitative", "title": "true", "scale": {"zero": False}}
    y = {"field": "predicted", "type": "quantitative", "title": "predicted", "scale": {"zero": False}}
    spec = {
        "layer": [
            {
                "data": {"values": [{"true": end, "predicted": end} for end in ends]},
                "mark": {"type": "line", "strokeDash": [5, 4], "color": SOFT_INK},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "point", "filled": True, "color": BLUE, "opacity": 0.7},
                "encoding": {"x": x, "y": y, "tooltip": [{"field": "node"}, {"field": "true"}, {"field": "predicted"}]},
            },
        ],
        "height": 320,
    }
    return figure(
        "Predicted against true",
        f"{len(rows):,} {which} nodes. On the dashed line, predictions are right.",
        spec,
        class_="wide",
    )
