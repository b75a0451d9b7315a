"""Measure how much noise takes from an explained share: add as much noise again, and see how far the share falls.

Noise in the terms weakens their weights, and not all of this can be computed back: products of noisy variables carry
noise of their own, and directions lost in noise get small weights. So an order explains less of noisy data than it
would explain of the same data without noise, and a lower order would be ruled out because of noise. A second helping of
noise shows how much was lost to the first one, up to higher orders.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tdegnn.analysis.order_scales import Scales
from tdegnn.analysis.order_states import ReadyStates
from tdegnn.analysis.weak_form import Piece, tested_moments


def with_noise_again(ready: ReadyStates, seed: int) -> ReadyStates:
    """Return the same series with as much white noise again as was found in them."""
    # Not the stream of the resamples, which are drawn with the plain seed.
    generator = np.random.default_rng([seed, 1])
    return ready._replace(pieces=tuple(_with_noise_again(piece, generator) for piece in ready.pieces))


def _with_noise_again(piece: Piece, generator: np.random.Generator) -> Piece:
    sizes, directions = np.linalg.eigh(piece.noise)
    root = directions * np.sqrt(np.maximum(sizes, 0.0))
    disturbance = generator.standard_normal(piece.variables.shape) @ root.T
    return replace(piece, variables=piece.variables + disturbance, noise=2.0 * piece.noise)


def at_the_same_scales(scales: Scales, ready: ReadyStates) -> Scales:
    """Return the moments of other series at the scales that were chosen before."""
    moments = (
        tested_moments(ready.pieces, ready.num_channels, each.order, each.half_width) for each in scales.moments
    )
    return scales._replace(moments=tuple(each for each in moments if each is not None))
