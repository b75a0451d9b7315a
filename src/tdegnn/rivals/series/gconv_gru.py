"""GConvGRU (Seo et al., 2018): a GRU whose products, of the frame and of the state, are Chebyshev convolutions.

The gates are those of `recurrent.py`, the convolution is that of `chebyshev.py`.
"""

from __future__ import annotations

from tdegnn.rivals.series.chebyshev import ChebyshevConvolution
from tdegnn.rivals.series.recurrent import ConvolutionalGRU


class GraphConvolutionalGRU(ConvolutionalGRU):
    """A GRU with Chebyshev convolutions."""

    convolution = ChebyshevConvolution
