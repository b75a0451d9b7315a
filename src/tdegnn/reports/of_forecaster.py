"""The report of a forecaster: what was fitted on what, its errors beside those of simple methods, its sections."""

from __future__ import annotations

from typing import Any

from tdegnn.analysis.plain_words import say_order
from tdegnn.data.panel import Panel, as_panel
from tdegnn.data.tables.panel_like import PanelLike
from tdegnn.data.times.times import describe_step, show_time
from tdegnn.forecasting.fitted import FittedForecaster
from tdegnn.forecasting.held_out import OURS
from tdegnn.forecasting.inputs import arrange_nodes
from tdegnn.markup import Page
from tdegnn.reports.forecast_facts import ForecastErrors, RidgeErrors, measure_ridge
from tdegnn.reports.forecast_sections import forecast_sections
from tdegnn.reports.order_section import order_section
from tdegnn.reports.page import render
from tdegnn.reports.sections import Run, Scores, count, name_parts
from tdegnn.training.network_choice import ChosenNetwork

THIS_RUN, RIDGE = "this run", "ridge regression"


def report_forecaster(
    fitted: FittedForecaster, lowest: float | None, panel: PanelLike | None = None, coordinates: Any = None
) -> Page:
    """Return a page about a forecaster. See `Forecaster.report`."""
    name = fitted.config["data"]["name"] or "This forecaster"
    return render([describe_forecaster(name, fitted, lowest, None if panel is None else as_panel(panel), coordinates)])


def describe_forecaster(
    name: str, fitted: FittedForecaster, lowest: float | None, panel: Panel | None, coordinates: Any, num_runs: int = 1
) -> Run:
    """Return what a page shows of a forecaster.

    Args:
        name: Name of the run.
        fitted: What was learned.
        lowest: Lowest value of forecasts.
        panel: The series of the training, for a ridge regression. None if it is not known.
        coordinates: Where the nodes are, as a table. None if it is not known.
        num_runs: Number of runs that share the page.
    """
    ridge = None
    if panel is not None:
        same = arrange_nodes(panel, fitted.config["data"]["nodes"])
        ridge = measure_ridge(fitted, same.with_graph(fitted.ensemble.graph))
    kept, report = fitted.held_out, fitted.explain()
    sections = []
    if kept is not None:
        errors = ForecastErrors(kept, None if ridge is None else ridge.residuals)
        forecast = None if fitted.ensemble.maker.known else fitted.predict(fitted.tail, kept.horizon, None, lowest)
        sections = forecast_sections(fitted, errors, forecast, coordinates, num_runs)
    verdict = say_order(report)
    sections.append(order_section(report, verdict, fitted.coefficients, fitted.order_choice.reason))
    scores = _scores(fitted, ridge)
    return Run(
        name,
        "Forecaster",
        _facts(fitted),
        _headline(fitted, scores),
        scores,
        report,
        verdict,
        fitted.config["data"]["sha256"],
        tuple(sections),
        (*fitted.summary["notes"], *_notes(fitted, panel, ridge)),
    )


def _facts(fitted: FittedForecaster) -> dict[str, str]:
    data, maker, graph = fitted.config["data"], fitted.ensemble.maker, fitted.ensemble.graph
    chosen = ChosenNetwork.kept_in(fitted.config)
    network: Any = fitted.ensemble.networks[0]
    num_networks = len(fitted.ensemble.networks)
    facts = {
        "Series": f"{count(len(data['nodes']), 'node')}, {data['steps']:,} steps of {describe_step(fitted.tail.times)}",
        "To": show_time(fitted.tail.times[-1]),
        "Forecast": f"{', '.join(data['channels'][: data['num_targets']])}, {count(maker.horizon, 'step')} ahead",
        "Graph": count(graph.num_edges, "edge") if graph.num_edges else "none: each node by itself",
        "Window": f"the last {maker.window} steps",
        "Network": f"{name_parts(network)}; order {fitted.order_choice.order}"
        + (f"; mean of {num_networks}" if num_networks > 1 else ""),
    }
    if chosen is not None:
        facts["Chosen"] = f"the usual network {chosen.name!r}"
    return facts


def _scores(fitted: FittedForecaster, ridge: RidgeErrors | None) -> Scores:
    facts = fitted.summary["held_out"]
    held_out = {name: errors for name, errors in facts.items() if name not in ("steps", "chose_nothing")}
    rows = {THIS_RUN: (held_out[OURS]["mae"], held_out[OURS]["mse"])}
    if ridge is not None:
        rows[RIDGE] = (ridge.mae, ridge.mse)
    naive = {name: (errors["mae"], errors["mse"]) for name, errors in held_out.items() if name != OURS}
    rows |= dict(sorted(naive.items(), key=lambda each: each[1][0] or 0.0))
    # Folders of earlier versions do not say.
    role = "chose neither window, network nor step" if facts.get("chose_nothing") else "also ended the training"
    measured = f"Measured on held-out steps that {role}."
    return Scores(("mean absolute error", "mean squared error"), rows, is_error=True, measured=measured)


def _headline(fitted: FittedForecaster, scores: Scores) -> str:
    own = scores.rows[THIS_RUN][0]
    others = {name: row[0] for name, row in scores.rows.items() if name != THIS_RUN and row[0]}
    forecasts = count(fitted.summary["held_out"]["steps"], "held-out forecast")
    measured = f"{forecasts} of {count(fitted.ensemble.maker.horizon, 'step')}"
    if own is None or not others:
        return f"It was measured on {measured}."
    naive = {name: error for name, error in others.items() if name != RIDGE}
    named = [min(naive, key=lambda name: naive[name] or 0.0)] if naive else []
    named += [RIDGE] if RIDGE in others else []
    compared = " and ".join(_compare(own, others[name] or 0.0, name) for name in named)
    return f"On {measured}, its mean absolute error is {own:.3g}: {compared}."


def _compare(own: float, other: float, name: str) -> str:
    if own > 2 * other:
        return f"{own / other:.3g} times that of {name}"
    change = 100 * (own / other - 1)
    if abs(change) < 0.5:
        return f"the same as that of {name}"
    return f"{abs(change):.0f} % {'below' if change < 0 else 'above'} that of {name}"


def _notes(fitted: FittedForecaster, panel: Panel | None, ridge: RidgeErrors | None) -> list[str]:
    if fitted.held_out is None:
        return ["This run was made by an earlier version, which kept no held-out forecasts. Fit again to see them."]
    if panel is None:
        return ["The series of the training are not known, so there is no ridge regression to compare with."]
    if ridge is None:
        return ["The series have changed since the training, so there is no ridge regression to compare with."]
    return []
