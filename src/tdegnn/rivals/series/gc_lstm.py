"""GC-LSTM (Chen et al., 2018): an LSTM with linear products of the frame and Chebyshev convolutions of the state.

`i, f, o = s(X_t W + conv(H))` and likewise the candidate; gates and readout are those of `rivals/series/recurrent.py`, the
convolution that of `rivals/series/chebyshev.py`. The graph is seen through the state only.

Deviation: the paper convolves the cell state as well, and its frames are adjacency rows, for it predicts edges. Here
the cell state stays with its node, as in the forecasting runs of others.
"""

from __future__ import annotations

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.rivals.series.chebyshev import ChebyshevConvolution
from tdegnn.rivals.series.recurrent import RecurrentNetwork, run_lstm


class GraphConvolutionalLSTM(RecurrentNetwork):
    """An LSTM with Chebyshev convolutions of its state.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_hops: How many edges a convolution reaches.
        dropout: Part of the last state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self, sizes: SeriesSizes, hidden_channels: int, *, num_hops: int = 2, dropout: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        self.input_product = nn.Linear(sizes.num_channels, 4 * hidden_channels)
        self.hidden_product = ChebyshevConvolution(hidden_channels, 4 * hidden_channels, num_hops, bias=False)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = run_lstm(self.input_product(frames.window), partial(self.hidden_product, graph=graph))
        return self._read(frames, drop.hidden(states[:, -1]))
