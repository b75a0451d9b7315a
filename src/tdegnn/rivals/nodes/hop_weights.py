"""Learned weights of hops, one number per hop: those of a sum over hops (GPRGNN) or of a softmax (FSGNN).

Their parameter is in the group `spatial` of a `RivalConfig` if the network calls this module `operator`, so that they
have a learning rate and a weight decay of their own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class HopWeights(nn.Module):
    """One weight per hop.

    Args:
        start: The weights at the start of a training. Networks trained together may differ in them.
    """

    start: Tensor

    def __init__(self, start: Float[Tensor, " hops"]) -> None:
        super().__init__()
        self.register_buffer("start", start.double(), persistent=False)
        self.weights = nn.Parameter(start.to(torch.get_default_dtype()))

    def reset_parameters(self) -> None:
        """Set the weights to their start."""
        with torch.no_grad():
            self.weights.copy_(self.start)
