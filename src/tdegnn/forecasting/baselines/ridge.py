"""Ridge regression of each step ahead on lags of the node, lags of others, and channels known ahead.

A feature computes its columns for many origins at once. Columns hold no values from after the origin, except channels
known ahead. A missing value is replaced by the last one before it or, if there is none, by the center, which is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float

from tdegnn.errors import InputError, check_count
from tdegnn.forecasting.baselines.naive import Predictions, SeriesInputs, carry_forward, node_means
from tdegnn.graph import Graph
from tdegnn.ridge import solve_ridge

Frames: TypeAlias = Float[np.ndarray, "time nodes"]
Columns: TypeAlias = Float[np.ndarray, "windows nodes columns"]


@dataclass(frozen=True, eq=False)
class CenteredSeries:
    """One target of some series, minus a center.

    Attributes:
        values: Observed values minus the center. NaN if not observed.
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
        """The weighted mean over the nodes that a node receives from. Zero if there are none."""
        if self.graph is None:
            raise InputError("Expected a graph for lags of neighbors, got none. Give one, or leave them out.")
        received = self.graph.received.tocsr()
        sums = received.sum(axis=1)
        averaging = scipy.sparse.diags_array(1 / np.where(sums > 0, sums, 1.0)) @ received
        return np.ascontiguousarray((averaging @ self.filled.T).T)

    @cached_property
    def overall_means(self) -> Frames:
        """The mean over all nodes."""
        return np.broadcast_to(self.filled.mean(axis=1, keepdims=True), self.filled.shape)


