"""States of unit length: `F_i / |F_i|`, node by node, as in Dir-GNN (Rossi et al., 2023)."""

from __future__ import annotations

import torch

from tdegnn.graph import State


def unit_length(state: State) -> State:
    """Return the state with channels of length one at each node. A node with zeros only keeps them."""
    return state / torch.sqrt(state.square().sum(-1, keepdim=True).clamp(min=1e-24))
