"""The network for forecasting, the paper's Algorithm 2: a state, the features of its past, and the time.

The newest frames are embedded and become the history. Layers integrate it, while the features of all frames enter the
spatial term. A linear readout gives all steps of the horizon at once. Its parts decide what kind of network it is: the
rule for c, the operator, and the skip around the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.integrator import Integration, integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.latent_series import LatentSeriesNetwork
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.operators.past_diffusion import PastDiffusion, PastFeatures
from tdegnn.operators.with_past import WithPastFeatures
from tdegnn.parts import reset_parts


class TimeEmbedding(nn.Linear):
    """A linear map of what is known about time. If nothing is known, it returns its bias, which starts at zero."""

    def reset_parameters(self) -> None:
        """Draw the weights anew. A map without inputs has none, and torch would warn."""
        if self.in_features:
            super().reset_parameters()
        else:
            nn.init.zeros_(self.bias)


class TemporalNetwork(LatentSeriesNetwork):
    """Frames to forecasts, by integration of embedded frames.

    Dropout also drops from the current state before each layer. The past features see the identity of nodes, if any.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of frames that become states, at most the window.
        operator: The spatial term s, of `hidden_channels` channels. If it does not take past features, they are added
            to its rate (`WithPastFeatures`). If None, `PastDiffusion`.
        step_size: h.
        parts: Other arguments of `LatentSeriesNetwork`.
    """

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        *,
        operator: SpatialOperator | None = None,
        step_size: float = 1.0,
        **parts: Any,
    ) -> None:
        check_count(hidden_channels=hidden_channels, num_layers=num_layers)
        if operator is None:
            operator = PastDiffusion(hidden_channels, num_layers, step_size)
        elif not operator.takes_past_features:
            operator = WithPastFeatures(operator, hidden_channels, num_layers)
        super().__init__(sizes, hidden_channels, num_layers, coefficients, operator, step_size=step_size, **parts)
        num_identity = 0 if self.identity is None else self.identity.vectors.shape[1]
        self.embedding = nn.Linear(sizes.num_channels, hidden_channels)
        self.past_embedding = nn.Linear(sizes.window * sizes.num_channels + num_identity, hidden_channels)
        self.time_embedding = TimeEmbedding(sizes.horizon * sizes.num_known, hidden_channels)

    def reset_parameters(self) -> None:
        """Draw all weights anew. The rule for c comes last, so that other rules start with the same other weights."""
        reset_parts(self.embedding, self.past_embedding, self.time_embedding, self.operator, self.readout)
        reset_parts(self.identity, self.state_norm, self.skip, self.coefficients)
        self._leave_it_to_the_skip()

    def _integrate(
        self, frames: Frames, graph: Graph, drop: PassDropout, on_state: Callable[[Tensor], None] | None
    ) -> Integration:
        newest_first = frames.window.flip(1)[:, : self.coefficients.order]
        history = torch.relu(self.embedding(newest_first)).unbind(1)
        past = torch.relu(self.past_embedding(self._with_identity(frames.window.movedim(1, 2).flatten(2))))
        time = self.time_embedding(self._flat_future(frames))
        return integrate(
            history,
            graph,
            self.coefficients,
            self.operator,
            num_layers=self.num_layers,
            step_size=self.step_size,
            context=PastFeatures(past, time),
            state_map=drop.hidden,
            after_layer=self.state_norm,
            on_state=on_state,
        )