@runtime_checkable
class Feature(Protocol):
    """A feature: some columns of a regression."""

    @property
    def num_seen(self) -> int:
        """Number of steps that are seen, up to the origin."""

    def columns(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:
        """Return the columns to forecast the step `ahead` steps after each origin."""


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


LAMBDAS = tuple(float(10.0**power) for power in np.arange(-5, 2.1, 0.5))
Per = Literal["node", "all"]
# Products of the columns (1, features, target) with each other, summed over rows. A group is a node, or all nodes.
Products: TypeAlias = Float[np.ndarray, "groups columns columns"]
Weights: TypeAlias = Float[np.ndarray, "groups weights"]

# Maximum number of values in a block of rows: about 32 MB.
NUMBERS_AT_ONCE = 2**22
# A variance of at most this share of the mean square is zero up to rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class RidgeForecast:
    """Regression of each step of the horizon on `features`.

    Attributes:
        features: What the regression sees.
        per: `"node"`: each node has its own weights. `"all"`: all nodes share them.
        lambdas: Strengths of the ridge to choose from on the validation steps, one for all nodes. 0 is least squares.
    """

    features: tuple[Feature, ...]
    per: Per = "node"
    lambdas: Sequence[float] = LAMBDAS

    def __post_init__(self) -> None:
        if not self.features:
            raise InputError("Expected at least one feature, got none. Take OwnLags(4), or MeanForecast.")
        if self.per not in get_args(Per):
            raise InputError(f"Expected per to be 'node' or 'all', got {self.per!r}.")
        if not self.lambdas or not all(0 <= strength < np.inf for strength in self.lambdas):
            raise InputError(f"Expected lambdas that are finite and not negative, got {list(self.lambdas)}.")

    @property
    def num_seen(self) -> int:
        """Number of steps a forecast looks at."""
        return max(1, *(feature.num_seen for feature in self.features))

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedRidge:
        """See `ForecastMethod`. Training steps with too few steps before them are left out."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        centers = self._centers(series, training_steps)
        weights, chosen = [], []
        for target in range(series.num_targets):
            centered = _center(series, centers, target)
            for ahead in range(1, horizon + 1):
                training = self._products(centered, training_steps, ahead)
                validation = self._products(centered, validation_steps, ahead)
                strength = choose_lambda(training, validation, self.lambdas, self.num_seen)
                weights.append(solve_products(training + validation, [strength])[0])
                chosen.append(strength)
        shape = (series.num_targets, horizon)
        stacked = np.stack(weights).reshape(*shape, *weights[0].shape)
        return FittedRidge(self, centers, stacked, np.array(chosen).reshape(shape))

    def rows(self, series: CenteredSeries, origins: range, ahead: int) -> Columns:
        """Return a one and the columns of all features."""
        ones = np.ones((len(origins), series.values.shape[1], 1))
        return np.concatenate([ones, *(feature.columns(series, origins, ahead) for feature in self.features)], axis=-1)

    def _centers(self, series: SeriesInputs, training_steps: range) -> Float[np.ndarray, "nodes targets"]:
        values = series.values[: training_steps.stop]
        means = node_means(values)
        if self.per == "node":
            return means
        return np.broadcast_to(np.nanmean(values, axis=(0, 1)), means.shape)

    def _products(self, series: CenteredSeries, steps: range, ahead: int) -> Products:
        """Return products of columns, summed over the `steps` that were observed and have enough steps before them."""
        origins = range(max(steps.start - ahead, self.num_seen - 1), steps.stop - ahead)
        num_nodes = series.values.shape[1]
        num_columns = self.rows(series, origins[:0], ahead).shape[-1] + 1
        products = np.zeros((num_nodes if self.per == "node" else 1, num_columns, num_columns))
        for block in _blocks(origins, num_nodes * num_columns):
            targets = series.values[block.start + ahead : block.stop + ahead, :, None]
            rows = np.concatenate([self.rows(series, block, ahead), targets], axis=-1)
            rows = np.where(np.isnan(targets), 0.0, rows)
            # (groups, rows, columns)
            grouped = rows.swapaxes(0, 1) if self.per == "node" else rows.reshape(1, -1, num_columns)
            products += grouped.swapaxes(1, 2) @ grouped
        return products


@dataclass(frozen=True, eq=False)
class FittedRidge:
    """A regression for each target and step of the horizon.

    Attributes:
        method: The method that was fitted.
        centers: Subtracted from the values before anything else.
        weights: Weights of a one and of all columns, per group: each node, or all of them.
        chosen_lambdas: The lambdas that were best on the validation steps.
    """

    method: RidgeForecast
    centers: Float[np.ndarray, "nodes targets"]
    weights: Float[np.ndarray, "targets horizon groups weights"]
    chosen_lambdas: Float[np.ndarray, "targets horizon"]

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        self._check(series, first_target_steps)
        num_targets, horizon, _, num_weights = self.weights.shape
        forecasts = np.empty((len(first_target_steps), horizon, series.num_nodes, num_targets))
        for target in range(num_targets):
            centered = _center(series, self.centers, target)
            for ahead in range(1, horizon + 1):
                weights = np.broadcast_to(self.weights[target, ahead - 1], (series.num_nodes, num_weights))
                for block in _blocks(range(len(first_target_steps)), series.num_nodes * num_weights):
                    firsts = first_target_steps[block.start : block.stop]
                    origins = range(firsts.start - 1, firsts.stop - 1, firsts.step)
                    rows = self.method.rows(centered, origins, ahead)
                    predicted = np.einsum("wnc,nc->wn", rows, weights) + self.centers[:, target]
                    forecasts[block.start : block.stop, ahead - 1, :, target] = predicted
        return forecasts

    def _check(self, series: SeriesInputs, first_target_steps: range) -> None:
        series.check_targets(first_target_steps, self.method.num_seen)
        came = series.values.shape[1:]
        if came != self.centers.shape:
            raise InputError(f"Expected the {self.centers.shape} nodes and targets that were fitted, got {came}.")
        num_columns = self.method.rows(_center(series, self.centers, 0), range(0), 1).shape[-1]
        if num_columns != self.weights.shape[-1]:
            raise InputError(
                f"Expected as many known channels as were fitted, {self.weights.shape[-1]} columns in all, got "
                f"{num_columns}."
            )


def _center(series: SeriesInputs, centers: Float[np.ndarray, "nodes targets"], target: int) -> CenteredSeries:
    # Products of columns lose half of the digits: float32 has too few.
    values = series.values[..., target].astype(np.float64) - centers[:, target]
    return CenteredSeries(values, series.known, series.graph)


def _blocks(steps: range, numbers_a_step: int) -> Iterator[range]:
    size = max(1, NUMBERS_AT_ONCE // numbers_a_step)
    for first in range(0, len(steps), size):
        yield steps[first : first + size]


def choose_lambda(training: Products, validation: Products, lambdas: Sequence[float], num_seen: int) -> float:
    """Return the lambda with the smallest validation error; of several, the smallest.

    Args:
        training: Products of the training steps.
        validation: Products of the validation steps.
        lambdas: Strengths of the ridge to choose from.
        num_seen: Number of steps a forecast looks at, for messages.
    """
    if not training[:, 0, 0].any():
        raise InputError(
            f"Expected training steps that were observed and have {num_seen} steps before them, got none. "
            "Take fewer lags or more training steps."
        )
    lambdas = sorted(lambdas)
    if len(lambdas) == 1:
        return float(lambdas[0])
    if not validation[:, 0, 0].any():
        raise InputError(
            "Expected observed validation steps to choose lambda by, got none. Give some, or a single lambda."
        )
    errors = squared_errors(validation, solve_products(training, lambdas))
    return float(lambdas[int(np.argmin(errors))])


def squared_errors(
    products: Products, weights: Float[np.ndarray, "lambdas groups weights"]
) -> Float[np.ndarray, " lambdas"]:
    """Return the squared errors of some weights, summed over the rows of the products."""
    # (lambdas, groups, columns): a row times this is its error.
    of_error = np.concatenate([-weights, np.ones((*weights.shape[:2], 1))], axis=-1)
    return np.asarray(np.einsum("lgi,gij,lgj->l", of_error, products, of_error, optimize=True))


def solve_products(products: Products, lambdas: Sequence[float]) -> Float[np.ndarray, "lambdas groups weights"]:
    """Return the weights of (1, features) for each lambda. A group without rows has zeros."""
    counts = np.maximum(products[:, 0, 0], 1.0)[:, None]
    means = products[:, 0, 1:] / counts
    squares = np.diagonal(products, axis1=1, axis2=2)[:, 1:-1] / counts
    covariance = products[:, 1:, 1:] / counts[..., None] - means[:, :, None] * means[:, None, :]
    variances = np.diagonal(covariance, axis1=1, axis2=2)[:, :-1]
    is_constant = variances <= ROUNDING * squares
    spreads = np.sqrt(np.where(is_constant, np.inf, variances))
    correlations = covariance[:, :-1, :-1] / (spreads[:, :, None] * spreads[:, None, :])
    explained = (covariance[:, :-1, -1] / spreads)[..., None]
    solved = [solve_ridge(torch.from_numpy(correlations), torch.from_numpy(explained), each) for each in lambdas]
    slopes = torch.stack(solved).squeeze(-1).numpy() / spreads
    intercepts = means[:, -1] - np.einsum("lgi,gi->lg", slopes, means[:, :-1])
    return np.concatenate([intercepts[..., None], slopes], axis=-1)
