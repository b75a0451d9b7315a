"""The order of a vector c, and the order of data.

`rho(x) = x^o - c_1 x^(o-1) - ... - c_o` and `D_j = rho^(j)(1) / j!` turn the recursion into the equation
`D_1 h F' + D_2 h^2 F'' + ... = h s`, to leading order in each derivative. (Deviation: the paper prints o + 1 for the
degree; an o-step recursion has o roots.) Three numbers that are never mixed up:
`history_length` (o), `root_multiplicity` (of a vector) and `dynamics_order` (of data, from nested fits).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE, EXPLAINED_ENOUGH, SUM_TOLERANCE
from tdegnn.errors import InputError, check_count

# Binomials of longer histories leave the range in which float64 says anything.
LONGEST_HISTORY = 64


def as_array(values: ArrayLike) -> Shaped[np.ndarray, ...]:
    """Return `values` as float64; a torch tensor may have a gradient or live on a GPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


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


def characteristic_polynomial(coefficients: ArrayLike) -> Float[np.ndarray, " order_plus_one"]:
    """`rho`, highest power first: `(1, -c_1, ..., -c_o)`."""
    return np.concatenate([[1.0], -as_coefficients(coefficients)])


def derivative_coefficients(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """`D_1, ..., D_o`: the weights of the derivatives in the equation that the recursion follows."""
    polynomial = characteristic_polynomial(coefficients)
    order = len(polynomial) - 1
    taylor = [[comb(order - power, j) for power in range(order + 1)] for j in range(1, order + 1)]
    return np.asarray(np.asarray(taylor, dtype=np.float64) @ polynomial)


def root_multiplicity(coefficients: ArrayLike, tolerance: float = DEFAULT_TOLERANCE) -> int:
    """How often 1 is a root of `rho`: m where `D_1, ..., D_(m-1)` vanish. A pure m-th order recursion.

    Judged by the weights of `expand_in_stencils`: the first m - 1 of them vanish just where those D_j do, and they do
    not change when c is padded with zeros, which makes no other recursion.

    Args:
        coefficients: c, newest state first.
        tolerance: A weight vanishes where it is at most this share of the largest.
    """
    weights = np.abs(expand_in_stencils(coefficients))
    # They sum to one, so there is always one that does not vanish.
    return int(np.argmax(weights > check_tolerance(tolerance) * weights.max())) + 1


def check_tolerance(tolerance: float) -> float:
    """Return `tolerance` where it lies in [0, 1)."""
    if not 0 <= tolerance < 1:
        raise InputError(f"Expected a tolerance of at least 0 and below 1, got {tolerance}.")
    return tolerance


def backward_difference_stencil(order: int) -> Float[np.ndarray, " order"]:
    """The vector c whose recursion says that the `order`-th backward difference is zero.

    (1,), (2, -1), (3, -3, 1), ... Deviation: the paper's Example 2 prints (2, -2, 1) for third order, whose
    polynomial has the roots 1 and exp(+-i pi/3): it is no third difference.
    """
    check_count(order=order)
    return np.array([(-1) ** p * comb(order, p + 1) for p in range(order)], dtype=np.float64)


def expand_in_stencils(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """Weights, summing to one, that write c as a combination of the stencils of orders 1, ..., o."""
    vector = as_coefficients(coefficients)
    powers = range(1, len(vector) + 1)
    # 1 - sum_p c_p z^p, which is rho at x = 1 / z over x^o, in powers of 1 - z.
    basis = [[(-1) ** (j + 1) * comb(p, j) for p in powers] for j in powers]
    return np.asarray(np.asarray(basis, dtype=np.float64) @ vector)


def explained_share(errors: ArrayLike, differences: ArrayLike) -> float:
    """`R2_o = 1 - var(F[l+1] - sum c F - h s) / var(o-th backward difference)`.

    Args:
        errors: One-step errors of a fit of order o on held-out data.
        differences: The o-th backward differences of the same data.
    """
    residuals, reference = as_array(errors), as_array(differences)
    if residuals.shape != reference.shape:
        raise InputError(f"Expected errors and differences of one shape, got {residuals.shape} and {reference.shape}.")
    if reference.size == 0 or not np.isfinite(residuals).all() or not np.isfinite(reference).all():
        raise InputError(
            f"Expected finite errors and differences, got {reference.size} values, not all of them finite."
        )
    variance = float(reference.var())
    if not variance > 0:
        raise InputError("Expected differences that vary, got constant ones: such data have no order.")
    return 1.0 - float(residuals.var()) / variance


def find_dynamics_order(shares: Mapping[int, float], threshold: float = EXPLAINED_ENOUGH) -> int | None:
    """The smallest order whose explained share reaches the threshold; `None` where no order does."""
    return min((order for order, share in shares.items() if share >= threshold), default=None)
