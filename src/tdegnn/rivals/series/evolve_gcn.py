"""EvolveGCN-O (Pareja et al., 2020): a graph convolutional network whose weights are the states of LSTMs over time.

`F[l+1]_t = relu(P F[l]_t W[l]_t)`, `W[l]_t = LSTM_l(W[l]_(t-1))`, P that of `rivals/nodes/gcn.py`. A column of W is a
state of the LSTM of `recurrent.py`. Its input and its hidden state are the same, so they have one product, with a bias
for each entry. Every window starts at the learned `W[l]_0`, with a cell state of zeros.

Deviation: the weights evolve independently of the frames, and a convolution has no memory, so a readout from the last
frame would not see the others; here it gets the states of all frames. Frames are mapped to hidden channels first,
because a weight of one channel would make an LSTM of a single number.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.recurrent import update_lstm


class EvolvingWeight(nn.Module):
    """A square weight of a convolution that changes from frame to frame.

    Args:
        channels: Rows and columns of the weight.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        # Transposed, as in `nn.Linear`: a row here is a column of W.
        self.first = nn.Parameter(torch.empty(channels, channels))
        self.product = nn.Linear(channels, 4 * channels, bias=False)
        self.bias = nn.Parameter(torch.empty(channels, 4 * channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the first weight and the LSTM anew, with biases of zero."""
        nn.init.xavier_uniform_(self.first)
        self.product.reset_parameters()
        nn.init.zeros_(self.bias)

    def forward(self, window: int) -> Float[Tensor, "window channels channels"]:
        """Return `W_1, ..., W_window`."""
        weight: Tensor = self.first
        cell = torch.zeros_like(weight)
        weights = []
        for _ in range(window):
            weight, cell = update_lstm(self.product(weight) + self.bias, cell)
            weights.append(weight.T)
        return torch.stack(weights)

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}"


class EvolvingConvolutionalNetwork(RivalSeriesNetwork):
    """Graph convolutions of each frame, with weights that evolve.

    Args:
        num_layers: Number of convolutions in sequence. Default: 2.
    """

    @property
    def _read_channels(self) -> int:
        return self.sizes.window * self.hidden_channels

    def _make_layers(self, num_layers: int = 2) -> None:
        check_count(num_layers=num_layers)
        self.embedding = nn.Linear(self.sizes.num_channels, self.hidden_channels)
        self.weights = nn.ModuleList(EvolvingWeight(self.hidden_channels) for _ in range(num_layers))

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        state = self.embedding(frames.window)
        matrix = convolution_matrix(graph, state)
        for evolving in self.weights:
            # Each frame has its own weight: (batch, window, nodes, channels) times (window, channels, channels).
            state = torch.relu(matrix @ (state @ evolving(self.sizes.window)))
        by_node = state.movedim(1, 2).flatten(2)
        return self._read(frames, drop.hidden(by_node))
