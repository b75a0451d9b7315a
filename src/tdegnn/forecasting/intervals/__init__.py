"""Intervals around forecasts, learned from the errors of forecasts on the held-out steps.

`methods.py` lists the methods by name. `base.py` says what a method is, `coverage.py` how often intervals hold.
"""

from tdegnn.forecasting.intervals.base import Context, Intervals, apply_intervals, check_coverage, fewest_residuals
from tdegnn.forecasting.intervals.beyond import growth_of, widen_intervals
from tdegnn.forecasting.intervals.coverage import CoverageReport, measure_coverage, report_coverage
from tdegnn.forecasting.intervals.fixed import ConformalIntervals
from tdegnn.forecasting.intervals.methods import (
    INTERVALS,
    check_held_out,
    check_intervals,
    chosen_method,
    fit_intervals,
    name_of,
    read_intervals,
    stored_as,
)
from tdegnn.forecasting.intervals.published_adaptive import AdaptiveIntervals

__all__ = [
    "INTERVALS",
    "AdaptiveIntervals",
    "ConformalIntervals",
    "Context",
    "CoverageReport",
    "Intervals",
    "apply_intervals",
    "check_coverage",
    "check_held_out",
    "check_intervals",
    "chosen_method",
    "fewest_residuals",
    "fit_intervals",
    "growth_of",
    "measure_coverage",
    "name_of",
    "read_intervals",
    "report_coverage",
    "stored_as",
    "widen_intervals",
]
