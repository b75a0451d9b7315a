"""Find the order of data from fits of increasing order: the smallest order that explains enough.

Three numbers must not be confused: the length of the history (o), the multiplicity of the root 1 of a vector c (see
`stencil.py`), and the order of the dynamics behind data (here and in `order_search.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from tdegnn.analysis.stencil import as_array
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH
from tdegnn.errors import InputError


def explained_share(errors: ArrayLike, differences: ArrayLike) -> float:
    """Return the explained share `R2_o = 1 - var(F[l+1] - sum c F - h s) / var(o-th backward difference)`.

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
        raise InputError("Expected differences that vary, got constant ones. Constant differences have no order.")
    return 1.0 - float(residuals.var()) / variance


def show_share(share: float, digits: int = 3) -> str:
    """Return an explained share as people read it: from 0 to 1. A fit that is worse than none explains nothing."""
    return "< 0" if share < 0 else f"{share:.{digits}f}"


def find_dynamics_order(shares: Mapping[int, float], threshold: float = EXPLAINED_ENOUGH) -> int | None:
    """Return the smallest order whose explained share reaches the threshold, or `None` if no order does."""
    return min((order for order, share in shares.items() if share >= threshold), default=None)
