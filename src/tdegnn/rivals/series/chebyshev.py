"""Chebyshev convolutions (Defferrard et al., 2016), `sum_k T_k(L') F W_k + b`.

`T_0 = I`, `T_1 = L'`, `T_k = 2 L' T_(k-1) - T_(k-2)`, with the scaled Laplacian `L' = 2 L / lambda_max - I`. No
eigenvalue of the normalized Laplacian `L = I - P` is above 2, so `lambda_max = 2` gives `L' = -P`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import check_count
from tdegnn.graph import Graph


class ChebyshevConvolution(nn.Module):
    """A convolution over all nodes that are at most `num_hops` edges away.

    Args:
        in_channels: Channels of a state.
        out_channels: Channels of the result.
        num_hops: The largest k. Papers call `num_hops + 1` terms the order K.
        bias: Whether to add b. Default: True.
    """

    def __init__(self, in_channels: int, out_channels: int, num_hops: int, *, bias: bool = True) -> None:
        super().__init__()
        check_count(num_hops=num_hops)
        self.num_hops = num_hops
        # All W_k in one map of all terms side by side.
        self.linear = nn.Linear((num_hops + 1) * in_channels, out_channels, bias=bias)

    def forward(
        self, state: Float[Tensor, "*batch nodes in_channels"], graph: Graph
    ) -> Float[Tensor, "*batch nodes out_channels"]:
        """Return `sum_k T_k(L') F W_k + b`."""
        terms = [state, -graph.propagate(state)]
        for _ in range(self.num_hops - 1):
            terms.append(-2.0 * graph.propagate(terms[-1]) - terms[-2])
        convolved: Tensor = self.linear(torch.cat(terms, dim=-1))
        return convolved

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"num_hops={self.num_hops}"
