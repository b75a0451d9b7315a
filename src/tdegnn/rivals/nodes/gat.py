"""The graph attention network (Velickovic et al., 2018), `F[l+1]_i = elu(sum_j a_ij W_l F[l]_j + b_l)` per head.

`a_ij = softmax_j(leaky_relu(u W F_i + v W F_j))` over the nodes that node i receives from, and itself. Heads are
concatenated, and averaged in the last layer. Edge weights are not used. Layers are PyG's `GATConv`; its forward pass is
written out here, so that features stay sparse and the attention is dropped, as published, by our masks.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv

from tdegnn.adjacency import looped_messages
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.node_network import Features
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.sparse import SparseMatrix


class GraphAttentionNetwork(RivalNodeNetwork):
    """Attention over neighbors.

    Hidden dropout applies to the input of every layer but the first, and to the attention.

    Args:
        num_heads: Heads per layer, which share the hidden channels. Default: 8.
    """

    equation = "F[l+1]_i = elu(sum_j a_ij W_l F[l]_j + b_l), a_ij = softmax_j(leaky_relu(u W F_i + v W F_j))"
    citation = "Velickovic et al., 2018, Graph attention networks"

    def _make_layers(self, num_heads: int = 8) -> None:
        check_count(num_heads=num_heads)
        if self.hidden_channels % num_heads:
            raise InputError(
                f"Expected hidden_channels to be a multiple of the {num_heads} heads, got {self.hidden_channels}. "
                "Change one of them."
            )
        *inner_sizes, last_size = self._state_sizes[:-1]
        width = self.hidden_channels // num_heads
        self.convolutions = nn.ModuleList(
            [
                *[GATConv(size, width, num_heads, add_self_loops=False) for size in inner_sizes],
                GATConv(last_size, self.num_outputs, num_heads, concat=False, add_self_loops=False),
            ]
        )

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.convolutions
        edges = looped_messages(graph, self.seed)
        state = _attend(first, drop.input(features), edges, drop)
        for convolution in others:
            state = _attend(convolution, drop.hidden(functional.elu(state)), edges, drop)
        return state


def _attend(
    convolution: GATConv, state: SparseMatrix | Tensor, edges: Int[Tensor, "2 messages"], drop: PassDropout
) -> Float[Tensor, "nodes channels"]:
    """Compute the forward pass of `GATConv`, for dense and sparse states."""
    # Shape (nodes, heads, channels of a head).
    mapped = (state @ convolution.lin.weight.T).unflatten(1, (convolution.heads, convolution.out_channels))
    scores = [torch.sum(mapped * vector, dim=-1) for vector in (convolution.att_src, convolution.att_dst)]
    attention = convolution.edge_updater(edges, alpha=tuple(scores), edge_attr=None)
    received = convolution.propagate(edges, x=(mapped, mapped), alpha=drop.hidden(attention))
    joined = received.flatten(1) if convolution.concat else received.mean(dim=1)
    answer: Tensor = joined + convolution.bias
    return answer
