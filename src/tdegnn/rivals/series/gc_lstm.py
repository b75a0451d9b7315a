"""GC-LSTM (Chen et al., 2018): an LSTM with linear products of the frame and Chebyshev convolutions of the state.

`i, f, o = s(X_t W + conv(H))`, and likewise the candidate. The gates are those of `recurrent.py`, the convolution is
that of `chebyshev.py`. The graph is seen only through the state.

Deviation: the paper convolves the cell state too, and its frames are adjacency rows, because it predicts edges. Here
the cell state stays with its node, as in published forecasting runs.
"""

from __future__ import annotations

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.chebyshev import ChebyshevConvolution
from tdegnn.rivals.series.recurrent import run_lstm


class GraphConvolutionalLSTM(RivalSeriesNetwork):
    """An LSTM with Chebyshev convolutions of its state.

    Args:
        num_hops: Number of edges that a convolution reaches. Default: 2.
    """

    def _make_layers(self, num_hops: int = 2) -> None:
        channels = self.hidden_channels
        self.input_product = nn.Linear(self.sizes.num_channels, 4 * channels)
        self.hidden_product = ChebyshevConvolution(channels, 4 * channels, num_hops, bias=False)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = run_lstm(self.input_product(frames.window), partial(self.hidden_product, graph=graph))
        return self._read(frames, drop.hidden(states[:, -1]))
