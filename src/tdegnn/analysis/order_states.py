"""Prepare observed series for the search for their order: fill gaps, center, scale, cut, and estimate the noise.

Each node is centered and each channel scaled, so that the verdict does not depend on levels and units. Short gaps are
filled; windows that touch a longer gap are left out later. The noise is estimated from high differences, in which a
smooth signal vanishes. Only white noise is recognized as noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from math import ceil, comb, sqrt
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike
from scipy.interpolate import Akima1DInterpolator

from tdegnn.analysis.order_limits import (
    FEWEST_PIECES,
    HIGHEST_DIFFERENCE,
    LONGEST_FILLED_GAP,
    MOST_PIECES,
    NUM_PIECES,
    USUAL_PIECE,
)
from tdegnn.analysis.stencil import as_array
from tdegnn.analysis.weak_form import Piece
from tdegnn.errors import InputError, name_kind

Values: TypeAlias = Float[np.ndarray, "trajectories time nodes channels"]
Known: TypeAlias = Bool[np.ndarray, "trajectories time nodes"]

# A node is constant if its values spread less than this, relative to their size.
CONSTANT_WITHIN = 1e-12


@runtime_checkable
class HasLaplacian(Protocol):
    """A graph that knows its number of nodes, its Laplacian, and which node receives from which."""

    num_nodes: int

    @property
    def received(self) -> Any:
        """Sparse matrix with one row per receiving node."""

    def laplacian(self, state: Any) -> Any:
        """Return `L F` of a tensor of shape (*batch, nodes, channels)."""


def step_of(states: Any) -> float:
    """Return the step of a panel whose times are numbers, or 1 for anything else."""
    times: Any = getattr(states, "times", ())
    return float(times[1] - times[0]) if len(times) > 1 and times.dtype.kind in "iuf" else 1.0


@runtime_checkable
class HasSeries(Protocol):
    """A panel of series (time, nodes, channels), with or without a graph. The first channels form the state."""

    @property
    def nodes(self) -> Any:
        """The names of the nodes."""

    @property
    def values(self) -> Any:
        """The series."""

    @property
    def num_targets(self) -> int:
        """Number of channels that form the state."""

    @property
    def graph(self) -> Any:
        """The graph, or `None` if it is not known."""


@runtime_checkable
class HasColumns(Protocol):
    """A frame of pandas, polars or any other library."""

    @property
    def columns(self) -> Any:
        """The names of the columns, or the columns."""


def read_frame(frame: HasColumns) -> HasSeries:
    """Return the panel in a frame, wide or long, as `read_panel` reads it."""
    try:
        # By name: tables are read in another room.
        panel: HasSeries = import_module("tdegnn.data.panel").as_panel(frame)
    except InputError as error:
        raise InputError(error.message, " Numbers without times go in as an array: frame.to_numpy().") from error
    return panel


class ReadyStates(NamedTuple):
    """Series prepared for the search.

    Attributes:
        pieces: The series, cut into pieces.
        num_channels: Number of channels of the state. They are the first variables of each piece.
        has_graph: Whether nodes see their neighbors.
        noise_share: Standard deviation of the noise, divided by that of the series without noise.
        notes: Remarks on how the series were prepared.
    """

    pieces: tuple[Piece, ...]
    num_channels: int
    has_graph: bool
    noise_share: float
    notes: tuple[str, ...]


def make_ready(states: ArrayLike | HasSeries, graph: Any, shortest_piece: int) -> ReadyStates:
    """Fill, center, scale and cut the series.

    Args:
        states: A panel, or an array of shape (time, nodes), (time, nodes, channels) or (trajectories, time, nodes,
            channels), with NaN for missing values.
        graph: The graph of the nodes: a `Graph`, or anything else that `read_graph` takes. Nodes of an array have their
            numbers as names. If `None`, the graph of the panel, if there is one.
        shortest_piece: Smallest number of steps per piece.
    """
    notes: list[str] = []
    values, graph = _take_apart(states, graph, notes)
    cuts = _plan_cuts(values.shape[0], values.shape[1], shortest_piece)
    values = _fill_short_gaps(values, notes)
    state, is_silent = _center(values, notes)
    is_known = ~np.isnan(values).any(axis=-1)
    state = np.where(is_known[..., None], state, 0.0)
    variables = _scale(state, is_known & ~is_silent)
    num_channels = num_multiplied = variables.shape[-1]
    if graph is not None:
        (normalized, plain), is_known = _laplacians(state, is_known, graph)
        scaled = [_scale(laplacian, is_known & ~is_silent) for laplacian in (normalized, plain)]
        num_multiplied += scaled[0].shape[-1]
        variables = np.concatenate([variables, *scaled], axis=-1)
    has_graph = variables.shape[-1] > num_channels
    if not has_graph and values.shape[2] > 1:
        notes.append("No edges are known: each node was judged by itself. If nodes act on each other, give the edges.")
    stretches = _cut(variables, is_known & ~is_silent, cuts, notes)
    noises = _estimate_noise(stretches, num_channels)
    pieces = tuple(Piece(*stretch, noise, num_multiplied) for stretch, noise in zip(stretches, noises, strict=True))
    # The variables of the state have variance one, noise included.
    noise_variance = float(np.mean([np.diag(noise)[:num_channels] for noise in noises]))
    noise_share = sqrt(noise_variance / (1.0 - noise_variance)) if noise_variance < 1 else float("inf")
    return ReadyStates(pieces, num_channels, has_graph, noise_share, tuple(notes))


def _take_apart(states: ArrayLike | HasSeries, graph: Any, notes: list[str]) -> tuple[Values, HasLaplacian | None]:
    names: Sequence[str] = ()
    if isinstance(states, HasSeries):
        names = states.nodes
        if graph is None and getattr(states, "graph_steps", None) is not None:
            raise InputError("Expected series on one graph, got edges that change. Leave the times of edges out.")
        graph = states.graph if graph is None else graph
        all_values = np.asarray(states.values)
        if states.num_targets < all_values.shape[-1]:
            notes.append("Only the channels to forecast belong to the state: the other channels were not used.")
        states = all_values[..., : states.num_targets]
    values = _as_numbers(states)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim == 3:
        values = values[None]
    if values.ndim != 4 or not values.size:
        raise InputError(
            "Expected states of shape (time, nodes), (time, nodes, channels) or (trajectories, time, nodes, channels), "
            f"got {values.shape}."
        )
    if np.isinf(values).any():
        raise InputError("Expected finite states, got an infinite one. Use NaN where nothing was observed.")
    # Squares of very large or very small numbers would overflow or underflow. The unit of the states does not matter.
    values = values / (np.max(np.abs(values), initial=0.0, where=~np.isnan(values)) or 1.0)
    if graph is not None and not isinstance(graph, HasLaplacian):
        graph, found = _read_graph(graph, names or [str(node) for node in range(values.shape[2])])
        notes.extend(found)
    if graph is not None and graph.num_nodes != values.shape[2]:
        hint = ""
        if graph.num_nodes == values.shape[-1]:
            hint = " Trajectories need channels as their last axis: pass states[..., None]."
        raise InputError(f"Expected states of {graph.num_nodes} nodes, as in the graph, got {values.shape[2]}.{hint}")
    return values, graph


def _as_numbers(states: Any) -> Shaped[np.ndarray, "..."]:
    try:
        if np.iscomplexobj(states):
            raise InputError(
                "Expected real states, got complex ones. Pass the real and imaginary parts as two channels."
            )
        return as_array(states)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected a panel, a frame or an array of numbers, got {name_kind(states)}. Read a file with read_panel."
        ) from error


def _read_graph(graph: Any, nodes: Sequence[str]) -> tuple[HasLaplacian, tuple[str, ...]]:
    """Return a networkx graph, a matrix, a table of edges, ... as a graph of these nodes, with notes."""
    # By name, as for frames.
    made: tuple[HasLaplacian, tuple[str, ...]] = import_module("tdegnn.data.graphs.edges").read_graph(graph, nodes)
    return made


class _CutPlan(NamedTuple):
    """The trajectories and the steps that form a piece."""

    trajectories: slice
    steps: slice


def _plan_cuts(num_trajectories: int, num_steps: int, shortest_piece: int) -> list[_CutPlan]:
    """Plan the pieces.

    A piece is a whole trajectory. If there are few trajectories, each is cut into several pieces; if there are very
    many, a piece holds several.
    """
    needed = ceil(FEWEST_PIECES / num_trajectories)
    num_parts = min(ceil(NUM_PIECES / num_trajectories), max(num_steps // USUAL_PIECE, needed))
    length = num_steps // num_parts
    if length < shortest_piece:
        raise InputError(
            f"Expected at least {needed * shortest_piece} steps ({FEWEST_PIECES} pieces of {shortest_piece}, to fit "
            f"some and judge by the others), got {num_steps}. Take a longer series, or try only lower orders."
        )
    edges = np.linspace(0, num_trajectories, min(num_trajectories, MOST_PIECES) + 1).astype(int).tolist()
    return [
        _CutPlan(slice(first, last), slice(part * length, (part + 1) * length))
        for first, last in pairwise(edges)
        for part in range(num_parts)
    ]


def _fill_short_gaps(values: Values, notes: list[str]) -> Values:
    """Fill gaps of a few steps from the values around them, and note how many values were filled and how many not."""
    is_missing = np.isnan(values)
    if not is_missing.any():
        return values
    filled = values.copy()
    for trajectory, node, channel in np.argwhere(is_missing.any(axis=1)):
        series = filled[trajectory, :, node, channel]
        series[:] = _fill(series)
    num_missing, num_left = int(is_missing.sum()), int(np.isnan(filled).sum())
    if num_missing > num_left:
        notes.append(
            f"{num_missing - num_left:,} of {num_missing:,} missing values, in gaps of at most {LONGEST_FILLED_GAP} "
            "steps, were filled."
        )
    if num_left:
        notes.append(
            f"{num_left:,} of {num_missing:,} missing values, in longer gaps or at an end, were not filled: windows "
            "that touch them were left out."
        )
    return filled


def _fill(series: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    is_missing = np.isnan(series)
    # Akima interpolation is of fourth order and uses two values on either side.
    if (~is_missing).sum() < 2:
        return series
    steps = np.arange(len(series))
    edges = np.flatnonzero(np.diff(np.r_[False, is_missing, False].astype(int)))
    is_short = np.zeros(len(series), dtype=bool)
    for first, last in edges.reshape(-1, 2):
        is_short[first:last] = last - first <= LONGEST_FILLED_GAP
    curve = Akima1DInterpolator(steps[~is_missing], series[~is_missing], extrapolate=False)
    return np.where(is_short, curve(steps), series)


def _center(values: Values, notes: list[str]) -> tuple[Values, Bool[np.ndarray, " nodes"]]:
    """Subtract each node's mean, and find the nodes that never change."""
    is_seen = ~np.isnan(values)
    counts = np.maximum(is_seen.sum(axis=(0, 1)), 1)
    means = np.where(is_seen, values, 0.0).sum(axis=(0, 1)) / counts
    centered = values - means
    spreads = np.max(np.abs(centered), axis=(0, 1), initial=0.0, where=is_seen)
    is_constant, is_observed = spreads <= CONSTANT_WITHIN * np.abs(means), is_seen.any(axis=(0, 1))
    is_silent = np.asarray((is_constant & is_observed).all(axis=-1))
    if is_constant.all():
        raise InputError("Expected series that change, got constant ones. Constant series have no order.")
    if is_silent.any():
        notes.append(f"{is_silent.sum()} of {len(is_silent)} nodes never change: only the other nodes were judged.")
    # A constant without its mean is only rounding error.
    return np.where(is_constant, 0.0, centered), is_silent


