"""Find the order in time of data from the data alone, and how certain it is.

For each order m, the state, its Laplacians and the lower differences are fitted to explain the m-th difference. All
terms are tested against smooth sequences (`weak_form`). Pieces of the data are drawn repeatedly: the fit, in closed
form, uses the drawn pieces, and the other pieces judge it by the explained share, not counting what noise must leave
unexplained. The order of a resample is the smallest order that explains enough. The order of the data is the one on
which most resamples agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from tdegnn.analysis.order_limits import (
    ABLE_ENOUGH,
    AGREED_ENOUGH,
    CONFIDENCE,
    FEWEST_PIECES,
    FINEST,
    HIGHEST_ORDER,
    LARGEST_WINDOW,
    MOST_NOISE,
    NUM_RESAMPLES,
    USUAL_MAX_ORDER,
)
from tdegnn.analysis.order_report import (
    LowerDerivative,
    OrderFound,
    OrderTrial,
    in_doubt,
    is_left_unexplained,
    may_be_smoothness,
)
from tdegnn.analysis.order_scales import Scales, choose_scales
from tdegnn.analysis.order_states import HasLaplacian, HasSeries, ReadyStates, make_ready, step_of
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.analysis.weak_form import Moments, difference_kernels, explained_without_noise, solve
from tdegnn.errors import InputError, check_count, check_finite

# Codes for a resample without an order: no order explains enough, or there is too much noise to judge.
NO_ORDER, UNABLE = 0, -1
COARSE = (
    "The series change about as fast as they are observed, so differences approximate derivatives poorly: observe more "
    "often to be sure."
)

UNEXPLAINED = (
    "Some of the leading difference is left unexplained, and it is not noise: something outside the data acts on the "
    "series, or nodes act on each other in a way that no Laplacian of these edges describes."
)


def find_order(
    states: ArrayLike | HasSeries,
    graph: HasLaplacian | None = None,
    *,
    step_size: float | None = None,
    max_order: int = USUAL_MAX_ORDER,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
    on_order: Callable[[], None] | None = None,
) -> OrderFound:
    """Find the order in time of the equation that data follow.

    Args:
        states: A panel, or an array of shape (time, nodes), (time, nodes, channels) or (trajectories, time, nodes,
            channels), with NaN for missing values. Several trajectories from different initial states are more
            informative than one.
        graph: The graph of the nodes. Default: the graph of the panel, if there is one.
        step_size: Time between two observations. It only scales the reported equation. Default: the step of a panel
            whose times are numbers, else 1.
        max_order: Largest order to try, at most 6.
        num_resamples: Number of times that pieces of the data are drawn.
        seed: Seed of the resamples.
        on_order: Called after each order, for example to show progress.

    Returns:
        The order (`None` if the data cannot tell), the explained share of each order, the agreement of the resamples,
        and the weights `D_j` of the lower derivatives.

    Example:
        >>> time = torch.arange(400)[:, None]
        >>> find_order(torch.sin(0.1 * time + torch.arange(3))).verdict
        'Second order, each node by itself, in 100 % of the resamples.'

    """
    check_count(max_order=max_order)
    check_count(2, num_resamples=num_resamples)
    check_count(0, seed=seed)
    step_size = step_of(states) if step_size is None else step_size
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
    orders = orders[orders != UNABLE]
    trials = tuple(entry.to_trial(_share(orders == entry.order)) for entry in judged)
    best = max(trials, key=lambda trial: trial.chosen)
    is_able, is_agreed = len(orders) >= ABLE_ENOUGH * num_resamples, best.chosen >= AGREED_ENOUGH
    is_doubtful = bool(in_doubt(trials, best.order)) or may_be_smoothness(best)
    order = best.order if is_able and is_agreed and not is_doubtful else None
    return OrderFound(
        order=order,
        trials=trials,
        derivatives=() if order is None else judged[order - 1].derivatives(step_size),
        has_graph=ready.has_graph,
        noise_share=ready.noise_share,
        num_pieces=len(ready.pieces),
        num_resamples=num_resamples,
        able=len(orders) / num_resamples,
        step_size=step_size,
        notes=(*ready.notes, *_notice(judged, trials, order)),
    )


def _notice(judged: Sequence[_Judged], trials: Sequence[OrderTrial], order: int | None) -> list[str]:
    """Return notes on the data that a reader should know before trusting the verdict."""
    notes = []
    if order is not None and is_left_unexplained(trials[order - 1]):
        notes.append(UNEXPLAINED)
    if any(entry.scales.is_coarse for entry in judged[: order or len(judged)]):
        notes.append(COARSE)
    first = judged[0].scales.moments
    if order is None and first:
        variances = np.maximum(
            first[0].products[:, -1, -1] - first[0].noise[:, -1, -1] * first[0].counts.sum(axis=1), 0
        )
        num_full = variances.sum() ** 2 / max(np.square(variances).sum(), np.finfo(float).tiny)
        if num_full < min(FEWEST_PIECES, len(variances) / 2):
            notes.append(
                f"Nearly all change lies in {max(round(num_full), 1)} of {len(variances)} pieces of the data: use only "
                "the stretch with change, or several trajectories."
            )
    return notes


class _Resample(NamedTuple):
    """How often each piece is fitted, and which pieces judge."""

    fitted: Float[np.ndarray, " pieces"]
    judging: Float[np.ndarray, " pieces"]


def _draw(num_pieces: int, num_resamples: int, seed: int) -> list[_Resample]:
    """Draw as many pieces as there are, with replacement. The pieces that were not drawn judge."""
    generator = np.random.default_rng(seed)
    resamples: list[_Resample] = []
    while len(resamples) < num_resamples:
        drawn = np.bincount(generator.integers(0, num_pieces, num_pieces), minlength=num_pieces).astype(np.float64)
        if not drawn.all():
            resamples.append(_Resample(drawn, (drawn == 0).astype(np.float64)))
    return resamples


@dataclass(frozen=True)
class _Judged:
    """The result for one order on all resamples.

    Attributes:
        order: The order m.
        scales: The scales that were used.
        shares: Explained share per resample, at the scale where it is lowest. NaN if the resample is unable to judge.
        weights: D_j per resample, averaged over the scales.
        estimates: D_j of all data, averaged over the scales.
    """

    order: int
    scales: Scales
    shares: Float[np.ndarray, " resamples"]
    weights: Float[np.ndarray, "resamples lower"]
    estimates: Float[np.ndarray, " lower"]

    def to_trial(self, chosen: float) -> OrderTrial:
        """Summarize the result. `chosen` is the share of resamples that chose this order."""
        quantiles = (0.5, 0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)
        able = self.shares[~np.isnan(self.shares)]
        middle, low, high = np.quantile(able, quantiles).tolist() if able.size else (None, None, None)
        half_widths = tuple(moments.half_width for moments in self.scales.moments)
        return OrderTrial(self.order, middle, low, high, chosen, self.scales.noise, half_widths)

    def derivatives(self, step_size: float) -> tuple[LowerDerivative, ...]:
        """Return the lower derivatives, with t intervals from the spread over the resamples.

        A central difference differs from the derivative by `m / 24` times the (m + 2)-th derivative. The intervals are
        widened by this bias.
        """
        if self.order == 1:
            return ()
        deviations = np.sqrt(_clean_variances(self.scales.moments[0])[-self.order :])
        bias = self.order / 24 * (deviations[-1] / deviations[-2]) ** 2
        num_pieces = len(self.scales.moments[0].counts)
        able = self.weights[~np.isnan(self.shares)]
        spreads = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, num_pieces - 1) * able.std(axis=0)
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


def _share(is_so: Bool[np.ndarray, " resamples"]) -> float:
    return float(is_so.mean()) if is_so.size else 0.0


def _orders_of_resamples(judged: Sequence[_Judged]) -> Int[np.ndarray, " resamples"]:
    """Return the smallest order that explains enough per resample, or `NO_ORDER` or `UNABLE` if there is none.

    If noise hides an order from all resamples, this order and the higher ones are not judged. If noise hides it from
    one resample only, because the change lies in other pieces, this resample is unable to judge.
    """
    found = np.full(len(judged[0].shares), NO_ORDER, dtype=np.int64)
    for entry in judged:
        if not entry.scales.moments:
            break
        is_open = found == NO_ORDER
        found = np.where(is_open & np.isnan(entry.shares), UNABLE, found)
        found = np.where(is_open & (entry.shares >= EXPLAINED_ENOUGH), entry.order, found)
    return found


def _judge(order: int, ready: ReadyStates, resamples: Sequence[_Resample]) -> _Judged:
    scales = choose_scales(order, ready)
    num_scales, everything = len(scales.moments), np.ones(len(ready.pieces))
    shares = np.empty((num_scales, len(resamples)))
    weights = np.empty((num_scales, len(resamples), order - 1))
    estimates = np.empty((num_scales, order - 1))
    for row, moments in enumerate(scales.moments):
        estimates[row] = _lower_weights(order, solve(*_see(moments, everything, moments.means(everything))))
        for column, resample in enumerate(resamples):
            means = moments.means(resample.fitted)
            learned, judging = (_see(moments, pieces, means) for pieces in resample)
            fitted = solve(*learned)
            weights[row, column] = _lower_weights(order, fitted)
            is_able = not (learned.is_mostly_noise or judging.is_mostly_noise)
            shares[row, column] = explained_without_noise(*judging, fitted) if is_able else np.nan
    # An equation holds at every scale, so the scale with the lowest share decides.
    lowest = np.fmin.reduce(shares, axis=0, initial=np.nan)
    count = max(1, num_scales)
    return _Judged(order, scales, lowest, weights.sum(axis=0) / count, estimates.sum(axis=0) / count)


class _Seen(NamedTuple):
    """Covariances of the terms over some pieces, and the contribution of noise to them."""

    covariance: Float[np.ndarray, "terms terms"]
    noise: Float[np.ndarray, "terms terms"]

    @property
    def is_mostly_noise(self) -> bool:
        """Whether noise makes up too much of the m-th difference to judge by it."""
        return bool(self.noise[-1, -1] > MOST_NOISE * self.covariance[-1, -1])


def _see(moments: Moments, pieces: Float[np.ndarray, " pieces"], means: Float[np.ndarray, "groups terms"]) -> _Seen:
    return _Seen(moments.covariance(pieces, means), moments.noise_covariance(pieces))


def _lower_weights(order: int, fitted: Float[np.ndarray, " terms_but_one"]) -> Float[np.ndarray, " lower"]:
    """Return D_j of the lower differences. They are the last terms; moving them to the left side flips their sign."""
    return -fitted[len(fitted) - (order - 1) :]


def _clean_variances(moments: Moments) -> Float[np.ndarray, " terms"]:
    """Return the variances of the terms without noise."""
    everything = np.ones(len(moments.counts))
    covariance = moments.covariance(everything, moments.means(everything))
    return np.maximum(np.diag(covariance - moments.noise_covariance(everything)), np.finfo(float).tiny)
