"""Which derivative a vector c measures when its recursion is applied to a smooth signal.

The residual `y(t+h) - sum_p c_p y(t-(p-1)h)` is `sum_j a_j h^j y^(j)(t)`. `taylor_weights` gives the a_j, exactly,
from monomials. `sine_consistency` is the paper's figure: the residual of one sine, against its second derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tdegnn.analysis.order import as_coefficients
from tdegnn.errors import InputError, check_count


def apply_stencil(coefficients: ArrayLike, signal: Float[np.ndarray, " time"]) -> Float[np.ndarray, " residuals"]:
    """`y[t+1] - sum_p c_p y[t-p+1]` for every t with a full history."""
    vector = as_coefficients(coefficients)
    order = len(vector)
    if len(signal) <= order:
        raise InputError(f"Expected a signal longer than the history of {order}, got {len(signal)} values.")
    windows = np.lib.stride_tricks.sliding_window_view(signal[:-1], order)
    return np.asarray(signal[order:] - windows @ vector[::-1])


def taylor_weights(coefficients: ArrayLike) -> Float[np.ndarray, " order"]:
    """`a_1, ..., a_o`: how much of each derivative the residual holds, in units of `h^j`.

    The first that does not vanish equals `D_j`; later ones differ from theirs by what the earlier ones add.
    """
    vector = as_coefficients(coefficients)
    past = -np.arange(len(vector), dtype=np.float64)
    return np.array([(1.0 - vector @ past**j) / factorial(j) for j in range(1, len(vector) + 1)])


@dataclass(frozen=True)
class SineConsistency:
    """The stencil of c applied to `sin(2 pi t)` on [0, 1].

    Attributes:
        times: Where the residual is centered.
        residual: The residual.
        second_derivative: The multiple of the second derivative that fits it best.
        second_derivative_share: Share of the residual's energy that is second derivative; the rest is first. (All
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
    # Enough history before t = 0 for the residuals to cover the whole period.
    samples = np.arange(-(order - 1), num_points + 1) * step
    times = samples[order - 1 : -1]
    residual = apply_stencil(coefficients, np.sin(2 * np.pi * samples))
    derivatives = np.stack([np.cos(2 * np.pi * times), -np.sin(2 * np.pi * times)], axis=1)
    (first, second), *_ = np.linalg.lstsq(derivatives, residual, rcond=None)
    return SineConsistency(times, residual, second * derivatives[:, 1], float(second**2 / (first**2 + second**2)))
