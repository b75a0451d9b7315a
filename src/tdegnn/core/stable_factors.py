"""Stable polynomials as products of factors, and the factors of a given stable polynomial.

`x^o - sum_p c_p x^(o-p) = (x - 1)^m prod_i (x^2 + a_i x + b_i)`. A real quadratic has both roots inside the unit disc
if and only if (a, b) lies in the triangle `|b| < 1`, `|a| < 1 + b`. So `b = tanh u` and `a = (1 + b) tanh v` reach all
such factors and no others, and c, the product, needs no division. All roots but the m fixed ones are then scaled by
`1 - margin`, so that a tanh that has become 1 in floating point still leaves them off the circle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from tdegnn.errors import InputError, check_count, check_finite

# Factors that start equal stay equal, as if there were fewer of them. So from four roots on they start spread over a
# small circle, as the roots of `x^d + START`. Only the oldest weights of c notice.
START = 1e-4
SMALLEST_MARGIN = 1e-3
# A root this near to 1 may be meant to be 1. A root this near to the circle counts as on it.
NEARLY_ONE, ON_CIRCLE = 1e-3, 1e-9
LONG_RUN = 10_000  # steps without s for which c of the default margin stays bounded in float64


class Factors(NamedTuple):
    """The factors `x^2 + a x + b`. If the number of roots is odd, the last one has b = 0: it is `x (x + a)`."""

    linear: Float[Tensor, "*batch factors"]  # a
    constant: Float[Tensor, "*batch factors"]  # b


def check_stable(order: int, multiplicity: int, margin: float | None) -> float:
    """Return the margin, or the safe one if it is None. Raise an `InputError` if no polynomial has these properties."""
    check_count(order=order, multiplicity=multiplicity)
    if multiplicity > order:
        raise InputError(f"Expected multiplicity to be at most the order {order}, got {multiplicity}.")
    if margin is None:
        return safe_margin(order, multiplicity)
    check_finite(margin=margin)
    if not 0 < margin < 1:
        raise InputError(f"Expected margin to be above 0 and below 1, got {margin}. Leave it out.")
    return margin


def safe_margin(
    order: int, multiplicity: int = 1, num_steps: int = LONG_RUN, dtype: torch.dtype = torch.float64
) -> float:
    """Return how far the free roots must stay from the circle so that rounding c does not move them onto it.

    Rounding moves coefficients by eps times their size, 2^o at most, and k equal roots by the k-th root of that. With
    this margin, at least 1e-3, they stay far enough inside for the recursion to be bounded for `num_steps` steps.

    Args:
        order: Degree of the polynomial.
        multiplicity: How often 1 is a root. The other roots are the free ones.
        num_steps: Number of layers or steps.
        dtype: Precision in which c is kept.
    """
    check_count(order=order, multiplicity=multiplicity, num_steps=num_steps)
    num_free = order - multiplicity
    if num_free < 1:
        return SMALLEST_MARGIN
    margin = 2 ** ((math.log2(10 * num_steps * torch.finfo(dtype).eps) + order) / num_free)
    if margin >= 1:
        raise InputError(
            f"Expected an order whose roots keep off the circle when c is rounded to {dtype}, got {order}: over "
            f"{num_steps} steps no margin is wide enough. Pass margin=, or take a lower order."
        )
    return max(SMALLEST_MARGIN, margin)


def margin_beside(polynomial: Float[np.ndarray, " length"], order: int, multiplicity: int) -> float:
    """Return the safe margin, or a smaller one if the free roots of a stable polynomial need more room."""
    margin, left = safe_margin(order, multiplicity), 1.0 - _largest_modulus(np.roots(polynomial))
    return min(margin, max(left / 2, 1e-3 * SMALLEST_MARGIN)) if left > ON_CIRCLE else margin


def stable_factors(raw: Float[Tensor, "*batch free"], margin: float) -> Factors:
    """Return the factors, given any numbers `(v_1, v_2, ..., u_1, u_2, ...)`, as many as there are roots."""
    is_odd = raw.shape[-1] % 2
    v, u = raw.tanh().tensor_split(((raw.shape[-1] + 1) // 2,), dim=-1)
    u = nn.functional.pad(u, (0, is_odd))
    radius = 1.0 - margin
    return Factors((1.0 + u) * v * radius, u * radius**2)


def stable_coefficients(
    raw: Float[Tensor, "*batch free"], multiplicity: int, margin: float
) -> Float[Tensor, "*batch order"]:
    """Return c, newest state first, of the polynomial with these factors and the `multiplicity`-fold root 1."""
    # In ascending powers of 1 / x, b = 0 makes a quadratic factor linear: its last coefficient is zero.
    polynomial = raw.new_ones(*raw.shape[:-1], 1)
    for a, b in zip(*(each.unsqueeze(-1).unbind(-2) for each in stable_factors(raw, margin)), strict=True):
        padded = nn.functional.pad(polynomial, (2, 2))
        polynomial = torch.addcmul(torch.addcmul(padded[..., 2:], a, padded[..., 1:-1]), b, padded[..., :-2])
    polynomial = polynomial[..., : raw.shape[-1] + 1]
    for _ in range(multiplicity - 1):
        polynomial = nn.functional.pad(polynomial, (0, 1)) - nn.functional.pad(polynomial, (1, 0))
    # The last factor is 1 - 1 / x. Without the leading 1 and with the sign turned, the sum telescopes to 1.
    return polynomial - nn.functional.pad(polynomial[..., 1:], (0, 1))


def start_parameters(num_free: int, margin: float) -> Float[np.ndarray, " free"]:
    """Return the parameters of `x^num_free`, or of a polynomial next to it if factors would start equal."""
    polynomial = np.zeros(num_free + 1)
    polynomial[0] = 1.0
    if num_free > 3:
        polynomial[-1] = min(START, (0.5 * (1.0 - margin)) ** num_free)
    return factor_parameters(polynomial, margin)


def divide_by_ones(
    polynomial: Float[np.ndarray, " length"], multiplicity: int | None, rounding: Float[np.ndarray, " length"]
) -> tuple[int, Float[np.ndarray, " rest"]]:
    """Find how often 1 is a root, at least once. Return that number, and the polynomial without these roots.

    The rest is the polynomial whose product with (x - 1)^m comes nearest to the given one. 1 counts as an m-fold root
    as long as the distance is within rounding.

    Args:
        polynomial: Coefficients, highest power first. The first is 1.
        multiplicity: The largest number to try. If None, any number.
        rounding: How exact each coefficient is.
    """
    # Dividing rounds too.
    exactness = rounding + 256 * np.finfo(np.float64).eps * np.abs(polynomial).max()
    count, rest = 1, _nearest_rest(polynomial, 1, exactness)
    while len(rest) > 1 and count != multiplicity:
        shorter = _nearest_rest(polynomial, count + 1, exactness)
        distances = np.abs(np.convolve(_ones(count + 1), shorter) - polynomial)
        if (distances > exactness).any():
            break
        count, rest = count + 1, shorter
    return count, rest


def _ones(multiplicity: int) -> Float[np.ndarray, " length"]:
    """Return (x - 1)^m."""
    return np.poly(np.ones(multiplicity))


def _nearest_rest(
    polynomial: Float[np.ndarray, " length"], multiplicity: int, exactness: Float[np.ndarray, " length"]
) -> Float[np.ndarray, " rest"]:
    """Return the polynomial with leading coefficient 1 whose product with (x - 1)^m is nearest to the given one."""
    ones, num_free = _ones(multiplicity), len(polynomial) - 1 - multiplicity
    products = np.zeros((len(polynomial), num_free + 1))
    for power in range(num_free + 1):
        products[power : power + len(ones), power] = ones
    free, *_ = np.linalg.lstsq(products[:, 1:] / exactness[:, None], (polynomial - products[:, 0]) / exactness)
    return np.concatenate([[1.0], free])


def factor_parameters(polynomial: Float[np.ndarray, " length"], margin: float) -> Float[np.ndarray, " free"]:
    """Return the parameters with which `stable_factors` gives this polynomial, whose roots must be inside the disc.

    Two conjugate roots make a factor. Real ones are sorted and paired: any two of them make a factor.
    """
    roots = np.roots(polynomial)
    _check_inside(roots, margin)
    roots = roots / (1.0 - margin)
    upper, real = roots[roots.imag > 0], np.sort(roots[roots.imag == 0].real)
    paired = len(real) // 2 * 2
    first, second = real[:paired].reshape(-1, 2).T
    constant = np.concatenate([np.abs(upper) ** 2, first * second])
    linear = np.concatenate([-2 * upper.real, -first - second]) / (1 + constant)
    # Rounding may move a point of the open triangle to its edge, where the parameter is infinite.
    edge = 1.0 - np.finfo(np.float64).epsneg
    inside = np.clip(np.concatenate([linear, -real[paired:], constant]), -edge, edge)
    return np.asarray(np.arctanh(inside))


def _largest_modulus(roots: Inexact[np.ndarray, " roots"]) -> float:
    return float(np.abs(roots).max(initial=0.0))


def _check_inside(roots: Inexact[np.ndarray, " roots"], margin: float) -> None:
    modulus = _largest_modulus(roots)
    if modulus < 1.0 - margin:
        return
    remedy = "Take a smaller margin" if modulus < 1 - ON_CIRCLE else "Take FixedCoefficients, which keep any c"
    if np.abs(roots - 1.0).min() < NEARLY_ONE:
        remedy += ", or, if 1 should be a root once more, pass multiplicity="
    raise InputError(
        f"Expected coefficients whose roots, apart from 1, have a modulus below 1 - margin = {1.0 - margin:.7g}, "
        f"got one of {modulus:.7g}. {remedy}."
    )
