"""What the networks for series that integrate latent states share: identity, norm, readout and skip.

Subclasses say how frames become the first states, and what the spatial term sees besides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.integrator import Integration
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_finite
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.node_identity import NodeIdentity
from tdegnn.nets.node_parts import Readout, StateNorm
from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes, as_frames
from tdegnn.nets.stationary import LastReadout


class LatentSeriesNetwork(SeriesNetwork, ABC):
    """Frames to forecasts, by integration of latent states.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of first states, at most the window.
        operator: The spatial term s, of `hidden_channels` channels.
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
        self.identity = NodeIdentity(sizes.num_nodes, identity_channels) if identity_channels else None
        self.operator = operator
        self.state_norm = state_norm
        num_outputs = sizes.horizon * sizes.num_targets
        self.readout = LastReadout(hidden_channels, num_outputs) if readout is None else readout
        self.skip = skip
        self.coefficients = coefficients
        self._leave_it_to_the_skip()

    def _leave_it_to_the_skip(self) -> None:
        """Start the last map of the readout at zero if there is a skip: the skip forecasts alone at first."""
        if self.skip is not None and isinstance(self.readout, nn.Linear):
            nn.init.zeros_(self.readout.weight)
            nn.init.zeros_(self.readout.bias)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        kept: Any = None

        def keep(state: Tensor) -> None:
            nonlocal kept
            kept = self.readout.keep(kept, state)

        self._integrate(frames, graph, drop, keep)
        forecast = as_frames(self.readout(drop.outer(self.readout.join(kept))), self.sizes)
        return forecast if self.skip is None else forecast + self.skip(frames, graph)

    def integrate(self, frames: Frames, graph: Graph) -> Integration:
        """Return the last state, the history and the coefficients c of every layer, without dropout."""
        return self._integrate(frames, graph, PassDropout(None, self.dropout, self.dropout), None)

    @abstractmethod
    def _integrate(
        self, frames: Frames, graph: Graph, drop: PassDropout, on_state: Callable[[Tensor], None] | None
    ) -> Integration:
        """Make the first states and integrate them.

        Args:
            frames: What is known.
            graph: The graph.
            drop: The dropout of this pass.
            on_state: Called with the new state after each layer.
        """

    def _with_identity(self, inputs: Float[Tensor, "batch nodes inputs"]) -> Float[Tensor, "batch nodes joined"]:
        """Return inputs of each node, followed by its vector if it has one."""
        return inputs if self.identity is None else torch.cat([inputs, self.identity(len(inputs))], dim=-1)
