"""DyGrAE (Taheri & Berger-Wolf, 2019), its encoder: a gated graph convolution of each frame, then an LSTM over them.

Gated graph convolution (Li et al., 2016): from `F = X_t W + b` on, some rounds of `F' = GRU(M F V, F)`, the GRU of
`rivals/series/recurrent.py`, with M the mean of what a node receives. The LSTM and the readout are of that file too.

Deviation: the paper's decoder rebuilds the adjacency, which does not change here; it pools nodes before the LSTM, while
a forecast needs each of them. Frames are mapped to hidden channels where the paper pads them with zeros.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.rivals.series.adjacency import averaging_matrix
from tdegnn.rivals.series.recurrent import RecurrentNetwork, States, run_lstm, update_gru


class GatedGraphConvolution(nn.Module):
    """Rounds of messages, each taken in by a GRU; all rounds have the same weights.

    Args:
        channels: Channels of a state.
        num_rounds: How often nodes hear from each other.
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


class DynamicGraphEncoder(RecurrentNetwork):
    """An LSTM over gated graph convolutions of the frames.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state, in the convolution and in the LSTM.
        num_rounds: Rounds of messages in each frame.
        dropout: Part of the last state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self, sizes: SeriesSizes, hidden_channels: int, *, num_rounds: int = 2, dropout: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        self.embedding = nn.Linear(sizes.num_channels, hidden_channels)
        self.convolution = GatedGraphConvolution(hidden_channels, num_rounds)
        self.input_product = nn.Linear(hidden_channels, 4 * hidden_channels)
        self.hidden_product = nn.Linear(hidden_channels, 4 * hidden_channels, bias=False)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        embedded = self.convolution(self.embedding(frames.window), graph)
        states = run_lstm(self.input_product(embedded), self.hidden_product)
        return self._read(frames, drop.hidden(states[:, -1]))
