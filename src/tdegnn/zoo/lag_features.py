"""What a regression sees of a series when it forecasts one step: lags of the node, of others, and what is known.

A feature gives its columns for many origins at once. Columns hold nothing from after the origin but what is known
ahead. Where nothing was observed the last value stands in, and before the first one the center, which is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse
from jaxtyping import Float

from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.zoo.series_inputs import carry_forward

Frames: TypeAlias = Float[np.ndarray, "time nodes"]
Columns: TypeAlias = Float[np.ndarray, "windows nodes columns"]


@dataclass(frozen=True, eq=False)
class CenteredSeries:
    """One target of some series, less a center.

    Attributes:
        values: What was observed less the center; NaN where nothing was.
        known: Channels that are known ahead.
        graph: The graph the nodes live on.
    """

    values: Frames
    known: Float[np.ndarray, "known_time nodes channels"] | None = None
    graph: Graph | None = None

    @cached_property
    def filled(self) -> Frames:
        """The values without gaps."""
        return np.asarray(np.nan_to_num(carry_forward(self.values)))

    @cached_property
    def neighbor_means(self) -> Frames:
        """The weighted mean over those a node receives from; zero for a node that receives from none."""
        if self.graph is None:
            raise InputError("Expected a graph for lags of neighbors, got none. Give one, or leave them out.")
        received = self.graph.received.tocsr()
        sums = received.sum(axis=1)
        averaging = scipy.sparse.diags_array(1 / np.where(sums > 0, sums, 1.0)) @ received
        return np.ascontiguousarray((averaging @ self.filled.T).T)

    @cached_property
    def overall_means(self) -> Frames:
        """The mean over all nodes, the same for each."""
        return np.broadcast_to(self.filled.mean(axis=1, keepdims=True), self.filled.shape)


@runtime_checkable
class Feature(Protocol):
    """Some columns of a regression."""

    @property
    def num_seen(self) -> int:
        """Number of steps, the origin and those before it, that are looked at."""

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:
        """The columns to forecast the step `ahead` steps after each origin."""


@dataclass(frozen=True)
class OwnLags:
    """The newest values of the node itself."""

    num_seen: int

    def __post_init__(self) -> None:
        check_count(num_lags=self.num_seen)

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:  # noqa: ARG002
        """See `Feature`."""
        return _lags(series.filled, origins, self.num_seen)


@dataclass(frozen=True)
class NeighborLags:
    """The newest means over the neighbors of the node."""

    num_seen: int

    def __post_init__(self) -> None:
        check_count(num_lags=self.num_seen)

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:  # noqa: ARG002
        """See `Feature`."""
        return _lags(series.neighbor_means, origins, self.num_seen)


@dataclass(frozen=True)
class MeanLags:
    """The newest means over all nodes."""

    num_seen: int

    def __post_init__(self) -> None:
        check_count(num_lags=self.num_seen)

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:  # noqa: ARG002
        """See `Feature`."""
        return _lags(series.overall_means, origins, self.num_seen)


@dataclass(frozen=True)
class KnownChannels:
    """The channels known ahead, at the step to forecast."""

    num_seen: int = 0

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:
        """See `Feature`."""
        if series.known is None:
            raise InputError("Expected channels that are known ahead, got none. Give some, such as season_waves.")
        if origins and max(origins) + ahead >= len(series.known):
            raise InputError(
                f"Expected known channels at step {max(origins) + ahead}, which is forecast, got {len(series.known)} "
                "steps from 0 on. Give as many more as the horizon has."
            )
        return series.known[np.asarray(origins, dtype=np.int64) + ahead]


def _lags(frames: Frames, origins: range, num_lags: int) -> Columns:
    newest = np.asarray(origins, dtype=np.int64)
    return np.stack([frames[newest - lag] for lag in range(num_lags)], axis=-1)
