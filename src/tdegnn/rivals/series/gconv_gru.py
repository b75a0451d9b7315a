"""GConvGRU (Seo et al., 2018): a GRU whose products, of the frame and of the state, are Chebyshev convolutions.

Gates and readout are those of `rivals/series/recurrent.py`, the convolution that of `rivals/series/chebyshev.py`.
"""

from __future__ import annotations

from functools import partial

from tdegnn.nets.series_network import SeriesSizes
from tdegnn.rivals.series.chebyshev import ChebyshevConvolution
from tdegnn.rivals.series.recurrent import ConvolutionalGRU


class GraphConvolutionalGRU(ConvolutionalGRU):
    """A GRU with Chebyshev convolutions.

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
        convolution = partial(ChebyshevConvolution, num_hops=num_hops)
        super().__init__(sizes, hidden_channels, convolution, dropout=dropout, seed=seed)
