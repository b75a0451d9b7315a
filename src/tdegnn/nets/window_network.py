"""The usual network for forecasting: a state is an embedding of everything that a node knows at one moment.

`F = E [window, known future, v]`, where v is a learned vector of each node, its identity. The history are the states of
the newest moments, made from the window as it was then. Layers integrate it, with a norm after each of them, and a
readout of the states gives all steps of the horizon at once, as differences to a skip such as the last value.
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
from tdegnn.parts import reset_parts


class WindowNetwork(SeriesNetwork):
    """Frames to forecasts, by integration of embedded windows.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of moments that become states, at most the window.
        operator: The spatial term s, of `hidden_channels` channels, without past features: a state has them all.
        identity_channels: Channels of the learned vector of each node. If 0, nodes have none. Default: 0.
        state_norm: Applied to the new state after each layer. If None, states stay as they are.
        readout: Makes the forecasts from the states. If None, `LastReadout`.
        step_size: h.
        skip: A forecast that is added to that of the layers. If None, nothing is added.
        dropout: Fraction of what the readout reads that is dropped in training.
        seed: Seed of the dropout.
    """

    step_size: Tensor

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        operator: SpatialOperator,
        *,
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
        # Waves turn at a known speed: those of the first step to forecast say all about the others.
        num_seen = sizes.window * (sizes.num_channels - sizes.num_waves)
        num_ahead = sizes.horizon * (sizes.num_known - sizes.num_waves) + sizes.num_waves
        self.identity = NodeIdentity(sizes.num_nodes, identity_channels) if identity_channels else None
        self.embedding = nn.Linear(num_seen + num_ahead + identity_channels, hidden_channels)
        self.operator = operator
        self.state_norm = state_norm
        num_outputs = sizes.horizon * sizes.num_targets
        self.readout = LastReadout(hidden_channels, num_outputs) if readout is None else readout
        self.skip = skip
        self.coefficients = coefficients
        leave_it_to_skip(self.readout, self.skip)

    def reset_parameters(self) -> None:
        """Draw all weights anew. The rule for c comes last, so that other rules start with the same other weights."""
        reset_parts(self.embedding, self.identity, self.operator, self.readout, self.state_norm)
        reset_parts(self.skip, self.coefficients)
        leave_it_to_skip(self.readout, self.skip)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        kept: Any = None

        def keep(state: Tensor) -> None:
            nonlocal kept
            kept = self.readout.keep(kept, state)

        self._integrate(frames, graph, keep)
        forecast = as_frames(self.readout(drop.readout(self.readout.join(kept))), self.sizes)
        return forecast if self.skip is None else forecast + self.skip(frames, graph)

    def integrate(self, frames: Frames, graph: Graph) -> Integration:
        """Return the last state, the history and the coefficients c of every layer."""
        return self._integrate(frames, graph, None)

    def _integrate(self, frames: Frames, graph: Graph, on_state: Callable[[Tensor], None] | None) -> Integration:
        return integrate(
            self._history(frames),
            graph,
            self.coefficients,
            self.operator,
            num_layers=self.num_layers,
            step_size=self.step_size,
            after_layer=self.state_norm,
            on_state=on_state,
        )

    def _history(self, frames: Frames) -> list[Float[Tensor, "batch nodes channels"]]:
        """Return the states of the newest moments, newest first.

        A state of an earlier moment sees the same number of frames: the oldest frame is repeated in place of those
        before it. What is known about the future is the same for all.
        """
        sizes = self.sizes
        window = frames.window[..., : sizes.num_channels - sizes.num_waves].movedim(1, 2)
        waves = frames.future[:, 0, :, sizes.num_known - sizes.num_waves :]
        ahead = frames.future[..., : sizes.num_known - sizes.num_waves].movedim(1, 2).flatten(2)
        known = torch.cat([ahead, waves, *([] if self.identity is None else [self.identity(len(window))])], dim=-1)
        history = []
        for age in range(self.coefficients.order):
            oldest = window[:, :, :1].expand(-1, -1, age, -1)
            seen = torch.cat([oldest, window[:, :, : sizes.window - age]], dim=2)
            history.append(self.embedding(torch.cat([seen.flatten(2), known], dim=-1)))
        return history