def _scale(values: Values, is_known: Known) -> Values:
    """Divide channels by their standard deviation, and leave out channels without spread."""
    deviations = np.sqrt(np.mean(np.square(values[is_known]), axis=0)) if is_known.any() else np.zeros(values.shape[-1])
    return np.asarray(values[..., deviations > 0] / deviations[deviations > 0])


def _laplacians(state: Values, is_known: Known, graph: HasLaplacian) -> tuple[tuple[Values, Values], Known]:
    """Return `L F` of the normalized Laplacian and of the plain one, D - A, and where they are known.

    They are known where none of the values they use is missing. Other Laplacians are nearly combinations of these two.
    """
    import torch

    normalized = as_array(graph.laplacian(torch.as_tensor(state)))
    received = graph.received.tocsr()
    nodes_first = np.moveaxis(state, 2, 0)
    sums = (received @ nodes_first.reshape(len(nodes_first), -1)).reshape(nodes_first.shape)
    plain = np.asarray(received.sum(axis=1))[:, None] * state - np.moveaxis(sums, 0, 2)
    if not is_known.all():
        is_missing = (~is_known)[..., None].astype(np.float64)
        # I - L has no negative entries, so it maps the missing values to the nodes that see one.
        seen = is_missing - as_array(graph.laplacian(torch.as_tensor(is_missing)))
        is_known = is_known & ~(seen[..., 0] > 0)
    return (normalized, plain), is_known


