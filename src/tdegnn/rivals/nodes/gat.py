"""The graph attention network (Velickovic et al., 2018), `F[l+1]_i = elu(sum_j a_ij W_l F[l]_j + b_l)` for each head.

`a_ij = softmax_j(leaky_relu(u W F_i + v W F_j))` over what node i receives and itself. Heads are joined, in the last
layer averaged. Layers are PyG's `GATConv`, taken apart so that features stay sparse and that the attention is dropped,
as published, by masks of ours. Edge weights are not used.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv

from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.node_network import Features, NodeNetwork
from tdegnn.rivals.series.adjacency import looped_messages
from tdegnn.sparse import SparseMatrix


class GraphAttentionNetwork(NodeNetwork):
    """Attention over neighbors.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        hidden_channels: Channels between layers, of all heads together.
        num_layers: Number of layers.
        num_heads: Heads of each layer; they share the hidden channels.
        outer_dropout: Part of the input that is dropped in training.
        hidden_dropout: Part of the input of every other layer, and of the attention, that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        *,
        num_heads: int = 8,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        check_count(num_heads=num_heads)
        if hidden_channels % num_heads:
            raise InputError(
                f"Expected hidden_channels to be a multiple of the {num_heads} heads, got {hidden_channels}. "
                "Change one of them."
            )
        *inner_sizes, last_size = self._state_sizes[:-1]
        width = hidden_channels // num_heads
        self.convolutions = nn.ModuleList(
            [
                *[GATConv(size, width, num_heads, add_self_loops=False) for size in inner_sizes],
                GATConv(last_size, num_outputs, num_heads, concat=False, add_self_loops=False),
            ]
        )
        self.reset_parameters()

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
    """The forward pass of `GATConv`, for dense and sparse states."""
    # Shape (nodes, heads, channels of a head).
    mapped = (state @ convolution.lin.weight.T).unflatten(1, (convolution.heads, convolution.out_channels))
    scores = [torch.sum(mapped * vector, dim=-1) for vector in (convolution.att_src, convolution.att_dst)]
    attention = convolution.edge_updater(edges, alpha=tuple(scores), edge_attr=None)
    received = convolution.propagate(edges, x=(mapped, mapped), alpha=drop.hidden(attention))
    joined = received.flatten(1) if convolution.concat else received.mean(dim=1)
    answer: Tensor = joined + convolution.bias
    return answer
