"""What a vector c says about time, in one sentence for readers who know nothing of roots and recursions."""

from __future__ import annotations

from tdegnn.analysis.report import CoefficientReport, ordinal

# What an unstable c means for latent states.
ON_FEW_LAYERS = ", which says something about the few layers and nothing about the forecasts or classes that come out"


def say_order(report: CoefficientReport) -> str:
    """Return the order and whether errors grow, in one sentence."""
    return f"{_say_subject(report)} {_say_character(report)}, {_say_stability(report)}."


def _say_subject(report: CoefficientReport) -> str:
    if report.states == "physical":
        return "From step to step, the observed values"
    return "From layer to layer, the states of the network" if report.states == "latent" else "The states"


def _say_character(report: CoefficientReport) -> str:
    order = report.root_multiplicity
    match report.character:
        case "Euler":
            return "depend on the newest one alone, as heat does when it spreads: an equation of first order"
        case "nearly Euler":
            return "depend on the newest one almost alone, as heat does when it spreads: nearly of first order"
        case "mixed":
            leading = report.leading_order
            mostly = f"mostly like an equation of {ordinal(leading)} order" + (
                ", with lower ones mixed in" * (leading > 1)
            )
            return f"depend on the last {report.history_length} of them at once, {mostly}"
    nearly = "nearly " * (report.character == "nearly pure")
    if order == 2:
        return f"keep the speed they have, as a swinging pendulum does: an equation {nearly}of second order"
    return f"keep their speed and its changes: an equation {nearly}of {ordinal(order)} order"


def _say_stability(report: CoefficientReport) -> str:
    if report.is_stable:
        return "and small errors do not grow"
    is_latent = report.states == "latent"
    growth = "slowly add up"
    if report.max_root_modulus > 1 + report.tolerance:
        unit = "layer" if is_latent else "step"
        growth = f"become {report.max_root_modulus:.3g} times as large with each {unit}"
    return f"but small errors {growth}{ON_FEW_LAYERS if is_latent else ''}"
