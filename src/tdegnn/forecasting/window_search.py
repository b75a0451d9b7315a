"""Held-out errors of windows of several lengths, measured by ridge regressions that all nodes share.

A regression sees the lags of the node, those of its neighbors, and the waves of the seasons, as `RidgeForecast` does.
Here only sums of products are kept, in bounded memory. Lags are multiplied once for all steps ahead; the few rows in
which a step ahead has no target are subtracted again. On large panels, some nodes and some origins are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from tdegnn.forecasting.baselines.ridge import (
    LAMBDAS,
    CenteredSeries,
    Products,
    choose_lambda,
    solve_products,
    squared_errors,
)
from tdegnn.forecasting.stages import WINDOW_SEARCH
from tdegnn.graph import Graph
from tdegnn.training.progress import OnProgress, Progress, ignore

# Maximum number of values in a block of rows: about 32 MB.
NUMBERS_AT_ONCE = 2**22
# Maximum amount of work for one length: rows times columns times (columns + COST_OF_A_ROW). A few seconds on one core.
LARGEST_WORK = 2**39
# The time that a value takes to be copied, in multiplications.
COST_OF_A_ROW = 1024
# Nodes are left out before origins are, but never so many that fewer than these remain.
FEWEST_NODES = 256


class Stages(NamedTuple):
    """The steps that a regression learns from, those that choose lambda, and first targets by which it is judged."""

    training: range
    validation: range
    judged: range


def measure_windows(
    values: Float[np.ndarray, "time nodes targets"],
    waves: Float[np.ndarray, "time waves"],
    graph: Graph | None,
    stages: Mapping[int, Stages],
    horizon: int,
    on_progress: OnProgress = ignore,
) -> dict[int, float]:
    """Return the mean squared error on the judged windows, for each length of window. NaN if nothing was observed.

    Args:
        values: Scaled series. NaN if not observed.
        waves: Seasons, which are known ahead.
        graph: The graph. If None, there are no lags of neighbors.
        stages: Steps for each length. The judged windows are the same for all.
        horizon: Number of steps to forecast.
        on_progress: Called at the start, and after each length of each target.
    """
    num_done, num_parts = 0, values.shape[-1] * len(stages)
    on_progress(Progress(WINDOW_SEARCH, 0, num_parts))
    sample = _Sample.draw(values, 1 if graph is None else 2, max(stages), horizon)
    errors = {length: _Mean() for length in stages}
    for target in range(values.shape[-1]):
        lagged = _Lagged.of(values[..., target], waves, graph, sample)
        for length, (training, validation, judged) in stages.items():
            aheads = range(1, horizon + 1)
            # An origin is the step before the first target. Those of the judged windows are the same for all aheads.
            first = length - 1
            learned, chosen, seen = (
                lagged.multiply(length, origins)
                for origins in (
                    [range(max(training.start - ahead, first), training.stop - ahead) for ahead in aheads],
                    [range(max(validation.start - ahead, first), validation.stop - ahead) for ahead in aheads],
                    [range(judged.start - 1, judged.stop - 1)] * horizon,
                )
            )
            for ahead in aheads:
                parts = [products.ahead(ahead) for products in (learned, chosen, seen)]
                strength = choose_lambda(parts[0], parts[1], LAMBDAS, length)
                weights = solve_products(parts[0] + parts[1], [strength])
                errors[length].add(float(squared_errors(parts[2], weights)[0]), float(parts[2][0, 0, 0]))
            num_done += 1
            on_progress(Progress(WINDOW_SEARCH, num_done, num_parts))
    return {length: mean.value for length, mean in errors.items()}


@dataclass
class _Mean:
    total: float = 0.0
    count: float = 0.0

    def add(self, total: float, count: float) -> None:
        self.total, self.count = self.total + total, self.count + count

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else np.nan


class _Sample(NamedTuple):
    """The nodes that regressions learn from, and the number of steps from one origin to the next."""

    nodes: Int[np.ndarray, " sample"]
    stride: int

    @classmethod
    def draw(
        cls, values: Float[np.ndarray, "time nodes targets"], num_series: int, longest: int, horizon: int
    ) -> _Sample:
        """Return all nodes and origins, or as many as can be multiplied in a few seconds with the longest window."""
        num_steps, num_nodes, num_targets = values.shape
        num_columns = 1 + num_series * longest
        # Rows without a target are multiplied once more for each step ahead.
        times = 1 + horizon * float(np.isnan(values).mean())
        num_rows = LARGEST_WORK / (num_columns * (num_columns + COST_OF_A_ROW) * times * num_targets)
        sampled = min(num_nodes, max(FEWEST_NODES, int(num_rows / num_steps)))
        nodes = np.sort(np.random.default_rng(0).permutation(num_nodes)[:sampled])
        return cls(nodes, max(1, ceil(sampled * num_steps / num_rows)))


@dataclass(frozen=True, eq=False)
class _Lagged:
    """Series whose lags are seen, and what is forecast.

    Attributes:
        seen: Values of the node, and means of its neighbors if there is a graph. Without gaps.
        targets: Values of the node. Zero if not observed.
        is_observed: Whether they were.
        waves: Seasons.
        stride: Number of steps from one origin to the next.
    """

    seen: Float[np.ndarray, "series nodes time"]
    targets: Float[np.ndarray, "nodes time"]
    is_observed: Bool[np.ndarray, "nodes time"]
    waves: Float[np.ndarray, "time waves"]
    stride: int

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, "time nodes"],
        waves: Float[np.ndarray, "time waves"],
        graph: Graph | None,
        sample: _Sample,
    ) -> _Lagged:
        series = CenteredSeries(values, graph=graph)
        seen = [series.filled] if graph is None else [series.filled, series.neighbor_means]
        targets = np.ascontiguousarray(values[:, sample.nodes].T)
        is_observed = ~np.isnan(targets)
        return cls(
            np.stack([each[:, sample.nodes].T for each in seen]),
            np.where(is_observed, targets, 0.0),
            is_observed,
            waves,
            sample.stride,
        )

    def multiply(self, length: int, origins: Sequence[range]) -> _AheadProducts:
        """Return the products of all columns, for each step ahead over its own origins."""
        num_series, num_nodes, num_steps = self.seen.shape
        num_lags, num_waves, horizon = 1 + num_series * length, self.waves.shape[1], len(origins)
        products = _AheadProducts.zeros(horizon, num_lags, num_waves)
        lags = np.lib.stride_tricks.sliding_window_view(self.seen, length, axis=-1)
        starts, stops = (np.array([[getattr(each, end)] for each in origins]) for end in ("start", "stop"))
        every = range(int(starts.min()), int(stops.max()), self.stride)
        size = max(1, NUMBERS_AT_ONCE // (num_nodes * (num_lags + horizon)))
        for first in range(0, len(every), size):
            at = np.asarray(every[first : first + size])
            rows = np.ones((num_nodes, len(at), num_lags))
            rows[..., 1:] = lags[:, :, at - length + 1].transpose(1, 2, 0, 3).reshape(num_nodes, len(at), -1)
            # (ahead, origins)
            is_origin = (starts <= at) & (at < stops)
            steps = np.minimum(at + np.arange(1, horizon + 1)[:, None], num_steps - 1)
            is_kept = self.is_observed[:, steps] & is_origin
            targets = np.where(is_kept, self.targets[:, steps], 0.0)
            products.add(rows, self.waves[steps], targets.swapaxes(0, 1), is_kept.swapaxes(0, 1))
        return products


@dataclass(frozen=True, eq=False)
class _AheadProducts:
    """Products of the columns (1, lags), waves and target with each other, for each step ahead.

    Attributes:
        lags: Products of lags, over all rows.
        lags_waves: Products of lags and waves, over all rows.
        waves: Products of waves, over all rows.
        inputs_targets: Products of lags and waves with targets, over the rows with a target.
        targets: Squared targets.
        left_out: Products of lags and waves, over the rows without a target.
    """

    lags: Float[np.ndarray, "lags lags"]
    lags_waves: Float[np.ndarray, "ahead lags waves"]
    waves: Float[np.ndarray, "ahead waves waves"]
    inputs_targets: Float[np.ndarray, "ahead inputs"]
    targets: Float[np.ndarray, " ahead"]
    left_out: dict[int, Float[np.ndarray, "inputs inputs"]]

    @classmethod
    def zeros(cls, horizon: int, num_lags: int, num_waves: int) -> _AheadProducts:
        """Return the products of no rows."""
        return cls(
            np.zeros((num_lags, num_lags)),
            np.zeros((horizon, num_lags, num_waves)),
            np.zeros((horizon, num_waves, num_waves)),
            np.zeros((horizon, num_lags + num_waves)),
            np.zeros(horizon),
            {},
        )

    def add(
        self,
        rows: Float[np.ndarray, "nodes origins lags"],
        waves: Float[np.ndarray, "ahead origins waves"],
        targets: Float[np.ndarray, "ahead nodes origins"],
        is_kept: Bool[np.ndarray, "ahead nodes origins"],
    ) -> None:
        """Add rows. `waves` are the same for all nodes, `targets` are zero where they are not kept."""
        horizon, (num_nodes, _, num_lags) = len(targets), rows.shape
        flat = rows.reshape(-1, num_lags)
        self.lags[...] += flat.T @ flat
        self.lags_waves[...] += rows.sum(axis=0).T @ waves
        self.waves[...] += num_nodes * (waves.swapaxes(1, 2) @ waves)
        self.inputs_targets[:, :num_lags] += targets.reshape(horizon, -1) @ flat
        self.inputs_targets[:, num_lags:] += np.einsum("hb,hbw->hw", targets.sum(axis=1), waves)
        self.targets[...] += np.square(targets).sum(axis=(1, 2))
        for place in np.flatnonzero(~is_kept.all(axis=(1, 2))).tolist():
            nodes, origins = np.nonzero(~is_kept[place])
            without = np.concatenate([rows[nodes, origins], waves[place, origins]], axis=1)
            self.left_out[place] = self.left_out.get(place, 0.0) + without.T @ without

    def ahead(self, ahead: int) -> Products:
        """Return the products of the columns (1, lags, waves, target) for one step ahead."""
        place, num_lags = ahead - 1, len(self.lags)
        products = np.empty((1, *(len(self.inputs_targets[place]) + 1,) * 2))
        inputs = products[0, :-1, :-1]
        inputs[:num_lags, :num_lags] = self.lags
        inputs[:num_lags, num_lags:] = self.lags_waves[place]
        inputs[num_lags:, :num_lags] = self.lags_waves[place].T
        inputs[num_lags:, num_lags:] = self.waves[place]
        inputs -= self.left_out.get(place, 0.0)
        products[0, -1, :-1] = products[0, :-1, -1] = self.inputs_targets[place]
        products[0, -1, -1] = self.targets[place]
        return products
