"""A network for series whose states are the observed frames themselves: then c can be read.

No embedding, no skip: the next frame is `sum_p c_p F[t-p+1] + h s(F[t]; G)`, and further ones follow from it. Only s
has hidden channels. What c says (`tdegnn.analysis`) is about the data, not about a latent space.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.combination import History
from tdegnn.core.integrator import Integration, integrate, push
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_finite
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.parts import reset_parts


class PhysicalSeriesNetwork(SeriesNetwork):
    """Frames to forecasts, one observed step a layer.

    Args:
        sizes: The sizes of the task. Only targets are seen: other channels, and the future, are not.
        hidden_channels: Hidden channels of s.
        coefficients: The rule for c; its order is the number of frames it looks at, at most the window.
        operator: The spatial term s. If None, `HiddenDiffusionOperator`.
        step_size: h, the time between two frames.
        seed: Not used, there is no dropout: a state with holes would be another state.
    """

    step_size: Tensor

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        coefficients: TemporalCoefficients,
        *,
        operator: SpatialOperator | None = None,
        step_size: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, seed=seed)
        check_finite(step_size=step_size)
        self._check_order(coefficients)
        self.coefficients = coefficients
        self.operator = HiddenDiffusionOperator(sizes.num_targets, hidden_channels) if operator is None else operator
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)

    def reset_parameters(self) -> None:
        """Draw s anew; c returns to where it starts."""
        reset_parts(self.operator, self.coefficients)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window, each step from those before it."""
        self._start(frames, graph)
        history, forecasts = self._history(frames), []
        for _ in range(self.sizes.horizon):
            forecasts.append(self._advance(history, graph).state)
            history = push(history, forecasts[-1])
        return torch.stack(forecasts, dim=1)

    def integrate(self, frames: Frames, graph: Graph) -> Integration:
        """Return the first forecast, and the coefficients c that made it."""
        return self._advance(self._history(frames), graph)

    def _advance(self, history: History, graph: Graph) -> Integration:
        return integrate(history, graph, self.coefficients, self.operator, num_layers=1, step_size=self.step_size)

    def _history(self, frames: Frames) -> tuple[Tensor, ...]:
        """The newest targets, newest first."""
        newest_first = frames.window[..., : self.sizes.num_targets].flip(1)
        return newest_first[:, : self.coefficients.order].unbind(1)
