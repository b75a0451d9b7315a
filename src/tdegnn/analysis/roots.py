"""Roots of the characteristic polynomial `rho` of c, and whether the recursion is zero-stable.

Root condition: every root in the closed unit disc, and those on the circle simple; except that an m-fold root
at 1 is what an m-th order equation needs. It is a statement about `F[l+1] = sum_p c_p F[l-p+1]`, without s.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Complex
from numpy.typing import ArrayLike

from tdegnn.analysis.order import characteristic_polynomial, check_tolerance, root_multiplicity
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE

# What rounding alone leaves of a weight that is zero in exact arithmetic.
ROUNDING = 1e-12


def characteristic_roots(coefficients: ArrayLike) -> Complex[np.ndarray, " order"]:
    """The roots of `rho`, largest modulus first.

    1 is always a root. It is divided out, as often as it is one to rounding, before the others are computed: a
    multiple root loses digits in every general method.
    """
    polynomial = characteristic_polynomial(coefficients)
    multiplicity = root_multiplicity(coefficients, ROUNDING)
    for _ in range(multiplicity):
        # Synthetic division by (x - 1).
        polynomial = np.cumsum(polynomial)[:-1]
    roots = np.concatenate([np.ones(multiplicity), np.roots(polynomial)]).astype(np.complex128)
    return roots[np.argsort(-np.abs(roots), kind="stable")]


def satisfies_root_condition(coefficients: ArrayLike, tolerance: float = DEFAULT_TOLERANCE) -> bool:
    """Whether the recursion is zero-stable.

    Args:
        coefficients: c, newest state first.
        tolerance: How far outside the disc a root may lie, and how close two roots count as one.
    """
    check_tolerance(tolerance)
    roots = characteristic_roots(coefficients)
    if np.abs(roots).max() > 1 + tolerance:
        return False
    # The roots that make up the m-fold root at 1 are allowed.
    others = roots[np.argsort(np.abs(roots - 1), kind="stable")][root_multiplicity(coefficients, tolerance) :]
    on_circle = others[np.abs(others) >= 1 - tolerance]
    distances = np.abs(on_circle[:, None] - on_circle[None, :])
    np.fill_diagonal(distances, np.inf)
    return bool((distances > tolerance).all())
