"""Unit length: each row divided by its Euclidean norm, `F_i / |F_i|`. A row of zeros stays zero."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Squared norms below this count as this, so that nothing is divided by zero.
SMALLEST_SQUARE = 1e-24


def unit_length(state: Float[Tensor, "*rows channels"]) -> Float[Tensor, "*rows channels"]:
    """Return the rows scaled to a norm of one. Rows of zeros stay zero."""
    return state / torch.sqrt(state.square().sum(-1, keepdim=True).clamp(min=SMALLEST_SQUARE))
