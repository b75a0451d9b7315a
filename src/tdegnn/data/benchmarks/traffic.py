"""A week of traffic in Los Angeles: the speed at 207 sensors of its highways, every five minutes.

The files are the first 1,612 steps of the week that came with T-GCN (Zhao et al., 2020), from the loop detectors of
Li et al. (2018), and the adjacency matrix of the sensors: weights fall with the distance by road, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from tdegnn.data.panel import Panel
from tdegnn.graph import Graph

FIRST_TIME, STEP = "2012-03-01", "5min"
SPEEDS, ADJACENCY = "la_week_speed.csv", "la_week_adjacency.csv"


def read(name: str, paths: Mapping[str, Path]) -> Panel:
    """Read speeds, in miles per hour, and the graph of the sensors."""
    speeds = pd.read_csv(paths[SPEEDS])
    graph = Graph.from_scipy(pd.read_csv(paths[ADJACENCY], header=None).to_numpy(np.float64))
    times = pd.date_range(FIRST_TIME, periods=len(speeds), freq=STEP)
    return Panel(
        speeds.to_numpy(np.float64)[..., None],
        times,
        tuple(map(str, speeds.columns)),
        ("speed",),
        graph=graph,
        name=name,
    )
