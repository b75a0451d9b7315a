"""Diffusion on the graph with a learned map per layer: `s(F; G) = relu((F - h L F) W_l)`.

Paper: App. B.2. `DiffusionOperator` is the paper's, `NearIdentityDiffusion` differs in where `W_l` starts. The context
is handed on untouched.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_finite, check_fits, check_layer
from tdegnn.graph import Graph, State

PAPER = "Eliasof et al., 2024, On the temporal domain of differential equation inspired graph neural networks"


class DiffusionOperator(SpatialOperator):
    """The paper's spatial term, `s(F; G) = relu((F - h L F) W_l)`.

    Paper: App. B.2. With batch norm, the product is normalized before the relu. Deviation: none, but for nodes that
    receive nothing, whose state does not diffuse (`Graph.laplacian`).

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own `W_l`.
        step_size: h.
        batch_norm: Whether to normalize channels over nodes (and batch) before the relu.
    """

    equation = "relu((F - h L F) W_l)"
    citation = PAPER

    step_size: Tensor

    def __init__(self, channels: int, num_layers: int, step_size: float, *, batch_norm: bool = False) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(step_size=step_size)
        self.channels, self.num_layers = channels, num_layers
        # A buffer, so that networks trained together may differ in it; in float64, so that no digit is lost.
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        self.weight = nn.Parameter(torch.empty(num_layers, channels, channels))
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(num_layers if batch_norm else 0))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, each layer as a linear layer would."""
        for weight in self.weight:
            nn.init.kaiming_uniform_(weight, a=5**0.5)
        for norm in self.norms:
            norm.reset_parameters()  # type: ignore[operator]

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `relu((F - h L F) W_l)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.weight, self.channels)
        mixed = graph.diffuse(state, self.step_size) @ self._layer_map(layer)
        if self.norms:
            mixed = normalize_nodes(self.norms[layer], mixed)
        return torch.relu(mixed), context

    def _layer_map(self, layer: int) -> Float[Tensor, "channels channels"]:
        return self.weight[layer]

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, step_size={float(self.step_size):g}"


class NearIdentityDiffusion(DiffusionOperator):
    """The paper's spatial term with maps that start at the identity, `s(F; G) = relu((F - h L F) (I + V_l))`.

    Deviation: the paper's maps start at random and decay to zero. These start as plain diffusion, and weight decay,
    which acts on V, pulls them back to it. If neighbors are alike (Cora, Citeseer), this gains half a point.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own `V_l`.
        step_size: h.
        batch_norm: Whether to normalize channels over nodes (and batch) before the relu.
    """

    equation = "relu((F - h L F) (I + V_l))"

    def reset_parameters(self) -> None:
        """Start at the identity."""
        super().reset_parameters()
        nn.init.zeros_(self.weight)

    def _layer_map(self, layer: int) -> Float[Tensor, "channels channels"]:
        return torch.eye(self.channels, dtype=self.weight.dtype, device=self.weight.device) + self.weight[layer]


def normalize_nodes(norm: nn.Module, state: State) -> State:
    """Return the state, normalized by a `BatchNorm1d` over nodes (and batch)."""
    # Batch norm takes rows and channels: nodes and batch are both rows.
    normalized: State = norm(state.flatten(0, -2)).view_as(state)
    return normalized
