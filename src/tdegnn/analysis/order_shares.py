"""Combine what an order explains at several scales into the share that it would explain without noise.

An equation holds at every scale, so the scale with the lowest share decides. Noise hides the finest scales, and a
relation that comes from smoothness alone explains least just there. If only the visible scales decided, noise would
make such a relation look like an equation. So the unexplained share is continued to the finest scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from tdegnn.analysis.order_limits import FINEST, FLATTEST, STEEPEST


def lowest_share(judging: Float[np.ndarray, "scales resamples"]) -> Float[np.ndarray, " resamples"]:
    """Return the explained share at the scale where it is lowest, per resample. NaN if no scale can judge."""
    return np.asarray(np.fmin.reduce(judging, axis=0, initial=np.nan))


def expected_share(
    judging: Float[np.ndarray, "scales resamples"],
    finer: Float[np.ndarray, "finer resamples"],
    half_widths: Sequence[int],
) -> Float[np.ndarray, " resamples"]:
    """Return the explained share to expect at every scale, fine scales that noise hides included, per resample.

    Args:
        judging: Explained shares at the scales that judge, finest first. NaN if a resample is unable to judge.
        finer: Explained shares at finer scales, too noisy to judge.
        half_widths: Half widths of the judging scales, then of the finer ones.
    """
    lowest = lowest_share(judging)
    if np.isnan(lowest).all():
        return lowest
    unexplained = 1.0 - np.concatenate([judging, finer])
    at_finest = 1.0 - _continue_to_finest(unexplained, half_widths)
    # A median is hardly disturbed by the chance in slopes, which the continuation makes larger.
    hidden = np.nanmedian(np.maximum(lowest - at_finest, 0.0))
    # Shares above one show that too much noise was subtracted. They are as far from the truth as those below one.
    excess = max(float(np.nanmedian(lowest)) - 1.0, 0.0)
    return np.asarray(lowest - np.nan_to_num(hidden) - 2 * excess)


def _continue_to_finest(
    unexplained: Float[np.ndarray, "scales resamples"], half_widths: Sequence[int]
) -> Float[np.ndarray, " resamples"]:
    """Return the unexplained share at the finest scale, continued from that at the first one.

    It follows the logarithm of the scale, with the steepest slope to any other scale. Slopes of what a true equation
    leaves unexplained, next to nothing, are chance, and noise may hide just the scales where others begin to grow. So
    the growth is kept between two powers of the scale.
    """
    distances = np.log(np.asarray(half_widths) / half_widths[0])
    slopes = (unexplained[0] - unexplained[1:]) / distances[1:, None]
    coarseness = half_widths[0] / FINEST
    # If there is no other scale, the slope is not known, and the largest growth is assumed.
    along_slope = unexplained[0] + np.fmax.reduce(slopes, axis=0, initial=np.nan) * np.log(coarseness)
    least, most = unexplained[0] * coarseness**FLATTEST, unexplained[0] * coarseness**STEEPEST
    continued = np.fmin(np.maximum(along_slope, least), most)
    return np.asarray(np.where(unexplained[0] > 0, continued, unexplained[0]))
