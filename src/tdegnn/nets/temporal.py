"""The network for forecasting, the paper's Algorithm 2: a state, the features of its past, and the time.

The newest frames are embedded and become the history. Layers integrate it, while the features of all frames enter the
spatial term. A linear readout gives all steps of the horizon at once. Its parts decide what kind of network it is: the
rule for c, the operator, and the skip around the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.integrator import Integration, integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_finite
from tdegnn.graph import Graph
from tdegnn.nets.node_identity import NodeIdentity
from tdegnn.nets.node_parts import Readout, StateNorm
from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes, as_frames, leave_it_to_skip
from tdegnn.nets.stationary import LastReadout
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


class TemporalNetwork(SeriesNetwork):
    """Frames to forecasts, by integration.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of frames that become states, at most the window.
        operator: The spatial term s, of `hidden_channels` channels. If it does not take past features, they are added
            to its rate (`WithPastFeatures`). If None, `PastDiffusion`.
        identity_channels: Channels of the learned vector of each node, which the past features see. If 0, nodes have
            none. Default: 0.
        state_norm: Applied to the new state after each layer. If None, states stay as they are.
        readout: Makes the forecasts from the states. If None, `LastReadout`.
        step_size: h.
        skip: A forecast that is added to that of the layers, such as `LinearSkip`. If None, nothing is added.
        dropout: Fraction of the current state that is dropped before each layer, and before the readout, in training.
        seed: Seed of the dropout.
    """

    step_size: Tensor

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        *,
        operator: SpatialOperator | None = None,
        identity_channels: int = 0,
        state_norm: StateNorm | None = None,
        readout: Readout | None = None,
        step_size: float = 1.0,
        skip: nn.Module | None = None,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        check_count(num_layers=num_layers)
        check_count(minimum=0, identity_channels=identity_channels)
        check_finite(step_size=step_size)
        self._check_order(coefficients)
        self.num_layers = num_layers
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        known = sizes.horizon * sizes.num_known
        self.embedding = nn.Linear(sizes.num_channels, hidden_channels)
        self.past_embedding = nn.Linear(sizes.window * sizes.num_channels + identity_channels, hidden_channels)
        self.identity = NodeIdentity(sizes.num_nodes, identity_channels) if identity_channels else None
        self.time_embedding = TimeEmbedding(known, hidden_channels)
        if operator is None:
            operator = PastDiffusion(hidden_channels, num_layers, step_size)
        elif not operator.takes_past_features:
            operator = WithPastFeatures(operator, hidden_channels, num_layers)
        self.operator = operator
        self.state_norm = state_norm
        num_outputs = sizes.horizon * sizes.num_targets
        self.readout = LastReadout(hidden_channels, num_outputs) if readout is None else readout
        self.skip = skip
        self.coefficients = coefficients
        leave_it_to_skip(self.readout, skip)

    def reset_parameters(self) -> None:
        """Draw all weights anew. The rule for c comes last, so that other rules start with the same other weights."""
        reset_parts(self.embedding, self.past_embedding, self.time_embedding, self.operator, self.readout)
        reset_parts(self.identity, self.state_norm, self.skip, self.coefficients)
        leave_it_to_skip(self.readout, self.skip)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        kept: Any = None

        def keep(state: Tensor) -> None:
            nonlocal kept
            kept = self.readout.keep(kept, state)

        self._integrate(frames, graph, drop.hidden, keep)
        forecast = as_frames(self.readout(drop.outer(self.readout.join(kept))), self.sizes)
        return forecast if self.skip is None else forecast + self.skip(frames, graph)

    def integrate(self, frames: Frames, graph: Graph) -> Integration:
        """Return the last state, the history and the coefficients c of every layer, without dropout."""
        return self._integrate(frames, graph, None)

    def _integrate(
        self,
        frames: Frames,
        graph: Graph,
        state_map: Callable[[Tensor], Tensor] | None,
        on_state: Callable[[Tensor], None] | None = None,
    ) -> Integration:
        newest_first = frames.window.flip(1)[:, : self.coefficients.order]
        history = torch.relu(self.embedding(newest_first)).unbind(1)
        seen = frames.window.movedim(1, 2).flatten(2)
        if self.identity is not None:
            seen = torch.cat([seen, self.identity(len(seen))], dim=-1)
        past = torch.relu(self.past_embedding(seen))
        time = self.time_embedding(self._flat_future(frames))
        return integrate(
            history,
            graph,
            self.coefficients,
            self.operator,
            num_layers=self.num_layers,
            step_size=self.step_size,
            context=PastFeatures(past, time),
            state_map=state_map,
            after_layer=self.state_norm,
            on_state=on_state,
        )
