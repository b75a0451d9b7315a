"""A `Panel`: series on the nodes of a graph, (time, nodes, channels), with names and times.

What was not observed is NaN, and only that: zero is a value like any other. Times are equally spaced (in seconds, in
calendar days or in months; `times.py` knows), steps that a table skips are there with nothing observed. The first
`num_targets` channels are what is forecast, the others only help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from tdegnn.errors import InputError
from tdegnn.graph import Graph


@dataclass(frozen=True, eq=False)
class Panel:
    """Series on the nodes of a graph.

    Attributes:
        values: What was observed, in float64; NaN where nothing was.
        times: When, equally spaced: dates (with or without a time zone) or numbers.
        nodes: Names of the nodes.
        channels: Names of the channels.
        num_targets: How many channels, from the first, are to be forecast.
        graph: The graph the nodes live on, in the order of `nodes`; None where none is known.
        name: What to call the data in tables and plots.
        notes: What was noticed while reading, a line each, for the user to see.
    """

    values: Float[np.ndarray, "time nodes channels"]
    times: pd.Index
    nodes: tuple[str, ...]
    channels: tuple[str, ...] = ("value",)
    num_targets: int = 1
    graph: Graph | None = None
    name: str = ""
    notes: tuple[str, ...] = field(default=())
