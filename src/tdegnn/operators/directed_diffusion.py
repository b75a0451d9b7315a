"""Diffusion along and against the edges, each with maps of its own.

`s = act(F W_self + sum_k (Q_out^k F W_out,k + Q_in^k F W_in,k) + b)`, k from 1 to K, with `Q_out = D_out^a A D_in^b`,
`Q_in = D_in^a A^T D_out^b`. Separate maps for the two directions as in Dir-GNN (Rossi et al., 2023), and K hops of both
as in DCRNN (Li et al., 2018). The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional

from tdegnn.adjacency import scaled_matrix
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_choice, check_count, check_finite, check_fits, check_layer
from tdegnn.graph import Direction, Graph, State
from tdegnn.operators.activations import ACTIVATIONS


class DirectedDiffusion(SpatialOperator):
    """Maps for self, out- and in-neighbors, `s = act(F W_self + sum_k (Q_out^k F W_out,k + Q_in^k F W_in,k) + b)`.

    It follows the edges as they are, whatever the direction of the graph: `out` and `in` have maps of their own, also
    for a graph of direction `both`. If each edge also goes the other way, `Q_in = Q_out`, and only the sum of the two
    maps counts.

    The weights of edges are used. A node receives zero along edges that it does not have.

    Deviation: Dir-GNN weighs the two directions by alpha and 1 - alpha, which their maps do here. In DCRNN the walks
    are inside the gates of a recurrent unit; here they are the rate.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
        num_hops: K. Default: 1.
        row_exponent: a, the exponent of the degrees of those who receive. Default: -0.5.
        column_exponent: b, the exponent of the degrees of those who send. Default: -0.5.
        activation: `"relu"`, `"absolute"` or `"identity"`. Default: `"relu"`.
    """

    equation: ClassVar[str] = (
        "act(F W_self + sum_k (Q_out^k F W_out,k + Q_in^k F W_in,k) + b), Q_out = D_out^a A D_in^b, "
        "Q_in = D_in^a A^T D_out^b"
    )
    citation: ClassVar[str] = (
        "Rossi et al., 2023, Edge Directionality Improves Learning on Heterophilic Graphs; Li et al., 2018, Diffusion "
        "Convolutional Recurrent Neural Network"
    )

    def __init__(
        self,
        channels: int,
        num_layers: int,
        *,
        num_hops: int = 1,
        row_exponent: float = -0.5,
        column_exponent: float = -0.5,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers, num_hops=num_hops)
        check_finite(row_exponent=row_exponent, column_exponent=column_exponent)
        check_choice(ACTIVATIONS, activation=activation)
        self.channels, self.num_layers, self.num_hops = channels, num_layers, num_hops
        self.reach = num_hops
        self.row_exponent, self.column_exponent, self.activation = row_exponent, column_exponent, activation
        # W_self, W_out,1 ... W_out,K, W_in,1 ... W_in,K side by side: one product for all.
        num_terms = 1 + 2 * num_hops
        self.maps = nn.ModuleList(nn.Linear(num_terms * channels, channels) for _ in range(num_layers))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in self.maps:
            cast(nn.Linear, linear).reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `act(F W_self + sum_k (Q_out^k F W_out,k + Q_in^k F W_in,k) + b)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, cast(nn.Linear, self.maps[layer]).weight, self.channels)
        terms = [state, *self._walk(state, graph, "out")]
        linear = cast(nn.Linear, self.maps[layer])
        if graph.is_symmetric:
            # Both directions are one: a product with the sum of the two maps.
            maps = linear.weight.chunk(1 + 2 * self.num_hops, dim=1)
            hops = range(1, self.num_hops + 1)
            weight = torch.cat([maps[0], *(maps[hop] + maps[self.num_hops + hop] for hop in hops)], dim=1)
            mapped = functional.linear(torch.cat(terms, dim=-1), weight, linear.bias)
        else:
            mapped = linear(torch.cat([*terms, *self._walk(state, graph, "in")], dim=-1))
        return ACTIVATIONS[self.activation](mapped), context

    def _walk(self, state: State, graph: Graph, direction: Direction) -> list[State]:
        """Return `Q F` to `Q^K F`, along or against the edges."""
        matrix = scaled_matrix(graph, state, self.row_exponent, self.column_exponent, direction=direction)
        walked = [matrix @ state]
        for _ in range(self.num_hops - 1):
            walked.append(matrix @ walked[-1])
        return walked
