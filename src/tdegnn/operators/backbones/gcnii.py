"""The layers of GCNII (Chen et al., 2020), which keep the first state in view and stay near the identity.

`B(F) = relu(H ((1 - b_l) I + b_l W_l))`, `H = (1 - a) P F + a F0`, `b_l = ln(theta / (l + 1) + 1)`, l from 0 on, where
F0 is the first state, kept in the context, and `P = D^-1/2 (A' + I) D^-1/2`. GCNII* has separate maps for P F and F0.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.errors import InputError, check_count, check_finite, check_fits, check_layer
from tdegnn.graph import Graph, State
from tdegnn.operators.rate_of import Backbone


class KeptFirst(NamedTuple):
    """The context of GCNII.

    Attributes:
        first: F0, the state of the first layer. Gradients flow through it.
    """

    first: State


class GcniiBackbone(Backbone):
    """A convolution with initial residual and identity mapping, `B(F) = relu(H ((1 - b_l) I + b_l W_l))`.

    The weights of edges are used. A node without edges receives its own state.

    Paper: Chen et al. (2020), eq. 5. Deviation: F0 is the state that enters the first layer. With hidden dropout that
    is the dropped one, while the released code keeps F0 as it was before.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own map.
        alpha: Weight a of the first state in each layer, from 0 to 1. Default: 0.1.
        theta: How far the layers are from the identity, positive; called lambda in the paper. Default: 0.5.
    """

    alpha: Tensor
    theta: Tensor
    equation: ClassVar[str] = (
        "relu(((1-a) P F + a F0)((1-b_l) I + b_l W_l)), b_l = ln(theta/(l+1) + 1), P = D^-1/2 (A' + I) D^-1/2"
    )
    citation: ClassVar[str] = "Chen et al., 2020, Simple and Deep Graph Convolutional Networks"

    def __init__(self, channels: int, num_layers: int, *, alpha: float = 0.1, theta: float = 0.5) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(alpha=alpha, theta=theta)
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"Expected alpha to be from 0 to 1, got {alpha}.")
        if not theta > 0.0:
            raise InputError(f"Expected theta to be positive, got {theta}.")
        self.channels, self.num_layers = channels, num_layers
        # Buffers, so that networks trained together may differ in them; in float64, so that no digit is lost.
        self.register_buffer("alpha", torch.tensor(alpha, dtype=torch.float64), persistent=False)
        self.register_buffer("theta", torch.tensor(theta, dtype=torch.float64), persistent=False)
        self.maps = self._make_maps()

    def forward(
        self, state: State, graph: Graph, layer: int, context: KeptFirst | None = None
    ) -> tuple[State, KeptFirst]:
        """Return the next state, and the first one."""
        check_layer(layer, self.num_layers)
        check_fits(state, cast(nn.Linear, self.maps[layer]).weight, self.channels)
        kept = KeptFirst(state) if context is None else context
        received = convolution_matrix(graph, state) @ state
        mixed = torch.lerp(received, kept.first, self.alpha.to(state.dtype))
        identity_gap = torch.log(self.theta / (layer + 1) + 1.0).to(state.dtype)
        mapped = self._map(received, kept.first, mixed, layer)
        return torch.relu(torch.lerp(mixed, mapped, identity_gap)), kept

    def _make_maps(self) -> nn.ModuleList:
        return nn.ModuleList(nn.Linear(self.channels, self.channels, bias=False) for _ in range(self.num_layers))

    def _map(self, received: State, first: State, mixed: State, layer: int) -> State:  # noqa: ARG002
        """Return `H W_l`, given P F, F0 and H."""
        mapped: State = self.maps[layer](mixed)
        return mapped


class GcniiStarBackbone(GcniiBackbone):
    """GCNII with separate maps, `B(F) = relu((1 - b_l) ((1 - a) P F + a F0) + b_l (P F W_l + F0 V_l))`.

    Deviation: as in the released code, a does not scale what is mapped. The paper's eq. 6 has `(1 - a) P F W_l` and
    `a F0 V_l`.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
        alpha: Weight a of the first state in each layer, from 0 to 1. Default: 0.1.
        theta: How far the layers are from the identity, positive; called lambda in the paper. Default: 0.5.
    """

    equation: ClassVar[str] = (
        "relu((1-b_l) ((1-a) P F + a F0) + b_l (P F W_l + F0 V_l)), b_l = ln(theta/(l+1) + 1), "
        "P = D^-1/2 (A' + I) D^-1/2"
    )

    def __init__(self, channels: int, num_layers: int, *, alpha: float = 0.1, theta: float = 0.5) -> None:
        super().__init__(channels, num_layers, alpha=alpha, theta=theta)
        self.first_maps = self._make_maps()

    def _map(self, received: State, first: State, mixed: State, layer: int) -> State:  # noqa: ARG002
        """Return `P F W_l + F0 V_l`."""
        mapped: State = self.maps[layer](received) + self.first_maps[layer](first)
        return mapped
