"""The layer of Dir-GNN (Rossi et al., 2023), `B(F) = unit(act(Q F W_l + b_l))`.

`Q = D_out^-1/2 A D_in^-1/2` for a graph of direction `out`: a node receives from those it points to, without itself.
With exponents of -1/4 and the absolute value for `act` it is the core of FaberNet (Koke & Cremers, 2024). The context
is handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast, get_args

import torch
from torch import Tensor, nn

from tdegnn.adjacency import scaled_matrix
from tdegnn.errors import InputError, check_choice, check_count, check_finite, check_fits, check_layer
from tdegnn.graph import Direction, Graph, State
from tdegnn.operators.activations import ACTIVATIONS
from tdegnn.operators.rate_of import Backbone
from tdegnn.operators.unit_length import unit_length
from tdegnn.sparse import SparseMatrix

_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class DirGnnBackbone(Backbone):
    """A convolution along the edges, scaled to unit length, `B(F) = unit(act(Q F W_l + b_l))`.

    `Q = D_r^a A' D_c^b`, where D_r and D_c are the row and column sums of A'. With `alpha` below 1 a node also receives
    against its direction: `B(F) = unit(act(alpha (Q F W_l + b_l) + (1 - alpha) (Q' F V_l + d_l)))`, where Q' is Q of
    the opposite direction. For a graph of direction `both`, Q' is Q.

    The weights of edges are used. A node that receives nothing gets `unit(act(b_l))`, and zero if that is zero.

    Paper: Rossi et al. (2023), section 4. The defaults are those of the released settings for Chameleon and Squirrel,
    where the direction is `out` and `alpha` is 1. Deviation: the first layer of the published network propagates the
    features themselves. Here they are embedded first.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own map.
        row_exponent: a. Default: -0.5.
        column_exponent: b. Default: -0.5.
        activation: `"relu"`, `"absolute"` (FaberNet) or `"identity"`. Default: `"relu"`.
        direction: Whose states a node receives. If None, that of the graph.
        alpha: Weight of this direction, from 0 to 1; the opposite one has the rest. Default: 1.
    """

    alpha: Tensor
    equation: ClassVar[str] = "unit(act(Q F W_l + b_l)), Q = D_r^a A' D_c^b"
    citation: ClassVar[str] = "Rossi et al., 2023, Edge Directionality Improves Learning on Heterophilic Graphs"

    def __init__(
        self,
        channels: int,
        num_layers: int,
        *,
        row_exponent: float = -0.5,
        column_exponent: float = -0.5,
        activation: str = "relu",
        direction: Direction | None = None,
        alpha: float = 1.0,
    ) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(row_exponent=row_exponent, column_exponent=column_exponent)
        check_choice(ACTIVATIONS, activation=activation)
        if direction is not None:
            check_choice(get_args(Direction), direction=direction)
        check_finite(alpha=alpha)
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"Expected alpha to be from 0 to 1, got {alpha}.")
        self.channels, self.num_layers = channels, num_layers
        self.row_exponent, self.column_exponent = row_exponent, column_exponent
        self.activation, self.direction = activation, direction
        # A buffer, so that networks trained together may differ in it; in float64, so that no digit is lost.
        self.register_buffer("alpha", torch.tensor(alpha, dtype=torch.float64), persistent=False)
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))
        num_opposite = num_layers if alpha < 1.0 else 0
        self.opposite_maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_opposite))

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `unit(act(Q F W_l + b_l))`."""
        check_layer(layer, self.num_layers)
        check_fits(state, cast(nn.Linear, self.maps[layer]).weight, self.channels)
        direction = self.direction or graph.direction
        mixed = self.maps[layer](self._matrix(graph, state, direction) @ state)
        if self.opposite_maps:
            opposite = self.opposite_maps[layer](self._matrix(graph, state, _OPPOSITE[direction]) @ state)
            mixed = torch.lerp(opposite, mixed, self.alpha.to(state.dtype))
        return unit_length(ACTIVATIONS[self.activation](mixed)), context

    def _matrix(self, graph: Graph, like: Tensor, direction: Direction) -> SparseMatrix:
        return scaled_matrix(graph, like, self.row_exponent, self.column_exponent, direction=direction)
