"""Hourly counts with a weekly rhythm, and the rate behind them: most counts are zero.

The rate of a node is its level times a mixture of two weeks: one of work, busy in the morning and the evening of
weekdays, and one of leisure, busy on weekends. Counts are Poisson, so no forecast can have a lower squared error than
the rate itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Integer

from tdegnn.data.panel import Panel
from tdegnn.errors import check_count
from tdegnn.graph import Graph

HOURS_OF_WEEK = 168
# Mean count per hour and its spread over the nodes, in logarithms: about 80 % of all counts are zero.
MEAN_COUNT, SPREAD = 0.25, 0.6
# Edges per node. They lead anywhere: the rhythm is all there is to learn.
DEGREE = 4


@dataclass(frozen=True, eq=False)
class HourlyCounts:
    """Counts, and what nobody knows in practice.

    Attributes:
        panel: The counts, on a graph.
        rates: The rate of each count: the best possible forecast.
    """

    panel: Panel
    rates: Float[np.ndarray, "time nodes"]


def simulate_hourly_counts(num_nodes: int, num_weeks: int, seed: int) -> HourlyCounts:
    """Draw hourly counts.

    Args:
        num_nodes: Number of nodes.
        num_weeks: Number of weeks, from a Monday on.
        seed: Seed of everything that is drawn.
    """
    check_count(num_nodes=num_nodes, num_weeks=num_weeks)
    check_count(minimum=0, seed=seed)
    draw = np.random.default_rng(seed)
    times = pd.date_range("2024-01-01", periods=num_weeks * HOURS_OF_WEEK, freq="h")
    hours, days = (np.asarray(each) for each in (times.hour, times.day_of_week))
    work = np.where(
        days >= 5,
        0.3 * _bump(hours, 14.0, 4.0),
        _bump(hours, 8.0, 1.5) + 0.4 * _bump(hours, 12.0, 2.5) + _bump(hours, 18.0, 2.0),
    )
    leisure = np.where(
        days >= 5,
        1.4 * _bump(hours, 15.0, 4.0) + 0.4 * _bump(hours, 22.0, 2.0),
        np.where(days == 4, 0.75, 0.5) * _bump(hours, 19.0, 3.0),
    )
    mixture, levels = draw.random(num_nodes), MEAN_COUNT * np.exp(SPREAD * draw.standard_normal(num_nodes))
    shapes = 0.05 + work[:, None] * mixture + leisure[:, None] * (1 - mixture)
    rates = levels * shapes / shapes.mean(axis=0)
    graph = Graph(draw.integers(0, num_nodes, (2, DEGREE * num_nodes)), num_nodes)
    return HourlyCounts(Panel.from_array(draw.poisson(rates).astype(np.float64), times=times, graph=graph), rates)


def _bump(hours: Integer[np.ndarray, " time"], center: float, width: float) -> Float[np.ndarray, " time"]:
    """Return a bell over the hours of a day, around its center."""
    distance = np.minimum(np.abs(hours - center), 24 - np.abs(hours - center))
    return np.asarray(np.exp(-0.5 * (distance / width) ** 2))
