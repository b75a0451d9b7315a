"""Forecasts in a notebook: what they are, and a table of the first nodes with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tdegnn.data.times.times import show_time
from tdegnn.markup import Html, element, table

if TYPE_CHECKING:
    from tdegnn.forecasting.forecast import Forecast

# Number of nodes and of steps that are shown.
SHOWN_NODES, SHOWN_STEPS = 6, 12


def show_forecast(forecast: Forecast) -> Html:
    """Return forecasts as HTML: a row per time, a column per node."""
    nodes, steps = forecast.nodes[:SHOWN_NODES], range(min(len(forecast.times), SHOWN_STEPS))
    rows = [
        [show_time(forecast.times[step]), *(_show(forecast, step, node) for node in range(len(nodes)))]
        for step in steps
    ]
    hidden = [
        f"{count - shown} more {name}"
        for count, shown, name in (
            (len(forecast.nodes), len(nodes), "nodes"),
            (len(forecast.times), len(steps), "steps"),
        )
        if count > shown
    ]
    more = f", and {' and '.join(hidden)} (to_frame() has all)" if hidden else ""
    notes = element("ul", *(element("li", note) for note in forecast.notes)) if forecast.notes else Html()
    caption = f"Forecasts of {forecast.channels[0]!r}{more}"
    return element("div", element("p", repr(forecast)), table(["time", *nodes], rows, caption=caption), notes)


def _show(forecast: Forecast, step: int, node: int) -> str:
    value, low, high = (float(each[step, node, 0]) for each in (forecast.values, forecast.low, forecast.high))
    return f"{value:.4g}" if np.isnan(low) else f"{value:.4g} ({low:.4g} to {high:.4g})"
