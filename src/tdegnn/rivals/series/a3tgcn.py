"""A3T-GCN (Bai et al., 2021): T-GCN whose readout gets a weighted mean of the states after all frames.

`sum_t softmax(a)_t H_t`, `H_t = T-GCN(X_t, H_(t-1))`, the recurrence of `rivals/series/tgcn.py`. The scores a are learned, one a
frame, and start equal.

Deviation: the paper gets the scores from the states by a perceptron. One number a frame is what the forecasting runs of
others have; there, however, every frame starts from a state of zeros.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.rivals.series.recurrent import RecurrentNetwork
from tdegnn.rivals.series.tgcn import ConvolvedFramesGRU


class AttentionTemporalGCN(RecurrentNetwork):
    """A GRU over graph convolutions of the frames, with attention over its states.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        dropout: Part of the mean state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(self, sizes: SeriesSizes, hidden_channels: int, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        self.recurrence = ConvolvedFramesGRU(sizes.num_channels, hidden_channels)
        self.scores = nn.Parameter(torch.zeros(sizes.window))

    def reset_parameters(self) -> None:
        """Draw all weights anew; scores are equal."""
        super().reset_parameters()
        nn.init.zeros_(self.scores)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        states = self.recurrence(frames.window, graph)
        mean = torch.einsum("bwnc,w->bnc", states, torch.softmax(self.scores, dim=0))
        return self._read(frames, drop.hidden(mean))
