"""A learned vector of each node: what a network knows about a node whatever its series does."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Spread of the first vectors of nodes: small, so that nodes start as almost alike.
IDENTITY_SPREAD = 0.1


class NodeIdentity(nn.Module):
    """A learned vector of each node.

    Args:
        num_nodes: Number of nodes.
        channels: Channels of a vector.
    """

    def __init__(self, num_nodes: int, channels: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(num_nodes, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw small vectors anew."""
        nn.init.normal_(self.vectors, std=IDENTITY_SPREAD)

    def forward(self, num_windows: int) -> Float[Tensor, "batch nodes channels"]:
        """Return the vectors, the same ones in each window."""
        return self.vectors.expand(num_windows, -1, -1)
