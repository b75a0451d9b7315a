"""CDE: convection and diffusion, `s(F; G) = sg(a) ([F, BN(V) W_h + BN(G F) W_l] W_2 + e - F) + b F_0`.

Zhao et al. (2023), Graph Neural Convection-Diffusion with Heterophily. G is the attention of F, in every layer, and
`V_i = F_i * sum_j relu((F_j - F_i) W)` the convection, with the sum over what a node receives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from tdegnn.adjacency import edge_differences
from tdegnn.edge_values import rectified_sums
from tdegnn.graph import Graph, State
from tdegnn.operators.diffusion import normalize_nodes
from tdegnn.operators.mixing_operator import FirstState, MixingOperator


class CdeOperator(MixingOperator):
    """Convection and diffusion, `s = sg(a) ([F, BN(V) W_h + BN(G F) W_l] W_2 + e - F) + b F_0`.

    `V_i = F_i * sum_j relu((F_j - F_i) W)`, where a node that receives nothing has zero. a and b start at 0. BN is
    batch norm over nodes (and batch). Weights of edges count in a constant G only.

    Paper: `s = (A - I) F + sum_j V_ij * F_j`. Deviation: as released, convection takes the node's own state
    `F_i` in place of the neighbor's, both terms pass through batch norm and linear maps beside F, and `F_0` has no
    gradient. Of the released ways to diffuse, this is the attention of GRAND, not of GAT or by gradient norms.

    Args:
        channels: Channels of a state.
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether G has self-loops. Default: False, as released.
    """

    equation: ClassVar[str] = (
        "sg(a) ([F, BN(F_i sum_j relu((F_j - F_i) W)) W_h + BN(G F) W_l] W_2 - F) + b F0, G = attention of F"
    )
    citation: ClassVar[str] = "Zhao et al., 2023, Graph Neural Convection-Diffusion with Heterophily"

    def __init__(
        self, channels: int, *, mixing: str | Mapping[str, Any] = "attention", self_loops: bool = False
    ) -> None:
        super().__init__(channels, mixing=mixing, self_loops=self_loops)
        self.source_scale = nn.Parameter(torch.zeros(()))
        self.difference_map, self.convection_map, self.diffusion_map = (
            nn.Linear(channels, channels, bias=False) for _ in range(3)
        )
        self.joint_map = nn.Linear(2 * channels, channels)
        self.convection_norm, self.diffusion_norm = (nn.BatchNorm1d(channels) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, and start with `a = b = 0`."""
        super().reset_parameters()
        nn.init.zeros_(self.source_scale)
        for part in (self.difference_map, self.convection_map, self.diffusion_map, self.joint_map):
            part.reset_parameters()
        nn.init.xavier_normal_(self.joint_map.weight, gain=2**0.5)
        for norm in (self.convection_norm, self.diffusion_norm):
            norm.reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return the rate, and the first state."""
        first = self._look_back(state, graph, context)
        diffusion = self.mixing.mix(self.mixing.weigh(state, graph), state, graph)
        moved = self.convection_map(normalize_nodes(self.convection_norm, self._convection(state, graph)))
        moved = moved + self.diffusion_map(normalize_nodes(self.diffusion_norm, diffusion))
        target = self.joint_map(torch.cat([state, moved], dim=-1))
        return torch.sigmoid(self.raw_rate) * (target - state) + self.source_scale * first.state, first

    def _keep(self, first: State, graph: Graph) -> FirstState:  # noqa: ARG002
        return FirstState(first.detach())

    def _convection(self, state: State, graph: Graph) -> State:
        """Return `F_i * sum_j relu((F_j - F_i) W)`. The relu needs all channels on the edges."""
        graph.check_state(state)
        differences, sums = edge_differences(graph, state)
        # The own state is the same in all terms of the sum.
        return state * rectified_sums(differences, sums, self.difference_map(state))
