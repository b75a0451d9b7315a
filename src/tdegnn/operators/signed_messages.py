"""Signed messages: `sum_j (p relu(v_ij) - n relu(-v_ij)) F_j`, where neighbors may be added or subtracted.

v_ij are values on the edges, such as cosines of states. p weighs the positive ones and n the negative ones, so that a
network can rely more on nodes that are alike, or on those that differ (Yan et al., 2022). Channels are not copied to
edges: see `tdegnn.edge_values`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.edge_values import edge_scores, weighted_product
from tdegnn.operators.unit_length import unit_length
from tdegnn.sparse import SparseMatrix


def edge_cosines(
    pattern: SparseMatrix, state: Float[Tensor, "*batch nodes channels"]
) -> Float[Tensor, "*batch entries"]:
    """Return the cosine of the states at both ends of each entry. Zero where a state is zero."""
    directions = unit_length(state)
    return edge_scores(pattern, directions, directions)


def signed_product(
    pattern: SparseMatrix,
    values: Float[Tensor, "*values entries"],
    state: Float[Tensor, "*batch nodes channels"],
    positive_weight: Float[Tensor, ""],
    negative_weight: Float[Tensor, ""],
) -> Float[Tensor, "*batch nodes channels"]:
    """Return `sum_j (p relu(v_ij) - n relu(-v_ij)) F_j` for each node i. Zero for a node that receives nothing.

    Args:
        pattern: Has an entry for each node that a node receives from. Only its indices are used.
        values: v, one number per entry, with the batch axes of the state or none.
        state: F.
        positive_weight: p.
        negative_weight: n.
    """
    # One product for both signs: each entry has one.
    weighted = positive_weight * torch.relu(values) - negative_weight * torch.relu(-values)
    return weighted_product(pattern, weighted, state)