def _cut(variables: Values, is_known: Known, cuts: list[_CutPlan], notes: list[str]) -> list[tuple[Values, Known]]:
    """Return the pieces with at least half of their values known."""
    pieces = [(variables[cut], is_known[cut]) for cut in cuts]
    num_nodes = np.count_nonzero(is_known.any(axis=(0, 1)))
    kept = [piece for piece in pieces if piece[1].sum() >= 0.5 * piece[1][..., 0].size * num_nodes > 0]
    if len(kept) < FEWEST_PIECES:
        raise InputError(
            f"Expected at least {FEWEST_PIECES} pieces of the series with half of their values (and their neighbors') "
            f"observed, got {len(kept)} of {len(pieces)}. Fill the gaps, leave out nodes that are hardly observed, or "
            "take a longer series."
        )
    if len(kept) < len(pieces):
        notes.append(f"{len(pieces) - len(kept)} of {len(pieces)} pieces of the series are mostly gaps: not used.")
    return kept


def _estimate_noise(
    stretches: list[tuple[Values, Known]], num_channels: int
) -> list[Float[np.ndarray, "variables variables"]]:
    """Estimate the covariance of the white noise in the variables of each piece from their k-th differences.

    White noise of variance v has k-th differences of variance `v binomial(2k, k)`. A smooth signal adds less and less
    to it as k grows, but the estimate becomes less certain. So the smallest k is used whose estimate equals the lowest
    one, up to chance.
    """
    by_order = []
    for k in range(1, HIGHEST_DIFFERENCE + 1):
        rows = [_differences(*stretch, k) for stretch in stretches]
        num_rows = sum(len(row) for row in rows)
        if min(len(row) for row in rows) == 0:
            break
        covariances = [row.T @ row / len(row) / comb(2 * k, k) for row in rows]
        estimate = float(np.mean([np.trace(covariance[:num_channels, :num_channels]) for covariance in covariances]))
        uncertainty = sqrt(2 * comb(4 * k, 2 * k) / comb(2 * k, k) ** 2 / (num_rows * num_channels))
        by_order.append((estimate, uncertainty, covariances))
    if not by_order:
        raise InputError("Expected observed neighboring steps in every piece of the series, got a piece without any.")
    lowest, uncertainty, _ = min(by_order, key=lambda entry: entry[0])
    return next(entry[2] for entry in by_order if entry[0] <= lowest * (1 + 2 * uncertainty))


def _differences(variables: Values, is_known: Known, k: int) -> Float[np.ndarray, "rows variables"]:
    """Return all k-th differences between known steps."""
    marked = np.where(is_known[..., None], variables, np.nan)
    rows = np.diff(marked, k, axis=1).reshape(-1, variables.shape[-1])
    return np.asarray(rows[~np.isnan(rows[:, 0])])
