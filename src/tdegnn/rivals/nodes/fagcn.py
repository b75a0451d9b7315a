"""FAGCN (Bo et al., 2021): neighbors may be added or subtracted.

`F[l+1]_i = eps F[0]_i + sum_j tanh(g [F_i, F_j]) F_j / sqrt(d_i d_j)` over what node i receives, d being how much that
is; a linear map and relu before the layers, a linear map after them. The sum is PyG's `FAConv`. As published, and not
as `FAConv` does by itself, there are no self-loops. Edge weights are not used.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import FAConv

from tdegnn.errors import check_finite
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, NodeNetwork, apply_linear
from tdegnn.rivals.series.adjacency import scaled_messages


class FrequencyAdaptiveNetwork(NodeNetwork):
    """Signed attention over neighbors, with the first state added in each layer.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        hidden_channels: Channels of a state.
        num_layers: Number of layers.
        eps: Weight of the first state.
        outer_dropout: Part of the input that is dropped in training.
        hidden_dropout: Part of the first state, and of the messages of each layer, that is dropped in training.
        seed: Seed of the dropout.
    """

    eps: Tensor

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        *,
        eps: float = 0.3,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        check_finite(eps=eps)
        self._register_setting("eps", eps)
        self.embedding = nn.Linear(num_features, hidden_channels)
        # Their own eps is a number and not a buffer: it is zero, and ours is added outside.
        self.operator = nn.ModuleList(FAConv(hidden_channels, eps=0.0, normalize=False) for _ in range(num_layers))
        self.readout = nn.Linear(hidden_channels, num_outputs)
        self.reset_parameters()

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        state = drop.hidden(torch.relu(apply_linear(self.embedding, drop.input(features))))
        first = state
        edges, scales = scaled_messages(graph, state)
        for convolution in self.operator:
            # A message is its attention times its scale: to drop one is to drop the other.
            received = convolution(state, first, edges, drop.hidden(scales))
            state = received + self.eps.to(state.dtype) * first
        outputs: Tensor = self.readout(state)
        return outputs
