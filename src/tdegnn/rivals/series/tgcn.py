"""T-GCN (Zhao et al., 2020): a GRU that sees each frame through a graph convolution.

`z = s(W_z [P X_t U_z + a_z, H] + b_z)`, likewise r, and the candidate with `r . H`; P is that of `rivals/nodes/gcn.py`, gates
and readout are those of `rivals/series/recurrent.py`. Only frames pass along edges, the state stays with its node.

Deviation: the paper writes two convolutions, `s(P relu(P X U) V)`, in every gate. Its authors' program has one and no
nonlinearity before the gates, as here; there, however, the state passes along edges too.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.rivals.series.adjacency import convolution_matrix
from tdegnn.rivals.series.recurrent import RecurrentNetwork, States, run_gru


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
        # W, in its parts: for each gate that of the convolved frame, then those of the state.
        self.input_products = nn.ModuleList(nn.Linear(hidden_channels, hidden_channels) for _ in range(3))
        self.gate_product = nn.Linear(hidden_channels, 2 * hidden_channels, bias=False)
        self.candidate_product = nn.Linear(hidden_channels, hidden_channels, bias=False)

    def forward(self, window: Float[Tensor, "batch window nodes num_channels"], graph: Graph) -> States:
        """Return the state after each frame."""
        convolved = self.convolution(convolution_matrix(graph, window) @ window).chunk(3, dim=-1)
        inputs = [product(part) for product, part in zip(self.input_products, convolved, strict=True)]
        return run_gru(torch.cat(inputs, dim=-1), self.gate_product, self.candidate_product)


class TemporalGCN(RecurrentNetwork):
    """A GRU over graph convolutions of the frames.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        dropout: Part of the last state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(self, sizes: SeriesSizes, hidden_channels: int, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        self.recurrence = ConvolvedFramesGRU(sizes.num_channels, hidden_channels)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = self.recurrence(frames.window, graph)
        return self._read(frames, drop.hidden(states[:, -1]))
