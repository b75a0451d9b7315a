"""A recurrent graph network: an LSTM whose products are graph convolutions (GConvLSTM, Seo et al., 2018).

The states of the history go in one after the other, oldest first, with hidden and cell state passed on. The
readout predicts the change of the newest state, which is easier than the state itself: no handicap for a rival.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tdegnn.core.combination import History
from tdegnn.core.integrator import as_history
from tdegnn.errors import check_count
from tdegnn.graph import Graph, State


class GraphLSTM(nn.Module):
    """Predict the next state by an LSTM over the last `order` states.

    Every gate is an affine map of `[F, P F]` and `[H, P H]`, with P the propagation of the graph.

    Args:
        order: Number of states it looks at.
        channels: Channels of a state.
        hidden_channels: Channels of hidden and cell state.
    """

    def __init__(self, order: int, channels: int, hidden_channels: int) -> None:
        super().__init__()
        check_count(order=order, channels=channels, hidden_channels=hidden_channels)
        self.order, self.hidden_channels = order, hidden_channels
        self.input_map = nn.Linear(2 * channels, 4 * hidden_channels)
        self.hidden_map = nn.Linear(2 * hidden_channels, 4 * hidden_channels, bias=False)
        self.readout = nn.Linear(hidden_channels, channels)

    def forward(self, history: History, graph: Graph) -> State:
        """Return the newest state plus the change that the LSTM predicts."""
        history = as_history(history, self.order)
        newest = history[0]
        hidden = newest.new_zeros(*newest.shape[:-1], self.hidden_channels)
        cell = hidden
        for state in reversed(history):
            products = self.input_map(_with_neighbors(state, graph))
            products = products + self.hidden_map(_with_neighbors(hidden, graph))
            input_gate, forget_gate, output_gate, candidate = products.chunk(4, dim=-1)
            cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        change: Tensor = self.readout(hidden)
        return newest + change


def _with_neighbors(state: Tensor, graph: Graph) -> Tensor:
    return torch.cat([state, graph.propagate(state)], dim=-1)
