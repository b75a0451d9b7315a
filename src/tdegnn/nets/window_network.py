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
from tdegnn.errors import Argument, InputError
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.latent_series import LatentSeriesNetwork
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.parts import reset_parts


class WindowNetwork(LatentSeriesNetwork):
    """Frames to forecasts, by integration of embedded windows.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of moments that become states, at most the window.
        operator: The spatial term s, of `hidden_channels` channels, without past features: a state has them all.
        parts: Other arguments of `LatentSeriesNetwork`.
    """

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        operator: SpatialOperator,
        **parts: Any,
    ) -> None:
        if operator.takes_past_features:
            raise InputError(
                f"Expected an operator that does not take past features, got {type(operator).__name__}, which needs "
                "latent states. Pass ",
                Argument("states", "latent"),
                ", or take another operator.",
            )
        super().__init__(sizes, hidden_channels, num_layers, coefficients, operator, **parts)
        # Waves turn at a known speed: those of the first step to forecast say all about the others.
        num_seen = sizes.window * (sizes.num_channels - sizes.num_waves)
        num_ahead = sizes.horizon * (sizes.num_known - sizes.num_waves) + sizes.num_waves
        num_identity = 0 if self.identity is None else self.identity.vectors.shape[1]
        self.embedding = nn.Linear(num_seen + num_ahead + num_identity, hidden_channels)

    def reset_parameters(self) -> None:
        """Draw all weights anew. The rule for c comes last, so that other rules start with the same other weights."""
        reset_parts(self.embedding, self.identity, self.operator, self.readout, self.state_norm)
        reset_parts(self.skip, self.coefficients)
        self._leave_it_to_the_skip()

    def _integrate(
        self,
        frames: Frames,
        graph: Graph,
        drop: PassDropout,  # noqa: ARG002 (a window has many values: only the readout drops)
        on_state: Callable[[Tensor], None] | None,
    ) -> Integration:
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
        known = self._with_identity(torch.cat([ahead, waves], dim=-1))
        history = []
        for age in range(self.coefficients.order):
            oldest = window[:, :, :1].expand(-1, -1, age, -1)
            seen = torch.cat([oldest, window[:, :, : sizes.window - age]], dim=2)
            history.append(self.embedding(torch.cat([seen.flatten(2), known], dim=-1)))
        return history
