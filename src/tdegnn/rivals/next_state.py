"""Rivals on the pendulum: predictors of the next state of a system, `predictor(history, graph) -> state`.

`NaivePredictor` is `F[l+1] = F[l]`, which every model has to beat. `GraphLSTM` is an LSTM whose products are graph
convolutions (GConvLSTM, Seo et al., 2018).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.combination import History
from tdegnn.core.integrator import as_history
from tdegnn.errors import check_count
from tdegnn.graph import Graph, State
from tdegnn.nets.projection import LinearTerms, spread_over_channels
from tdegnn.rivals.series.recurrent import update_lstm


class NaivePredictor(nn.Module):
    """Predict that nothing changes."""

    order = 1

    def forward(self, history: History, graph: Graph) -> State:  # noqa: ARG002
        """Return the newest state."""
        return history[0]


class GraphLSTM(nn.Module):
    """Predict the next state by an LSTM over the last `order` states, oldest first.

    Every gate is an affine map of `[F, P F]` and `[H, P H]`, with P the propagation of the graph. The readout predicts
    the change of the newest state, which is easier than the state itself, so that the rival has no handicap.

    Args:
        order: Number of states that it sees.
        channels: Channels of a state.
        hidden_channels: Channels of the hidden state and of the cell state.
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
        change: Tensor = self.readout(self._hidden(history, graph))
        return history[0] + change

    def linear_terms(self, history: History, graph: Graph) -> LinearTerms:
        """Return the prediction as a sum that is linear in the readout."""
        hidden = self._hidden(history, graph)
        weights = spread_over_channels(hidden, self.readout.out_features)
        biases = spread_over_channels(torch.ones_like(hidden[..., :1]), self.readout.out_features)
        is_penalized = torch.arange(weights.shape[-1] + biases.shape[-1], device=hidden.device) < weights.shape[-1]
        return LinearTerms(history[0], torch.cat([weights, biases], dim=-1), is_penalized)

    def assign_linear(self, weights: Float[Tensor, " weights"]) -> None:
        """Set the readout from the weights of `linear_terms`."""
        matrix, bias = weights.split([self.readout.weight.numel(), self.readout.bias.numel()])
        with torch.no_grad():
            self.readout.weight.copy_(matrix.view_as(self.readout.weight))
            self.readout.bias.copy_(bias)

    def other_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that are not the readout's."""
        return [*self.input_map.parameters(), *self.hidden_map.parameters()]

    def _hidden(self, history: History, graph: Graph) -> Float[Tensor, "*batch nodes hidden"]:
        history = as_history(history, self.order)
        hidden = cell = history[0].new_zeros(*history[0].shape[:-1], self.hidden_channels)
        for state in reversed(history):
            products = self.input_map(_with_neighbors(state, graph)) + self.hidden_map(_with_neighbors(hidden, graph))
            hidden, cell = update_lstm(products, cell)
        return hidden


def _with_neighbors(state: Tensor, graph: Graph) -> Tensor:
    return torch.cat([state, graph.propagate(state)], dim=-1)
