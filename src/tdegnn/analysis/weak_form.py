"""Test an equation against smooth sequences of compact support, so that noisy data are never differenced.

For `F^(m) + D_(m-1) F^(m-1) + ... + D_1 F' = s(F; G)`, in units of the step, and a test sequence psi, summation by
parts moves every central difference onto psi: `sum_t psi delta^j F = (-1)^j sum_t F delta^j psi`, exactly. With
`psi(t) = (1 - (t/w)^2)^m`, the noise in the m-th term falls as `w^(-m-1/2)`, while the term itself hardly changes as
long as psi is shorter than the changes in the data. So w plays the role of the stride of a difference. s is linear in
its weights: it combines the terms of a dictionary, monomials of the state and its Laplacians. White noise adds a known
matrix to the second moments of the terms; this matrix is subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float
from scipy.ndimage import correlate1d, minimum_filter1d

# Variables in nonlinear terms are clipped at this many standard deviations, so that one outlier does not decide.
CLIPPED_AT = 4.0
HIGHEST_DEGREE = 3
# Largest number of dictionary terms in all. Each channel has its own dictionary.
MOST_TERMS = 90
# The stride of windows is their half width divided by this. Closer windows are nearly the same.
SHARE_OF_STRIDE = 8
# With terms of variance one, a direction of the terms that is weaker than this is rounding error.
WEAKEST_DIRECTION = 1e-10


@dataclass(frozen=True)
class Piece:
    """Trajectories, or stretches of them, that are drawn or left out together.

    Attributes:
        variables: Channels of the state, then of its Laplacians, centered and scaled.
        is_known: Where the variables were observed. Also false at nodes that never change.
        noise: Covariance of the white noise in the variables.
        num_multiplied: Number of variables, from the first, that are multiplied with each other in the dictionary.
    """

    variables: Float[np.ndarray, "trajectories time nodes variables"]
    is_known: Bool[np.ndarray, "trajectories time nodes"]
    noise: Float[np.ndarray, "variables variables"]
    num_multiplied: int


def difference_kernels(order: int, half_width: int) -> Float[np.ndarray, "order_plus_one window"]:
    """Return `(-1)^j delta^j psi` for j = 0, ..., order, where `psi(t) = (1 - (t / half_width)^2)^order` has sum one.

    Applied to a series, they give psi-weighted means of its j-th central differences, exactly so for polynomials.
    """
    reach = half_width + (order - 1) // 2
    steps = np.arange(-reach, reach + 1)

    def psi(times: Float[np.ndarray, " window"]) -> Float[np.ndarray, " window"]:
        return np.asarray(np.maximum(1.0 - (times / half_width) ** 2, 0.0) ** order)

    rows = [sum((-1) ** (i + j) * comb(j, i) * psi(steps + j / 2 - i) for i in range(j + 1)) for j in range(order + 1)]
    # Odd differences use psi halfway between the steps, where its sum is different.
    sums = [np.sum(psi(steps + (j % 2) / 2)) for j in range(order + 1)]
    return np.asarray(np.asarray(rows) / np.asarray(sums)[:, None])


def monomials(
    variables: Float[np.ndarray, "*rows variables"], num_multiplied: int, most: int = MOST_TERMS
) -> Float[np.ndarray, "*rows monomials"]:
    """Return the dictionary of s: the variables, then products of the first `num_multiplied`, up to degree three.

    The degree is lower if there would be more than `most` terms. Each term costs some certainty, so not all variables
    are multiplied.
    """
    degree = next(d for d in range(HIGHEST_DEGREE, 0, -1) if d == 1 or comb(num_multiplied + d, d) - 1 <= most)
    clipped = np.clip(variables, -CLIPPED_AT, CLIPPED_AT)
    products = [
        np.prod(clipped[..., list(chosen)], axis=-1)
        for power in range(2, degree + 1)
        for chosen in combinations_with_replacement(range(num_multiplied), power)
    ]
    return np.concatenate([variables, *[product[..., None] for product in products]], axis=-1)


@dataclass(frozen=True)
class Moments:
    """Sums of products of the tested terms per piece, which make it cheap to draw pieces repeatedly.

    The terms are the dictionary (once per channel of the state), the differences of order 1 to m - 1, and last the m-th
    difference, which is to be explained. Means are taken per node and channel, because levels do not matter.

    Attributes:
        order: The order m.
        half_width: The half width w, in steps.
        products: Sums of products.
        sums: Sums per node and channel.
        counts: Number of windows per node and channel.
        noise: Contribution of noise to the covariances.
    """

    order: int
    half_width: int
    products: Float[np.ndarray, "pieces terms terms"]
    sums: Float[np.ndarray, "pieces groups terms"]
    counts: Float[np.ndarray, "pieces groups"]
    noise: Float[np.ndarray, "pieces terms terms"]

    def means(self, weights: Float[np.ndarray, " pieces"]) -> Float[np.ndarray, "groups terms"]:
        """Return the mean of the terms per node and channel, or zero if there is no window."""
        counts = weights @ self.counts
        return np.asarray(_weigh(weights, self.sums) / np.maximum(counts, 1.0)[:, None])

    def covariance(
        self, weights: Float[np.ndarray, " pieces"], means: Float[np.ndarray, "groups terms"]
    ) -> Float[np.ndarray, "terms terms"]:
        """Return the mean product of deviations from `means`, which may come from other pieces."""
        counts, sums = weights @ self.counts, _weigh(weights, self.sums)
        crossed = sums.T @ means
        total = _weigh(weights, self.products) - crossed - crossed.T + (means * counts[:, None]).T @ means
        return np.asarray(total / counts.sum())

    def noise_covariance(self, weights: Float[np.ndarray, " pieces"]) -> Float[np.ndarray, "terms terms"]:
        """Return the contribution of noise to the covariances."""
        shares = weights * self.counts.sum(axis=1)
        return np.asarray(_weigh(shares, self.noise) / shares.sum())


def _weigh(
    weights: Float[np.ndarray, " pieces"], values: Float[np.ndarray, "pieces rows terms"]
) -> Float[np.ndarray, "rows terms"]:
    """Return the weighted sum over the pieces."""
    return np.asarray((weights @ values.reshape(len(values), -1)).reshape(values.shape[1:]))


def tested_moments(pieces: Sequence[Piece], num_channels: int, order: int, half_width: int) -> Moments | None:
    """Test every piece at every place. Return `None` if some piece has no place without a gap."""
    kernels = difference_kernels(order, half_width)
    if any(piece.variables.shape[1] < kernels.shape[1] for piece in pieces):
        return None
    parts = [_test_piece(piece, num_channels, kernels, max(1, half_width // SHARE_OF_STRIDE)) for piece in pieces]
    products, sums, counts, noise = (np.stack(values) for values in zip(*parts, strict=True))
    if not (counts.sum(axis=1) > 0).all():
        return None
    return Moments(order, half_width, products, sums, counts, noise)


def _test_piece(
    piece: Piece, num_channels: int, kernels: Float[np.ndarray, "order_plus_one window"], stride: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return products, sums, counts and noise of one piece."""
    order, window = kernels.shape[0] - 1, kernels.shape[1]
    places = slice(window // 2, -(window // 2), stride)
    is_whole = minimum_filter1d(piece.is_known.astype(np.uint8), window, axis=1)[:, places].astype(bool)
    terms = monomials(piece.variables, piece.num_multiplied, MOST_TERMS // num_channels)
    dictionary = correlate1d(terms, kernels[0], axis=1)[:, places]
    num_nodes, size = dictionary.shape[2:]
    num_terms = num_channels * size + order
    products, noise = np.zeros((2, num_terms, num_terms))
    sums = np.zeros((num_channels, num_nodes, num_terms))
    for channel in range(num_channels):
        differences = [
            correlate1d(piece.variables[..., channel], kernel, axis=1)[:, places, :, None] for kernel in kernels[1:]
        ]
        rows = np.concatenate([dictionary, *differences], axis=-1) * is_whole[..., None]
        own = np.r_[channel * size : (channel + 1) * size, num_terms - order : num_terms]
        flat = rows.reshape(-1, size + order)
        products[np.ix_(own, own)] += flat.T @ flat
        sums[channel][:, own] = rows.sum(axis=(0, 1))
        noise[np.ix_(own, own)] += _term_noise(piece.noise, channel, size, kernels) / num_channels
    counts = np.tile(is_whole.sum(axis=(0, 1)), num_channels)
    return products, sums.reshape(-1, num_terms), counts.astype(np.float64), noise


def _term_noise(
    noise: Float[np.ndarray, "variables variables"],
    channel: int,
    dictionary_size: int,
    kernels: Float[np.ndarray, "order_plus_one window"],
) -> Float[np.ndarray, "terms terms"]:
    """Return the noise of the linear terms and the differences.

    The noise of products is left out: averaging over a window makes it small.
    """
    num_variables, order = len(noise), len(kernels) - 1
    overlaps = kernels @ kernels.T
    result = np.zeros((dictionary_size + order, dictionary_size + order))
    result[:num_variables, :num_variables] = noise * overlaps[0, 0]
    result[:num_variables, dictionary_size:] = np.outer(noise[:, channel], overlaps[0, 1:])
    result[dictionary_size:, :num_variables] = result[:num_variables, dictionary_size:].T
    result[dictionary_size:, dictionary_size:] = noise[channel, channel] * overlaps[1:, 1:]
    return result


def solve(
    covariance: Float[np.ndarray, "terms terms"], noise: Float[np.ndarray, "terms terms"]
) -> Float[np.ndarray, " terms_but_one"]:
    """Return the weights with which the other terms explain the last one best, as if there were no noise.

    Noise is subtracted along each direction of the terms, in units of the noise in this direction. If less than the
    noise would remain, the direction keeps as much as the noise. So directions lost in noise get small weights.
    """
    matrix, target = covariance[:-1, :-1], covariance[:-1, -1] - noise[:-1, -1]
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1.0 / np.where(scale > 0, scale, 1.0)
    unit = noise[:-1, :-1] * np.outer(scale, scale) + WEAKEST_DIRECTION * np.eye(len(scale))
    strengths, directions = _generalized_eigh(matrix * np.outer(scale, scale), unit)
    weights = directions @ ((directions.T @ (target * scale)) / np.maximum(strengths - 1.0, 1.0))
    return np.asarray(weights * scale)


def _generalized_eigh(
    matrix: Float[np.ndarray, "terms terms"], unit: Float[np.ndarray, "terms terms"]
) -> tuple[Float[np.ndarray, " terms"], Float[np.ndarray, "terms terms"]]:
    """Return strengths and directions of a matrix, in units of another one, which is positive up to rounding."""
    try:
        strengths, directions = scipy.linalg.eigh(matrix, unit)
    except np.linalg.LinAlgError:
        # An outlier can be so large that rounding makes the noise in some direction negative.
        sizes = np.linalg.eigvalsh(unit)
        lift = WEAKEST_DIRECTION * sizes[-1] - min(sizes[0], 0.0)
        strengths, directions = scipy.linalg.eigh(matrix, unit + lift * np.eye(len(unit)))
    return strengths, directions


def explained_without_noise(
    covariance: Float[np.ndarray, "terms terms"],
    noise: Float[np.ndarray, "terms terms"],
    weights: Float[np.ndarray, " terms_but_one"],
) -> float:
    """Return the share of the last term that the weights explain, as if without noise: `R2_m` of held-out data."""
    clean = covariance - noise
    residual = np.append(-weights, 1.0)
    # If there is nothing but noise, nothing is explained.
    return float(1.0 - residual @ clean @ residual / clean[-1, -1]) if clean[-1, -1] > 0 else 0.0
