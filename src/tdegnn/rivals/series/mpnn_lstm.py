"""MPNN-LSTM (Panagopoulos et al., 2021): two graph convolutions of each frame, then two LSTMs in sequence.

`F[l+1] = drop(norm(relu(P F[l] W_l + b_l)))`, P that of `rivals/nodes/gcn.py`. The first LSTM runs over `[F[1], F[2]]`
of the frames, the second over the states of the first. The readout gets the last states of both, and all frames. Batch
norm is over the nodes of all frames and windows. The LSTM is that of `recurrent.py`.

Deviation: the paper's readout has two layers; here, as for all rivals, it is linear.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.recurrent import States, run_lstm


class MessagePassingLSTM(RivalSeriesNetwork):
    """Two LSTMs over graph convolutions of the frames. Dropout applies after each convolution too."""

    @property
    def _read_channels(self) -> int:
        return 2 * self.hidden_channels + self.sizes.window * self.sizes.num_channels

    def _make_layers(self) -> None:
        channels = self.hidden_channels
        state_sizes = (self.sizes.num_channels, channels, channels)
        self.convolutions = nn.ModuleList(nn.Linear(*in_out) for in_out in pairwise(state_sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(2))
        self.input_products = nn.ModuleList(nn.Linear(size, 4 * channels) for size in (2 * channels, channels))
        self.hidden_products = nn.ModuleList(nn.Linear(channels, 4 * channels, bias=False) for _ in range(2))

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        matrix = convolution_matrix(graph, frames.window)
        state, convolved = frames.window, []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            state = drop.hidden(_normalize(norm, torch.relu(convolution(matrix @ state))))
            convolved.append(state)
        states, last_states = torch.cat(convolved, dim=-1), []
        for input_product, hidden_product in zip(self.input_products, self.hidden_products, strict=True):
            states = run_lstm(input_product(states), hidden_product)
            last_states.append(states[:, -1])
        flat_window = frames.window.movedim(1, 2).flatten(2)
        return self._read(frames, drop.hidden(torch.cat(last_states, dim=-1)), flat_window)


def _normalize(norm: nn.Module, states: States) -> States:
    """Apply batch norm, which takes rows of channels: nodes, frames and windows are all rows."""
    normalized: Tensor = norm(states.flatten(0, -2))
    return normalized.reshape(states.shape)
