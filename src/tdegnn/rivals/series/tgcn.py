"""T-GCN (Zhao et al., 2020): a GRU that sees each frame through a graph convolution.

`z = s(W_z [P X_t U_z + a_z, H] + b_z)`, likewise r, and the candidate with `r . H`. P is that of `rivals/nodes/gcn.py`,
the gates are those of `recurrent.py`. Only frames pass along edges; the state stays with its node.

Deviation: the paper writes two convolutions, `s(P relu(P X U) V)`, in every gate. Its authors' program has one and no
nonlinearity before the gates, as here; there, however, the state passes along edges too.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.recurrent import States, run_gru


class ConvolvedFramesGRU(nn.Module):
    """A GRU over graph convolutions of the frames.

    Args:
        num_channels: Channels of a frame.
        hidden_channels: Channels of a state.
    """

    def __init__(self, num_channels: int, hidden_channels: int) -> None:
        super().__init__()
        # U of z, r and the candidate, side by side.
        self.convolution = nn.Linear(num_channels, 3 * hidden_channels)
        # W in blocks: for each gate that of the convolved frame, then those of the state.
        self.input_products = nn.ModuleList(nn.Linear(hidden_channels, hidden_channels) for _ in range(3))
        self.gate_product = nn.Linear(hidden_channels, 2 * hidden_channels, bias=False)
        self.candidate_product = nn.Linear(hidden_channels, hidden_channels, bias=False)

    def forward(self, window: Float[Tensor, "batch window nodes num_channels"], graph: Graph) -> States:
        """Return the state after each frame."""
        convolved = self.convolution(convolution_matrix(graph, window) @ window).chunk(3, dim=-1)
        inputs = [product(gate) for product, gate in zip(self.input_products, convolved, strict=True)]
        return run_gru(torch.cat(inputs, dim=-1), self.gate_product, self.candidate_product)


class TemporalGCN(RivalSeriesNetwork):
    """A GRU over graph convolutions of the frames."""

    def _make_layers(self) -> None:
        self.recurrence = ConvolvedFramesGRU(self.sizes.num_channels, self.hidden_channels)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = self.recurrence(frames.window, graph)
        return self._read(frames, drop.hidden(states[:, -1]))
