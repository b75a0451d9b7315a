"""The layer of the tuned graph convolutional network (Luo et al., 2024), `B(F) = relu(BN(P F W_l + b_l + F R_l))`.

A graph convolution with batch norm and a linear residual, which is the best system known on the filtered Wikipedia
graphs. Its dropout is that of the network. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from tdegnn.graph import Graph, State
from tdegnn.operators.backbones.gcn import GcnBackbone
from tdegnn.operators.diffusion import normalize_nodes


class TunedGcnBackbone(GcnBackbone):
    """A graph convolution with batch norm and linear residual, `B(F) = relu(BN(P F W_l + b_l + F R_l))`.

    P is that of `GcnBackbone`, and so are weights of edges and nodes without edges.

    Deviation: in the released code R_l has a bias too, which adds nothing to b_l.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps and norm.
        batch_norm: Whether to normalize channels over nodes (and batch) before the relu. Default: True.
        residual: Whether to add the state through its own linear map. Default: True.
    """

    equation: ClassVar[str] = "relu(BN(P F W_l + b_l + F R_l)), P = D^-1/2 (A' + I) D^-1/2"
    citation: ClassVar[str] = "Luo et al., 2024, Classic GNNs are Strong Baselines"

    def __init__(self, channels: int, num_layers: int, *, batch_norm: bool = True, residual: bool = True) -> None:
        super().__init__(channels, num_layers)
        self.residual_maps = nn.ModuleList(
            nn.Linear(channels, channels, bias=False) for _ in range(num_layers if residual else 0)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(num_layers if batch_norm else 0))

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `relu(BN(P F W_l + b_l + F R_l))`."""
        mixed = self._convolve(state, graph, layer)
        if self.residual_maps:
            mixed = mixed + self.residual_maps[layer](state)
        if self.norms:
            mixed = normalize_nodes(self.norms[layer], mixed)
        return torch.relu(mixed), context
