"""Which order in time do data have? Found from the data alone, with how sure that is.

For each order m the m-th difference is to be explained by the state, its Laplacian and the lower differences, all
tested against smooth sequences (`weak_form`). Pieces of the data are drawn again and again; what was drawn is fitted,
in closed form, and what was not is judged: by the explained share, less what noise must leave unexplained. The order of
a drawing is the smallest that explains enough; the order of the data is the one on which most drawings agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from tdegnn.analysis.order_report import LowerDerivative, OrderFound, OrderTrial
from tdegnn.analysis.order_states import HasLaplacian, HasSeries, ReadyStates, make_ready
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.analysis.weak_form import Moments, difference_kernels, explained_without_noise, solve, tested_moments
from tdegnn.errors import InputError, check_count, check_finite

USUAL_MAX_ORDER = 4
# Among derivatives of a smooth series the higher ones follow from the lower, whatever made it: from order five or six
# on, that explains enough.
HIGHEST_ORDER = 6
NUM_RESAMPLES = 200
AGREED_ENOUGH = 0.8
CONFIDENCE = 0.95
FINEST = 3
# A window may be so much of a piece, so that pieces have several.
LARGEST_WINDOW = 0.6
# A scale is used where noise is at most so much of what is to be explained; failing that, the best of all, up to the
# second number: there, the noise is subtracted from what is half of it, which is not to be trusted any more.
LITTLE_NOISE, MOST_NOISE = 0.1, 0.5
# Coarse scales that keep less than this of the variance would judge another, slower system.
KEPT_VARIANCE = 0.5
# Of the scales that are left, the finest, the coarsest and one between them judge.
MOST_SCALES = 3
COARSE = (
    "The series change about as fast as they are observed, so that differences are poor derivatives: observe more "
    "often to be sure."
)


def find_order(
    states: ArrayLike | HasSeries,
    graph: HasLaplacian | None = None,
    *,
    step_size: float = 1.0,
    max_order: int = USUAL_MAX_ORDER,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
    on_order: Callable[[], None] | None = None,
) -> OrderFound:
    """Find the order in time of the equation that data follow.

    Args:
        states: A panel, or an array (time, nodes), (time, nodes, channels) or (trajectories, time, nodes, channels)
            with NaN where nothing was observed. Several trajectories from different initial states say more than one.
        graph: The graph of the nodes; that of the panel, or none, without it.
        step_size: Time between two observations. It only scales the equation that is reported.
        max_order: Largest order to try, at most 6.
        num_resamples: How often pieces of the data are drawn.
        seed: Seed of the drawings.
        on_order: Called after each order.

    Returns:
        The order, or that the data cannot tell, with what was explained, how many drawings agree, and the weights
        `D_j` of the lower derivatives.
    """
    check_count(max_order=max_order)
    check_count(2, num_resamples=num_resamples)
    check_count(0, seed=seed)
    check_finite(step_size=step_size)
    if not step_size > 0:
        raise InputError(f"Expected step_size to be positive, got {step_size}.")
    if max_order > HIGHEST_ORDER:
        raise InputError(f"Expected max_order to be at most {HIGHEST_ORDER}, got {max_order}.")
    shortest = ceil(difference_kernels(max_order, FINEST).shape[1] / LARGEST_WINDOW)
    ready = make_ready(states, graph, shortest)
    resamples = _draw(len(ready.pieces), num_resamples, seed)
    judged = []
    for tried in range(1, max_order + 1):
        judged.append(_judge(tried, ready, resamples))
        if on_order is not None:
            on_order()
    orders = _orders_of_resamples(judged)
    trials = tuple(entry.to_trial(float(np.mean(orders == entry.order))) for entry in judged)
    best = max(trials, key=lambda trial: trial.chosen)
    order = best.order if best.chosen >= AGREED_ENOUGH else None
    return OrderFound(
        order=order,
        trials=trials,
        derivatives=() if order is None else judged[order - 1].derivatives(step_size),
        noise_share=ready.noise_share,
        num_pieces=len(ready.pieces),
        num_resamples=num_resamples,
        step_size=step_size,
        notes=(*ready.notes, *([COARSE] if any(entry.scales.is_coarse for entry in judged[: order or None]) else [])),
    )


class _Resample(NamedTuple):
    """How often each piece is fitted, and which ones judge."""

    fitted: Float[np.ndarray, " pieces"]
    judging: Float[np.ndarray, " pieces"]


def _draw(num_pieces: int, num_resamples: int, seed: int) -> list[_Resample]:
    """Draw as many pieces as there are, with repetition; those that were not drawn judge."""
    generator = np.random.default_rng(seed)
    resamples: list[_Resample] = []
    while len(resamples) < num_resamples:
        drawn = np.bincount(generator.integers(0, num_pieces, num_pieces), minlength=num_pieces).astype(np.float64)
        if not drawn.all():
            resamples.append(_Resample(drawn, (drawn == 0).astype(np.float64)))
    return resamples


class _Scales(NamedTuple):
    """Where an order is judged.

    Attributes:
        moments: The scales that are used, finest first; none where noise allows none.
        noise: Share of noise in what is to be explained, at the scale where it is lowest.
        is_coarse: Whether all but the finest scale lose most of what is to be explained.
    """

    moments: tuple[Moments, ...]
    noise: float
    is_coarse: bool


@dataclass(frozen=True)
class _Judged:
    """One order on all resamples.

    Attributes:
        order: m.
        scales: The scales that were used.
        shares: Explained share in each resample, at the scale where it is lowest.
        weights: D_j in each resample, mean over the scales.
        estimates: D_j of all data, mean over the scales.
    """

    order: int
    scales: _Scales
    shares: Float[np.ndarray, " resamples"]
    weights: Float[np.ndarray, "resamples lower"]
    estimates: Float[np.ndarray, " lower"]

    def to_trial(self, chosen: float) -> OrderTrial:
        """Summarize; `chosen` is the share of resamples that have this order."""
        quantiles = (0.5, 0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)
        is_judged = bool(self.scales.moments)
        middle, low, high = np.quantile(self.shares, quantiles).tolist() if is_judged else (None, None, None)
        half_widths = tuple(moments.half_width for moments in self.scales.moments)
        return OrderTrial(self.order, middle, low, high, chosen, self.scales.noise, half_widths)

    def derivatives(self, step_size: float) -> tuple[LowerDerivative, ...]:
        """The lower derivatives, with t intervals by the spread over the resamples.

        A central difference is a derivative but for `m / 24` of the (m + 2)-th one: a bound on what D_j can mean.
        """
        if self.order == 1:
            return ()
        deviations = np.sqrt(_clean_variances(self.scales.moments[0])[-self.order :])
        bias = self.order / 24 * (deviations[-1] / deviations[-2]) ** 2
        num_pieces = len(self.scales.moments[0].counts)
        spreads = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, num_pieces - 1) * self.weights.std(axis=0, ddof=1)
        return tuple(
            LowerDerivative(
                order=j,
                weight=float(weight),
                low=float(weight - spread - bias * unit),
                high=float(weight + spread + bias * unit),
                rate=float(weight / step_size ** (self.order - j)),
                size=float(abs(weight) / unit),
            )
            for j, (weight, spread, unit) in enumerate(
                zip(self.estimates, spreads, deviations[-1] / deviations[:-1], strict=True), start=1
            )
        )


def _orders_of_resamples(judged: Sequence[_Judged]) -> Int[np.ndarray, " resamples"]:
    """The smallest order that explains enough in each resample, 0 where none does.

    Where noise hides an order, nothing is said about it and those above it.
    """
    found = np.zeros(len(judged[0].shares), dtype=np.int64)
    for entry in judged:
        if not entry.scales.moments:
            break
        found = np.where((found == 0) & (entry.shares >= EXPLAINED_ENOUGH), entry.order, found)
    return found


def _judge(order: int, ready: ReadyStates, resamples: Sequence[_Resample]) -> _Judged:
    scales = _choose_scales(order, ready)
    num_scales = len(scales.moments)
    shares = np.empty((num_scales, len(resamples)))
    weights = np.empty((num_scales, len(resamples), order - 1))
    estimates = np.empty((num_scales, order - 1))
    everything = np.ones(len(ready.pieces))
    for row, moments in enumerate(scales.moments):
        estimates[row] = _lower(_fit(moments, everything, moments.means(everything)), order)
        for column, resample in enumerate(resamples):
            means = moments.means(resample.fitted)
            fitted = _fit(moments, resample.fitted, means)
            judging = moments.covariance(resample.judging, means)
            shares[row, column] = explained_without_noise(judging, moments.noise_covariance(resample.fitted), fitted)
            weights[row, column] = _lower(fitted, order)
    # An equation holds at every scale; what is explained at one only is none.
    lowest = shares.min(axis=0, initial=np.inf)
    return _Judged(
        order, scales, lowest, weights.sum(axis=0) / max(1, num_scales), estimates.sum(axis=0) / max(1, num_scales)
    )


def _fit(
    moments: Moments, weights: Float[np.ndarray, " pieces"], means: Float[np.ndarray, "groups terms"]
) -> Float[np.ndarray, " terms_but_one"]:
    return solve(moments.covariance(weights, means), moments.noise_covariance(weights))


def _lower(fitted: Float[np.ndarray, " terms_but_one"], order: int) -> Float[np.ndarray, " lower"]:
    """D_j of the lower differences, which are the last terms: they stand on the other side of the equation."""
    return -fitted[len(fitted) - (order - 1) :]


class _Scale(NamedTuple):
    """Moments at one scale, the share of noise in what is to be explained, and the variance of the rest of it."""

    moments: Moments
    noise: float
    signal: float


def _choose_scales(order: int, ready: ReadyStates) -> _Scales:
    """The scales at which an order is judged."""
    scales = _all_scales(order, ready)
    best = min(scales, key=lambda scale: scale.noise)
    usable = [scale for scale in scales if scale.noise <= LITTLE_NOISE]
    if not usable and best.noise <= MOST_NOISE:
        usable = [best]
    strongest = max((scale.signal for scale in usable), default=0.0)
    kept = [scale.moments for scale in usable if scale.signal >= KEPT_VARIANCE * strongest]
    is_coarse = len(kept) == 1 < len(usable) and kept[0].half_width == FINEST
    chosen = sorted({round(place) for place in np.linspace(0, len(kept) - 1, MOST_SCALES)}) if kept else []
    return _Scales(tuple(kept[place] for place in chosen), best.noise, is_coarse)


def _all_scales(order: int, ready: ReadyStates) -> list[_Scale]:
    everything = np.ones(len(ready.pieces))
    scales = []
    for half_width in _half_widths(order, min(piece.variables.shape[1] for piece in ready.pieces)):
        moments = tested_moments(ready.pieces, ready.num_channels, order, half_width)
        if moments is not None:
            variance = float(moments.covariance(everything, moments.means(everything))[-1, -1])
            noise = float(moments.noise_covariance(everything)[-1, -1])
            scales.append(_Scale(moments, noise / variance if variance > 0 else 1.0, variance - noise))
    if not scales:
        raise InputError("Expected windows without gaps in every part of the series, got none. Fill the gaps first.")
    return scales


def _half_widths(order: int, length: int) -> list[int]:
    """3, 4, 6, 8, 12, 16, ... as far as the pieces have room."""
    widths: list[int] = []
    for power in count():
        width = (4, 6)[power % 2] << (power // 2)
        widths.append(width)
        if difference_kernels(order, width).shape[1] > LARGEST_WINDOW * length:
            break
    return [FINEST, *widths[:-1]]


def _clean_variances(moments: Moments) -> Float[np.ndarray, " terms"]:
    """Variances of the terms without noise."""
    everything = np.ones(len(moments.counts))
    covariance = moments.covariance(everything, moments.means(everything))
    return np.maximum(np.diag(covariance - moments.noise_covariance(everything)), np.finfo(float).tiny)
