"""Read a vector c as a stencil: its characteristic polynomial, its roots, and the derivatives that it measures.

`rho(x) = x^o - c_1 x^(o-1) - ... - c_o` and `D_j = rho^(j)(1) / j!` turn the recursion into the equation
`D_1 h F' + D_2 h^2 F'' + ... = h s`, to leading order in each derivative. (Deviation: the paper prints o + 1 for the
degree; an o-step recursion has o roots.) The recursion is zero-stable if every root of `rho` lies in the closed unit
disc and roots on the circle are simple. The root 1 may be m-fold, because an m-th order equation needs it. Applied to a
smooth signal, the residual `y(t+h) - sum_p c_p y(t-(p-1)h)` is `sum_j a_j h^j y^(j)(t)`.

With a linear spatial term, `s = lambda F`, and `z = h lambda`, the recursion has the polynomial `rho(x) - z x^(o-1)`,
whose roots move with z. The stability region is the set of all complex z for which the root condition holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial

import numpy as np
from jaxtyping import Bool, Complex, Float, Shaped
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike

from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, SUM_TOLERANCE
from tdegnn.errors import InputError, check_count, shorten

# The binomial coefficients of longer histories exceed the precision of float64.
LONGEST_HISTORY = 64
# The rounding error of a sum of larger numbers exceeds the tolerance of the sum.
LARGEST_COEFFICIENT = 1e11
# Rounding error of a weight that is zero in exact arithmetic.
ROUNDING = 1e-12
# Rounding splits a double root on the circle in two. They must still count as one root, and not as outside the disc.
REGION_ROUNDING = 1e-6


def as_coefficients(values: ArrayLike) -> Float[np.ndarray, " order"]:
    """Check that `values` is a finite vector that sums to one, and return it in float64."""
    try:
        coefficients = as_array(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected coefficients to be a vector of numbers, got {shorten(repr(values))}.") from error
    if coefficients.ndim != 1 or coefficients.size == 0:
        raise InputError(f"Expected coefficients to be a vector, got shape {coefficients.shape}.")
    if coefficients.size > LONGEST_HISTORY:
        raise InputError(f"Expected at most {LONGEST_HISTORY} coefficients, got {coefficients.size}.")
    given = shorten(str(coefficients.tolist()))
    if not np.isfinite(coefficients).all():
        raise InputError(f"Expected finite coefficients, got {given}.")
    if np.abs(coefficients).max() > LARGEST_COEFFICIENT:
        raise InputError(
            f"Expected coefficients of at most {LARGEST_COEFFICIENT:g}, got {given}. With larger ones, float64 cannot "
            "tell whether the sum is 1."
        )
    total = float(coefficients.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        remedy = " Divide them by their sum." if total else ""
        raise InputError(f"Expected coefficients that sum to 1, got {given} with sum {total:g}.{remedy}")
    return coefficients


def as_array(values: ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Return `values` as a float64 array. A torch tensor may require gradients or live on a GPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


def check_tolerance(tolerance: float) -> float:
    """Return `tolerance`, or raise an `InputError` if it is not in [0, 1)."""
    if not 0 <= tolerance < 1:
        raise InputError(f"Expected a tolerance of at least 0 and below 1, got {tolerance}.")
    return tolerance


def characteristic_polynomial(coefficients: ArrayLike) -> Float[np.ndarray, " order_plus_one"]:
    """Return the coefficients of `rho`, highest power first: `(1, -c_1, ..., -c_o)`."""
    return np.concatenate([[1.0], -as_coefficients(coefficients)])


def characteristic_roots(coefficients: ArrayLike) -> Complex[np.ndarray, " order"]:
    """Return the roots of `rho`, largest modulus first.

    1 is always a root. It is divided out, with its multiplicity up to rounding, before the other roots are computed,
    because every general method loses digits at a multiple root.
    """
    polynomial = characteristic_polynomial(coefficients)
    multiplicity = root_multiplicity(coefficients, ROUNDING)
    for _ in range(multiplicity):
        # Synthetic division by (x - 1).
        polynomial = np.cumsum(polynomial)[:-1]
    roots = np.concatenate([np.ones(multiplicity), np.roots(polynomial)]).astype(np.complex128)
    return roots[np.argsort(-np.abs(roots), kind="stable")]


def satisfies_root_condition(coefficients: ArrayLike, tolerance: float = DEFAULT_TOLERANCE) -> bool:
    """Return whether the recursion is zero-stable.

    Args:
        coefficients: c, newest state first.
        tolerance: How far outside the disc a root may lie, and how close two roots must be to count as one.
    """
    check_tolerance(tolerance)
    roots = characteristic_roots(coefficients)
    if np.abs(roots).max() > 1 + tolerance:
        return False
    # The roots that form the m-fold root at 1 are allowed.
    others = roots[np.argsort(np.abs(roots - 1), kind="stable")][root_multiplicity(coefficients, tolerance) :]
    on_circle = others[np.abs(others) >= 1 - tolerance]
    distances = np.abs(on_circle[:, None] - on_circle[None, :])
    np.fill_diagonal(distances, np.inf)
    return bool((distances > tolerance).all())


def root_multiplicity(coefficients: ArrayLike, tolerance: float = DEFAULT_TOLERANCE) -> int:
    """Return the multiplicity m of the root 1 of `rho`: the recursion is a pure m-th order recursion.

    `D_1, ..., D_(m-1)` vanish. They are judged by the weights of `expand_in_stencils`: the first m - 1 weights vanish
    exactly if these D_j do, and, unlike the D_j, the weights do not change when c is padded with zeros, which does not
    change the recursion either.

    Args:
        coefficients: c, newest state first.
        tolerance: A weight counts as zero if it is at most this share of the largest weight.
    """
    weights = np.abs(expand_in_stencils(coefficients))
    # The weights sum to one, so at least one of them does not vanish.
    return int(np.argmax(weights > check_tolerance(tolerance) * weights.max())) + 1


def derivative_coefficients(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """Return `D_1, ..., D_o`, the weights of the derivatives in the equation that the recursion follows."""
    polynomial = characteristic_polynomial(coefficients)
    order = len(polynomial) - 1
    taylor = [[comb(order - power, j) for power in range(order + 1)] for j in range(1, order + 1)]
    return np.asarray(np.asarray(taylor, dtype=np.float64) @ polynomial)


def backward_difference_stencil(order: int) -> Float[np.ndarray, " order"]:
    """Return the vector c whose recursion sets the `order`-th backward difference to zero.

    The vectors are (1,), (2, -1), (3, -3, 1), ... Deviation: the paper's Example 2 prints (2, -2, 1) for third order.
    Its polynomial has the roots 1 and exp(+-i pi/3), so it is not a third difference.
    """
    check_count(order=order)
    return np.array([(-1) ** p * comb(order, p + 1) for p in range(order)], dtype=np.float64)


def expand_in_stencils(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """Return the weights, with sum one, that write c as a combination of the stencils of orders 1, ..., o."""
    vector = as_coefficients(coefficients)
    powers = range(1, len(vector) + 1)
    # Expand 1 - sum_p c_p z^p, which is rho(x) / x^o at x = 1 / z, in powers of 1 - z.
    basis = [[(-1) ** (j + 1) * comb(p, j) for p in powers] for j in powers]
    return np.asarray(np.asarray(basis, dtype=np.float64) @ vector)


def apply_stencil(coefficients: ArrayLike, signal: Float[np.ndarray, " time"]) -> Float[np.ndarray, " residuals"]:
    """Return the residuals `y[t+1] - sum_p c_p y[t-p+1]` for every t with a full history."""
    vector = as_coefficients(coefficients)
    order = len(vector)
    if len(signal) <= order:
        raise InputError(f"Expected a signal longer than the history of {order}, got {len(signal)} values.")
    windows = np.lib.stride_tricks.sliding_window_view(signal[:-1], order)
    return np.asarray(signal[order:] - windows @ vector[::-1])


def taylor_weights(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """Return `a_1, ..., a_o`: how much of each derivative the residual contains, in units of `h^j`.

    The first a_j that does not vanish equals `D_j`. Later ones differ from `D_j` by contributions of the earlier ones.
    """
    vector = as_coefficients(coefficients)
    past = -np.arange(len(vector), dtype=np.float64)
    return np.array([(1.0 - vector @ past**j) / factorial(j) for j in range(1, len(vector) + 1)])


@dataclass(frozen=True)
class SineConsistency:
    """The stencil of c applied to `sin(2 pi t)` on [0, 1].

    Attributes:
        times: Times at which the residual is centered.
        residual: The residual.
        second_derivative: The multiple of the second derivative that fits the residual best.
        second_derivative_share: Share of the residual's energy in the second derivative. The rest is in the first. (All
            derivatives of one sine are multiples of these two.)
    """

    times: Float[np.ndarray, " residuals"]
    residual: Float[np.ndarray, " residuals"]
    second_derivative: Float[np.ndarray, " residuals"]
    second_derivative_share: float


def sine_consistency(coefficients: ArrayLike, num_points: int = 64) -> SineConsistency:
    """Apply c to one period of a sine, sampled at `num_points` points."""
    check_count(3, num_points=num_points)
    order = len(as_coefficients(coefficients))
    step = 1.0 / num_points
    # Start early enough before t = 0 for the residuals to cover the whole period.
    samples = np.arange(-(order - 1), num_points + 1) * step
    times = samples[order - 1 : -1]
    residual = apply_stencil(coefficients, np.sin(2 * np.pi * samples))
    derivatives = np.stack([np.cos(2 * np.pi * times), -np.sin(2 * np.pi * times)], axis=1)
    (first, second), *_ = np.linalg.lstsq(derivatives, residual, rcond=None)
    return SineConsistency(times, residual, second * derivatives[:, 1], float(second**2 / (first**2 + second**2)))


def stability_region(
    coefficients: ArrayLike, real: ArrayLike, imaginary: ArrayLike, tolerance: float = REGION_ROUNDING
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


def real_limit(coefficients: ArrayLike, tolerance: float = REGION_ROUNDING) -> float:
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
    inner = Chebyshev(primitive).deriv().trim(REGION_ROUNDING).roots().real
    return np.asarray(Chebyshev(real_part)(np.append(np.clip(inner, -1.0, 1.0), [-1.0, 1.0])))
