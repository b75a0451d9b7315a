"""Random arguments of `Panel.from_array` for property tests: any step, zone, names, gaps and graph.

Panels are made in the tests: checks of shapes look at random entries, which must not happen within a strategy.
"""

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tdegnn.data.tables.series import TIME_NAMES
from tdegnn.data.tables.table import NODE_NAMES
from tdegnn.graph import Graph

STEPS = ["15min", "h", "D", "7D", "MS", "ME", "QS", "YS", "B"]
ZONES = [None, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]
# Anything a CSV cell can hold but no spaces around it; quotes, commas and line breaks among it.
# A wide table cannot have a node called as a column of times or nodes is usually called.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\",;\n=+-@'")
RESERVED = (*TIME_NAMES, *NODE_NAMES)
NAMES = st.text(CHARACTERS).map(str.strip).filter(lambda name: name.lower() not in RESERVED)
# A panel refuses larger numbers.
NUMBERS = st.floats(-1e100, 1e100) | st.just(np.nan)


@st.composite
def times(draw, num_steps):
    kind = draw(st.sampled_from(["integer", "float", "date"]))
    if kind == "integer":
        start, step = draw(st.integers(-1000, 1000)), draw(st.integers(1, 12))
        return pd.RangeIndex(start, start + step * num_steps, step)
    if kind == "float":
        return pd.Index(draw(st.floats(-10, 10)) + draw(st.sampled_from([0.1, 0.25, 1 / 3])) * np.arange(num_steps))
    start = draw(st.dates(min_value=pd.Timestamp("1950-01-01").date(), max_value=pd.Timestamp("2050-01-01").date()))
    return pd.date_range(start, periods=num_steps, freq=draw(st.sampled_from(STEPS)), tz=draw(st.sampled_from(ZONES)))


@st.composite
def graphs(draw, num_nodes):
    edges = draw(arrays(np.int64, (2, draw(st.integers(1, 8))), elements=st.integers(0, num_nodes - 1)))
    weights = draw(st.none() | arrays(np.float64, edges.shape[1], elements=st.floats(1e-3, 1e3)))
    return Graph(edges, num_nodes, weights, draw(st.sampled_from(["out", "in", "both"])))


@st.composite
def panel_parts(draw, max_channels=3, *, with_graph=True):
    # With one or two times, a step is what it is taken for: two dates a month apart may be 31 days apart.
    num_steps, num_nodes = draw(st.integers(4, 12)), draw(st.integers(2, 5))
    num_channels = draw(st.integers(1, max_channels))
    values = draw(arrays(np.float64, (num_steps, num_nodes, num_channels), elements=NUMBERS))
    values[0, 0] = 1.0  # something is observed
    names = draw(st.lists(NAMES.filter(bool), min_size=num_nodes, max_size=num_nodes, unique=True))
    return dict(
        values=values,
        times=draw(times(num_steps)),
        nodes=names,
        channels=None if num_channels == 1 else [f"channel {number}" for number in range(num_channels)],
        graph=draw(graphs(num_nodes)) if with_graph else None,
    )
