"""DyGrAE (Taheri & Berger-Wolf, 2019), its encoder: a gated graph convolution of each frame, then an LSTM over them.

Gated graph convolution (Li et al., 2016): starting from `F = X_t W + b`, some rounds of `F' = GRU(M F V, F)`, with M
the mean of what a node receives. GRU and LSTM are those of `recurrent.py`.

Deviation: the paper's decoder rebuilds the adjacency, which does not change here; it pools nodes before the LSTM, while
a forecast needs each of them. Frames are mapped to hidden channels where the paper pads them with zeros.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import averaging_matrix
from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.recurrent import States, run_lstm, update_gru


class GatedGraphConvolution(nn.Module):
    """Rounds of messages, each an update of a GRU. All rounds have the same weights.

    Args:
        channels: Channels of a state.
        num_rounds: Number of rounds.
    """

    def __init__(self, channels: int, num_rounds: int) -> None:
        super().__init__()
        check_count(num_rounds=num_rounds)
        self.num_rounds = num_rounds
        self.message_map = nn.Linear(channels, channels, bias=False)
        self.input_product = nn.Linear(channels, 3 * channels)
        self.gate_product = nn.Linear(channels, 2 * channels, bias=False)
        self.candidate_product = nn.Linear(channels, channels, bias=False)

    def forward(self, state: States, graph: Graph) -> States:
        """Return the states after all rounds."""
        mean = averaging_matrix(graph, state)
        for _ in range(self.num_rounds):
            received = self.input_product(mean @ self.message_map(state))
            state = update_gru(received, state, self.gate_product, self.candidate_product)
        return state

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"num_rounds={self.num_rounds}"


class DynamicGraphEncoder(RivalSeriesNetwork):
    """An LSTM over gated graph convolutions of the frames.

    Args:
        num_rounds: Rounds of messages per frame. Default: 2.
    """

    def _make_layers(self, num_rounds: int = 2) -> None:
        channels = self.hidden_channels
        self.embedding = nn.Linear(self.sizes.num_channels, channels)
        self.convolution = GatedGraphConvolution(channels, num_rounds)
        self.input_product = nn.Linear(channels, 4 * channels)
        self.hidden_product = nn.Linear(channels, 4 * channels, bias=False)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        embedded = self.convolution(self.embedding(frames.window), graph)
        states = run_lstm(self.input_product(embedded), self.hidden_product)
        return self._read(frames, drop.hidden(states[:, -1]))
