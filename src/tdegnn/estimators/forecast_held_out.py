"""What held-out steps say of a forecaster: its errors beside naive ones, intervals, and what should be known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tdegnn.data.panel import Panel
from tdegnn.estimators.forecast_parts import ForecastSplit, measure_naive
from tdegnn.estimators.forecaster_settings import ForecasterSettings
from tdegnn.training.conformal import ConformalIntervals, fewest_residuals
from tdegnn.training.series_frames import FrameMaker, WindowSet

OURS = "forecaster"
# Steps ahead up to which c on physical states is learned as well as one step ahead.
READABLE_HORIZON = 4
# A squared error so many times that of a naive forecast is not the data's fault.
GONE_WRONG = 100


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What was measured.

    Attributes:
        errors: Mean squared and absolute errors by method, our own first.
        intervals: Intervals around the forecasts; None where there are too few steps.
        notes: What a user should know of them.
    """

    errors: dict[str, dict[str, float]]
    intervals: ConformalIntervals | None
    notes: tuple[str, ...]

    @staticmethod
    def measure(
        settings: ForecasterSettings,
        panel: Panel,
        split: ForecastSplit,
        held_out: WindowSet,
        forecasts: Float[np.ndarray, "windows horizon nodes targets"],
        maker: FrameMaker,
    ) -> HeldOut:
        """Measure forecasts of the held-out windows, in the units of the panel."""
        residuals = maker.to_units(held_out.targets.double().cpu().numpy()) - forecasts
        own = {"mse": float(np.nanmean(residuals**2)), "mae": float(np.nanmean(np.abs(residuals)))}
        naive = measure_naive(panel, split, held_out.first_target_steps, maker)
        intervals = None
        if np.isfinite(residuals).sum(axis=(0, 2)).min() >= fewest_residuals(settings.coverage):
            intervals = ConformalIntervals.fit(residuals, settings.coverage, scale=maker.target_scales)
        notes = [
            *_notes_of_intervals(settings, panel, forecasts, intervals),
            *_notes_of_errors(own["mse"], {name: errors["mse"] for name, errors in naive.items()}),
        ]
        return HeldOut({OURS: own, **naive}, intervals, tuple(notes))


def notes_of_settings(settings: ForecasterSettings, panel: Panel, horizon: int) -> list[str]:
    """What a user should know of settings on these series, whatever was learned."""
    notes = []
    if panel.graph is None:
        notes.append("There is no graph: nodes are forecast without their neighbors.")
    if settings.states == "physical" and horizon > READABLE_HORIZON:
        notes.append(
            f"c is learned less exactly over {horizon} steps at once than over one: to read it, take a horizon of 1. "
            "Forecasts go as far as they are asked to all the same."
        )
    others = panel.channels[panel.num_targets :]
    if settings.states == "physical" and others:
        notes.append(f"States are physical: {', '.join(others)}, which is not forecast, is not seen.")
    return notes


def _notes_of_intervals(
    settings: ForecasterSettings,
    panel: Panel,
    forecasts: Float[np.ndarray, "windows horizon nodes targets"],
    intervals: ConformalIntervals | None,
) -> list[str]:
    if intervals is None:
        return ["There are too few held-out steps for intervals. Take a longer series."]
    lowest_seen = np.nanmin(panel.values[..., : panel.num_targets])
    if settings.lowest is None and lowest_seen >= 0 > np.nanmin(forecasts - intervals.widths):
        return [
            "Nothing below 0 was observed, but intervals reach below it. If there can be nothing below 0, pass "
            "lowest=0."
        ]
    return []


def _notes_of_errors(own: float, naive: dict[str, float]) -> list[str]:
    best = min(naive, key=lambda name: naive[name])
    if own > GONE_WRONG * naive[best]:
        return [
            f"The training went wrong: {best} has less than a hundredth of its error. Lower the learning rate or the "
            "step size."
        ]
    if naive[best] <= own:
        return [f"On the held-out steps this forecaster is no better than {best}: the data do not support more."]
    return []
