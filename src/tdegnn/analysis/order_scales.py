"""Choose the scales at which an order is judged. A scale is the half width of a test sequence.

A long test sequence averages out noise but sees only slow changes. So the finest scales with little noise are used, as
long as they keep most of the variance to be explained. An equation holds at all of these scales; a relation between
derivatives that comes from smoothness alone does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from tdegnn.analysis.order_limits import (
    FINEST,
    KEPT_VARIANCE,
    LARGEST_WINDOW,
    LITTLE_NOISE,
    MOST_NOISE,
    MOST_SCALES,
    SOME_NOISE,
)
from tdegnn.analysis.order_states import ReadyStates
from tdegnn.analysis.report import ordinal
from tdegnn.analysis.weak_form import Moments, difference_kernels, tested_moments
from tdegnn.errors import InputError

# A variance below this share of the second moment is rounding error.
NO_VARIANCE = 1e-20


class Scales(NamedTuple):
    """The scales at which an order is judged.

    Attributes:
        moments: Moments at each scale, finest scale first. Empty if every scale has too much noise.
        finer: Moments at the next finer scale, unless there is none or noise hides it. It does not judge, but shows how
            the explained share changes with the scale.
        noise: Lowest share of noise in the m-th difference, over all scales that were tried.
        is_coarse: Whether all but the finest scale lose most of the variance to be explained.
    """

    moments: tuple[Moments, ...]
    finer: tuple[Moments, ...]
    noise: float
    is_coarse: bool


class _Scale(NamedTuple):
    """Moments at one scale, with the share of noise in the m-th difference and the variance of its signal."""

    moments: Moments
    noise: float
    signal: float


def choose_scales(order: int, ready: ReadyStates) -> Scales:
    """Choose the scales at which an order is judged."""
    scales = _all_scales(order, ready)
    best = min(scales, key=lambda scale: scale.noise)
    usable = [scale for scale in scales if scale.noise <= LITTLE_NOISE]
    if not usable and best.noise <= MOST_NOISE:
        usable = [best]
    strongest = max((scale.signal for scale in usable), default=0.0)
    kept = [scale.moments for scale in usable if scale.signal >= KEPT_VARIANCE * strongest]
    is_coarse = len(kept) == 1 < len(usable) and kept[0].half_width == FINEST
    chosen = sorted({round(place) for place in np.linspace(0, len(kept) - 1, MOST_SCALES)}) if kept else []
    judging = tuple(kept[place] for place in chosen)
    finer = _finer_scale(scales, judging)
    return Scales(judging, finer, best.noise, is_coarse)


def _finer_scale(scales: Sequence[_Scale], judging: Sequence[Moments]) -> tuple[Moments, ...]:
    """Return the next finer scale to compare with. It may have more noise if there is no other one."""
    most_noise = SOME_NOISE if len(judging) > 1 else MOST_NOISE
    visible = [scale.moments for scale in scales if scale.noise <= most_noise]
    return tuple(moments for moments in visible if judging and moments.half_width < judging[0].half_width)[-1:]


def _all_scales(order: int, ready: ReadyStates) -> list[_Scale]:
    everything = np.ones(len(ready.pieces))
    scales = []
    for half_width in _half_widths(order, min(piece.variables.shape[1] for piece in ready.pieces)):
        moments = tested_moments(ready.pieces, ready.num_channels, order, half_width)
        if moments is None:
            continue
        variance = float(moments.covariance(everything, moments.means(everything))[-1, -1])
        if variance <= NO_VARIANCE * moments.products[:, -1, -1].sum() / moments.counts.sum():
            raise InputError(
                f"Expected {ordinal(order)} differences that change, got constant ones: polynomials of degree {order} "
                "in time have no order to find."
            )
        noise = float(moments.noise_covariance(everything)[-1, -1])
        scales.append(_Scale(moments, noise / variance, variance - noise))
        clean = [scale.signal for scale in scales if scale.noise <= LITTLE_NOISE]
        if clean and clean[-1] < KEPT_VARIANCE / 4 * max(clean):
            break  # Coarser scales keep even less. A long series has many of them, and they are slow to compute.
    if not scales:
        raise InputError("Expected windows without gaps in every piece of the series, got none. Fill the gaps first.")
    return scales


def _half_widths(order: int, length: int) -> list[int]:
    """Return those of the half widths 3, 4, 6, 8, 12, 16, ... that fit into pieces of this length."""
    widths: list[int] = []
    for power in count():
        width = (4, 6)[power % 2] << (power // 2)
        widths.append(width)
        if difference_kernels(order, width).shape[1] > LARGEST_WINDOW * length:
            break
    return [FINEST, *widths[:-1]]
