"""States of unit length, `F_i / |F_i|` at each node: what a cosine is made of, and a normalization of states."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def unit_length(state: Float[Tensor, "*batch nodes channels"]) -> Float[Tensor, "*batch nodes channels"]:
    """Return the state with each node scaled to length one. A node with zeros only keeps them."""
    return state / torch.sqrt(state.square().sum(-1, keepdim=True).clamp(min=1e-24))
