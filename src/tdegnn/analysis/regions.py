"""Compute how large a step a vector c allows: its stability region with a linear spatial term, `s = lambda F`.

With `z = h lambda`, the recursion has the polynomial `x^o - sum_p c_p x^(o-p) - z x^(o-1)`, whose roots move with z.
The region is the set of all complex z for which the root condition holds: every root lies in the closed unit disc, and
roots on the circle are simple. The edge of the region lies on the curve of all z that have a root on the circle.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Complex, Float
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike

from tdegnn.analysis.stencil import as_array, as_coefficients, check_tolerance
from tdegnn.errors import InputError, check_count

# Rounding splits a double root on the circle in two. They must still count as one root, and not as outside the disc.
ROUNDING = 1e-6


def stability_region(
    coefficients: ArrayLike, real: ArrayLike, imaginary: ArrayLike, tolerance: float = ROUNDING
) -> Bool[np.ndarray, "imaginary real"]:
    """Return which `z = real + i imaginary` belong to the stability region, on the grid of the two axes.

    Args:
        coefficients: c, newest state first.
        real: Real parts, in any order.
        imaginary: Imaginary parts, in any order.
        tolerance: How far outside the disc a root may lie, and how close two roots must be to count as one.
    """
    along, up = _as_axis("real", real), _as_axis("imaginary", imaginary)
    grid = along[None, :] + 1j * up[:, None]
    return _is_stable(as_coefficients(coefficients), grid, check_tolerance(tolerance))


def boundary(coefficients: ArrayLike, num_points: int = 512) -> Complex[np.ndarray, " points"]:
    """Return the z for which `exp(i theta)` is a root, for theta from 0 to 2 pi: a closed curve through 0.

    The curve divides the plane into cells. The region consists of whole cells, and possibly of stretches of the curve.
    """
    check_count(2, num_points=num_points)
    vector = as_coefficients(coefficients)
    x = np.exp(1j * np.linspace(0.0, 2 * np.pi, num_points))
    # (x^o - sum_p c_p x^(o-p)) / x^(o-1)
    return np.asarray(x - np.polyval(vector[::-1], 1 / x))


def real_limit(coefficients: ArrayLike, tolerance: float = ROUNDING) -> float:
    """Return the smallest real z such that the stability region contains every number between z and 0.

    The limit is -2 for forward Euler, -4 for leapfrog, and 0 if no decay is stable, however slow. The region may or may
    not contain the two ends: see `stability_region`.
    """
    vector = as_coefficients(coefficients)
    check_tolerance(tolerance)
    crossings = np.unique(_real_crossings(vector))
    ends = np.append(0.0, crossings[crossings < -tolerance][::-1])
    # No root crosses the circle between two neighboring ends, so one z decides for the whole interval. Intervals
    # shorter than the tolerance are rounding errors.
    is_stable = _is_stable(vector, (ends[1:] + ends[:-1]) / 2, tolerance) | (ends[:-1] - ends[1:] < tolerance)
    return float(ends[np.argmin(np.append(is_stable, False))])


def _as_axis(name: str, values: ArrayLike) -> Float[np.ndarray, " axis"]:
    try:
        axis = as_array(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected {name} to be a vector of numbers, got {values!r}.") from error
    if axis.ndim != 1 or not np.isfinite(axis).all():
        raise InputError(f"Expected {name} to be a vector of finite numbers, got shape {axis.shape}. Use np.linspace.")
    return axis


def _is_stable(
    vector: Float[np.ndarray, " order"], z: Complex[np.ndarray, "*grid"] | Float[np.ndarray, "*grid"], tolerance: float
) -> Bool[np.ndarray, "*grid"]:
    order = len(vector)
    companion = np.zeros((*z.shape, order, order), dtype=z.dtype)
    companion[..., 0, :] = vector
    companion[..., 0, 0] += z
    companion[..., range(1, order), range(order - 1)] = 1.0
    roots = np.linalg.eigvals(companion)
    moduli = np.abs(roots)
    distances = np.abs(roots[..., :, None] - roots[..., None, :]) + np.diag(np.full(order, np.inf))
    is_repeated = (distances <= tolerance).any(axis=-1) & (moduli >= 1 - tolerance)
    return np.asarray((moduli.max(axis=-1) <= 1 + tolerance) & ~is_repeated.any(axis=-1))


def _real_crossings(vector: Float[np.ndarray, " order"]) -> Float[np.ndarray, " crossings"]:
    """Return all real z that have a root on the circle, possibly with a few others.

    With t = cos(theta), the real part of the curve is `t - sum_p c_p T_(p-1)(t)`. Its imaginary part vanishes where
    sin(theta) = 0 and where `1 + sum_p c_p U_(p-2)(t) = 0`. The U are derivatives: `T_n' = n U_(n-1)`.
    """
    real_part = -np.append(vector, 0.0)
    real_part[1] += 1.0
    degrees = np.arange(1, len(vector) + 1)
    primitive = np.append(0.0, np.append(vector[1:], 0.0) / degrees)
    primitive[1] += 1.0
    inner = Chebyshev(primitive).deriv().trim(ROUNDING).roots().real
    return np.asarray(Chebyshev(real_part)(np.append(np.clip(inner, -1.0, 1.0), [-1.0, 1.0])))
