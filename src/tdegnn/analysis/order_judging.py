"""Judge one order: fit it to drawn pieces of the data, and measure what the fit explains of the others.

All terms are tested against smooth sequences (`weak_form`), at scales that the data choose (`order_scales`). The fit is
in closed form. The shares at all scales make one share per resample (`order_shares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float

from tdegnn.analysis.order_limits import CONFIDENCE, MOST_NOISE
from tdegnn.analysis.order_report import LowerDerivative
from tdegnn.analysis.order_scales import Scales, choose_scales
from tdegnn.analysis.order_shares import expected_share, lowest_share
from tdegnn.analysis.order_states import ReadyStates
from tdegnn.analysis.order_trials import OrderTrial
from tdegnn.analysis.weak_form import Moments, explained_without_noise, solve


class Resample(NamedTuple):
    """How often each piece is fitted, and which pieces judge."""

    fitted: Float[np.ndarray, " pieces"]
    judging: Float[np.ndarray, " pieces"]


def draw_resamples(num_pieces: int, num_resamples: int, seed: int) -> list[Resample]:
    """Draw as many pieces as there are, with replacement. The pieces that were not drawn judge."""
    generator = np.random.default_rng(seed)
    resamples: list[Resample] = []
    while len(resamples) < num_resamples:
        drawn = np.bincount(generator.integers(0, num_pieces, num_pieces), minlength=num_pieces).astype(np.float64)
        if not drawn.all():
            resamples.append(Resample(drawn, (drawn == 0).astype(np.float64)))
    return resamples


@dataclass(frozen=True)
class Judged:
    """The result for one order on all resamples.

    Attributes:
        order: The order m.
        scales: The scales that were used.
        shares: Explained share per resample, at the scale where it is lowest, including fine scales that noise hides.
            NaN if the resample is unable to judge.
        visible: The same at the scales that noise leaves visible. Never lower than `shares`.
        weights: D_j per resample, averaged over the scales.
        estimates: D_j of all data, averaged over the scales.
    """

    order: int
    scales: Scales
    shares: Float[np.ndarray, " resamples"]
    visible: Float[np.ndarray, " resamples"]
    weights: Float[np.ndarray, "resamples lower"]
    estimates: Float[np.ndarray, " lower"]

    @cached_property
    def trial(self) -> OrderTrial:
        """The result in a few numbers, before the resamples choose. A fit that is worse than none explains nothing."""
        half_widths = tuple(moments.half_width for moments in self.scales.moments)
        is_able = ~np.isnan(self.shares)
        if not is_able.any():
            return OrderTrial(self.order, None, None, None, None, 0.0, self.scales.noise, half_widths)
        shares, visible = (np.clip(values[is_able], 0.0, 1.0) for values in (self.shares, self.visible))
        middle, low = np.quantile(shares, (0.5, 0.5 - CONFIDENCE / 2)).tolist()
        visible_middle, high = np.quantile(visible, (0.5, 0.5 + CONFIDENCE / 2)).tolist()
        return OrderTrial(self.order, middle, low, high, visible_middle, 0.0, self.scales.noise, half_widths)

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


def judge(order: int, ready: ReadyStates, resamples: Sequence[Resample]) -> Judged:
    """Fit an order to the drawn pieces of every resample, and judge it by the other pieces."""
    scales = choose_scales(order, ready)
    everything, num_judging = np.ones(len(ready.pieces)), len(scales.moments)
    seen = (*scales.moments, *scales.finer)
    shares = np.empty((len(seen), len(resamples)))
    weights = np.empty((len(seen), len(resamples), order - 1))
    estimates = np.empty((len(seen), order - 1))
    for row, moments in enumerate(seen):
        estimates[row] = _lower_weights(order, solve(*_see(moments, everything, moments.means(everything))))
        for column, resample in enumerate(resamples):
            means = moments.means(resample.fitted)
            learned, judging = (_see(moments, pieces, means) for pieces in resample)
            fitted = solve(*learned)
            weights[row, column] = _lower_weights(order, fitted)
            is_able = not (learned.is_mostly_noise or judging.is_mostly_noise)
            shares[row, column] = explained_without_noise(*judging, fitted) if is_able else np.nan
    count = max(1, num_judging)
    return Judged(
        order=order,
        scales=scales,
        shares=expected_share(shares[:num_judging], shares[num_judging:], [moments.half_width for moments in seen]),
        visible=lowest_share(shares[:num_judging]),
        weights=weights[:num_judging].sum(axis=0) / count,
        estimates=estimates[:num_judging].sum(axis=0) / count,
    )


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
