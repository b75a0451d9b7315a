"""A panel in a notebook: how many steps, nodes and channels, and the newest values of the first nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tdegnn.data.times.times import show_time
from tdegnn.markup import Html, element, join, table

if TYPE_CHECKING:
    from tdegnn.data.panel import Panel

# Number of nodes and of steps whose values are shown.
SHOWN_NODES, SHOWN_STEPS = 8, 5


def show_panel(panel: Panel) -> Html:
    """Return a panel as HTML."""
    nodes, last = panel.nodes[:SHOWN_NODES], panel[-SHOWN_STEPS:]
    rows = [
        [show_time(time), *("" if np.isnan(value) else f"{value:.5g}" for value in values)]
        for time, values in zip(last.times, last.values[:, : len(nodes), 0], strict=True)
    ]
    hidden = panel.num_nodes - len(nodes)
    more = f", and {hidden} more nodes" if hidden else ""
    caption = f"The newest values of {panel.channels[0]!r}{more}"
    notes = element("ul", *(element("li", note) for note in panel.notes)) if panel.notes else Html()
    return element("div", join(element("p", str(panel)), table(["time", *nodes], rows, caption=caption), notes))
