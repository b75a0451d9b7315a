"""A3T-GCN (Bai et al., 2021): T-GCN whose readout gets a weighted mean of the states after all frames.

`sum_t softmax(a)_t H_t`, `H_t = T-GCN(X_t, H_(t-1))`, with the recurrence of `tgcn.py`. The scores a are learned, one
per frame, and start equal.

Deviation: the paper gets the scores from the states by a perceptron. Published forecasting runs have one number per
frame, as here; there, however, every frame starts from a state of zeros.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.tgcn import ConvolvedFramesGRU


class AttentionTemporalGCN(RivalSeriesNetwork):
    """A GRU over graph convolutions of the frames, with attention over its states. Dropout applies to their mean."""

    def _make_layers(self) -> None:
        self.recurrence = ConvolvedFramesGRU(self.sizes.num_channels, self.hidden_channels)
        self.scores = nn.Parameter(torch.zeros(self.sizes.window))

    def reset_parameters(self) -> None:
        """Draw all weights anew, with equal scores."""
        super().reset_parameters()
        nn.init.zeros_(self.scores)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = self.recurrence(frames.window, graph)
        mean = torch.einsum("bwnc,w->bnc", states, torch.softmax(self.scores, dim=0))
        return self._read(frames, drop.hidden(mean))
