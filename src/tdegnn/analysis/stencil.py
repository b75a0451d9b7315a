"""Read a vector c as a stencil: its characteristic polynomial, its roots, and the derivatives that it measures.

`rho(x) = x^o - c_1 x^(o-1) - ... - c_o` and `D_j = rho^(j)(1) / j!` turn the recursion into the equation
`D_1 h F' + D_2 h^2 F'' + ... = h s`, to leading order in each derivative. (Deviation: the paper prints o + 1 for the
degree; an o-step recursion has o roots.) The recursion is zero-stable if every root of `rho` lies in the closed unit
disc and roots on the circle are simple. The root 1 may be m-fold, because an m-th order equation needs it. Applied to a
smooth signal, the residual `y(t+h) - sum_p c_p y(t-(p-1)h)` is `sum_j a_j h^j y^(j)(t)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial

import numpy as np
from jaxtyping import Complex, Float, Shaped
from numpy.typing import ArrayLike

from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, SUM_TOLERANCE
from tdegnn.errors import InputError, check_count

# The binomial coefficients of longer histories exceed the precision of float64.
LONGEST_HISTORY = 64
# Rounding error of a weight that is zero in exact arithmetic.
ROUNDING = 1e-12


def as_coefficients(values: ArrayLike) -> Float[np.ndarray, " order"]:
    """Check that `values` is a finite vector that sums to one, and return it in float64."""
    try:
        coefficients = as_array(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected coefficients to be a vector of numbers, got {values!r}.") from error
    if coefficients.ndim != 1 or coefficients.size == 0:
        raise InputError(f"Expected coefficients to be a vector, got shape {coefficients.shape}.")
    if coefficients.size > LONGEST_HISTORY:
        raise InputError(f"Expected at most {LONGEST_HISTORY} coefficients, got {coefficients.size}.")
    if not np.isfinite(coefficients).all():
        raise InputError(f"Expected finite coefficients, got {coefficients.tolist()}.")
    total = float(coefficients.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        remedy = " Divide them by their sum." if total else ""
        raise InputError(
            f"Expected coefficients that sum to 1, got {coefficients.tolist()} with sum {total:g}.{remedy}"
        )
    return coefficients


def as_array(values: ArrayLike) -> Shaped[np.ndarray, ...]:
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
