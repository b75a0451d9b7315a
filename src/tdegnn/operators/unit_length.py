"""States scaled to unit length: each row divided by its Euclidean norm."""

from __future__ import annotations

import torch

from tdegnn.graph import State


def unit_length(state: State) -> State:
    """Return the state with each row divided by its norm. A row of zeros stays zero, and its gradient finite."""
    squares = state.square().sum(dim=-1, keepdim=True)
    # Not 1 / norm where the norm is zero, and no tiny number added to it: the gradient would be huge.
    return state * torch.where(squares > 0, squares, 1.0).rsqrt()
