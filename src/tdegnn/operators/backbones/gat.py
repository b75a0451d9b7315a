"""The layer of the graph attention network (Velickovic et al., 2018).

`B(F)_i = elu(sum_j a_ij F_j W_l + b_l)` per head, with
`a_ij = softmax_j(leaky_relu(u . F_i W_l + v . F_j W_l))` over the nodes j that node i receives from, and itself. Heads
are concatenated. The context is handed on untouched.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional

from tdegnn.adjacency import pattern_of
from tdegnn.edge_values import edge_sums, row_softmax, weighted_product
from tdegnn.errors import InputError, check_count, check_fits, check_layer
from tdegnn.graph import Graph, State
from tdegnn.operators.rate_of import Backbone

NEGATIVE_SLOPE = 0.2


class GatBackbone(Backbone):
    """Attention over neighbors, `B(F)_i = elu(sum_j a_ij F_j W_l + b_l)` with heads concatenated.

    The weights of edges are not used. A node without edges attends to itself. Weights start as in PyG's `GATConv`.

    Paper: Velickovic et al. (2018), eqs. 1 to 5. Deviation: the published network averages the heads of its last layer
    and drops attention weights. Here all layers concatenate, and the network drops states only.

    Args:
        channels: Channels of a state, which the heads share.
        num_layers: Number of layers, each with its own map and attention.
        num_heads: Number of heads, which must divide `channels`. Default: 4.
    """

    equation: ClassVar[str] = (
        "elu(sum_j a_ij F_j W_l + b_l) per head, a_ij = softmax_j(leaky_relu(u . F_i W_l + v . F_j W_l))"
    )
    citation: ClassVar[str] = "Velickovic et al., 2018, Graph Attention Networks"

    def __init__(self, channels: int, num_layers: int, *, num_heads: int = 4) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers, num_heads=num_heads)
        if channels < num_heads:
            raise InputError(
                f"Expected at least {num_heads} channels, one per head, got {channels}. Use fewer heads: num_heads=1."
            )
        if channels % num_heads:
            raise InputError(
                f"Expected channels to be a multiple of the {num_heads} heads, got {channels}. Change one of them."
            )
        self.channels, self.num_layers, self.num_heads = channels, num_layers, num_heads
        self.maps = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(num_layers))
        vectors = (num_layers, num_heads, channels // num_heads)
        self.receiver_vectors = nn.Parameter(torch.empty(vectors))
        self.sender_vectors = nn.Parameter(torch.empty(vectors))
        self.bias = nn.Parameter(torch.empty(num_layers, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in self.maps:
            nn.init.xavier_uniform_(cast(nn.Linear, linear).weight)
        for vectors in (*self.receiver_vectors, *self.sender_vectors):
            nn.init.xavier_uniform_(vectors)
        nn.init.zeros_(self.bias)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `elu(sum_j a_ij F_j W_l + b_l)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.bias, self.channels)
        pattern = pattern_of(graph, state, self_loops=True)
        # Heads are a batch axis: (*batch, heads, nodes, channels of a head).
        mapped = self.maps[layer](state).unflatten(-1, (self.num_heads, -1)).movedim(-2, -3)
        receivers, senders = (
            torch.sum(mapped * vectors[layer][:, None], dim=-1)
            for vectors in (self.receiver_vectors, self.sender_vectors)
        )
        scores = functional.leaky_relu(edge_sums(pattern, receivers, senders), NEGATIVE_SLOPE)
        received = weighted_product(pattern, row_softmax(pattern, scores), mapped)
        return functional.elu(received.movedim(-3, -2).flatten(-2) + self.bias[layer]), context
