"""GRAND: diffusion with attention, `s(F; G) = sg(a) (G F - F) + b F_0`.

Chamberlain et al. (2021), GRAND: Graph Neural Diffusion. G is a mean over what a node receives
(`operators/edge_attention.py`), a and b are learned numbers that start at 0, `F_0` is the state of layer 0. In the
linear form G comes from `F_0`, once. In the nonlinear form it comes from F, in every layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from tdegnn.graph import Graph, State
from tdegnn.operators.edge_attention import EdgeWeights
from tdegnn.operators.mixing_operator import FirstState, MixingOperator


class GrandOperator(MixingOperator):
    """Linear GRAND, `s(F; G) = sg(a) (G_0 F - F) + b F_0`, with the attention `G_0` of the first state.

    Paper: the linear model, `s = (A(F_0) - I) F`. Deviation: as released, `sg(a)` scales it and a source `b F_0` is
    added, without a gradient through `F_0`. The solver is the integrator, with steps of one size.

    Args:
        channels: Channels of a state.
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether a node receives from itself too. Default: True, as released. Otherwise a node that receives
            nothing gets zero, and decays.
    """

    equation: ClassVar[str] = "sg(a) (G F - F) + b F0, G = attention of F0"
    citation: ClassVar[str] = "Chamberlain et al., 2021, GRAND: Graph Neural Diffusion"

    def __init__(
        self, channels: int, *, mixing: str | Mapping[str, Any] = "attention", self_loops: bool = True
    ) -> None:
        super().__init__(channels, mixing=mixing, self_loops=self_loops)
        self.source_scale = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Draw the weights of G anew, and start with `a = b = 0`."""
        super().reset_parameters()
        nn.init.zeros_(self.source_scale)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `sg(a) (G F - F) + b F_0`, and what is kept of layer 0."""
        first = self._look_back(state, graph, context)
        mixed = self.mixing.mix(self._weights(first, state, graph), state, graph)
        return torch.sigmoid(self.raw_rate) * (mixed - state) + self.source_scale * first.state, first

    def _weights(self, first: FirstState, state: State, graph: Graph) -> EdgeWeights | None:  # noqa: ARG002
        """Return G of this layer."""
        return first.weights


class NonlinearGrandOperator(GrandOperator):
    """Nonlinear GRAND, `s(F; G) = sg(a) (G(F) F - F) + b F_0`, with the attention of the current state.

    Paper: the nonlinear model, `s = (A(F) - I) F`. Deviation: as in `GrandOperator`.

    Args:
        channels: Channels of a state.
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether a node receives from itself too. Default: True, as released.
    """

    equation: ClassVar[str] = "sg(a) (G F - F) + b F0, G = attention of F"

    def _keep(self, first: State, graph: Graph) -> FirstState:  # noqa: ARG002
        return FirstState(first.detach())

    def _weights(self, first: FirstState, state: State, graph: Graph) -> EdgeWeights | None:  # noqa: ARG002
        return self.mixing.weigh(state, graph)
