"""DCRNN (Li et al., 2018): a GRU whose products are diffusion convolutions.

`conv(F) = F W_0 + sum_(k=1..K) ((D_O^-1 A)^k F A_k + (D_I^-1 A^T)^k F B_k)`: K steps of random walks along the edges
and against them. The gates are those of `recurrent.py`.

Deviation: the paper decodes by a second GRU that is fed with its own forecasts; here, as for all rivals, a linear
readout forecasts the whole horizon. The two terms of k = 0, which are the same, have one weight.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import diffusion_matrices
from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.rivals.series.recurrent import ConvolutionalGRU


class DiffusionConvolution(nn.Module):
    """Random walks in both directions, with a map of its own for each number of steps.

    Args:
        in_channels: Channels of a state.
        out_channels: Channels of the result.
        num_hops: K, the steps of the longest walk.
        bias: Whether to add a bias. Default: True.
    """

    def __init__(self, in_channels: int, out_channels: int, num_hops: int, *, bias: bool = True) -> None:
        super().__init__()
        check_count(num_hops=num_hops)
        self.num_hops = num_hops
        # W_0, A_1, ..., A_K, B_1, ..., B_K in one map of all terms side by side.
        self.linear = nn.Linear((2 * num_hops + 1) * in_channels, out_channels, bias=bias)

    def forward(
        self, state: Float[Tensor, "*batch nodes in_channels"], graph: Graph
    ) -> Float[Tensor, "*batch nodes out_channels"]:
        """Return `conv(F)`."""
        terms = [state]
        for matrix in diffusion_matrices(graph, state):
            walked = state
            for _ in range(self.num_hops):
                walked = matrix @ walked
                terms.append(walked)
        convolved: Tensor = self.linear(torch.cat(terms, dim=-1))
        return convolved

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"num_hops={self.num_hops}"


class DiffusionRecurrentNetwork(ConvolutionalGRU):
    """A GRU with diffusion convolutions. K is `num_hops`."""

    convolution = DiffusionConvolution
