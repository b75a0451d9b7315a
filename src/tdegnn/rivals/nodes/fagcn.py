"""FAGCN (Bo et al., 2021): neighbors may be added or subtracted.

`F[l+1]_i = eps F[0]_i + sum_j tanh(g [F_i, F_j]) F_j / sqrt(d_i d_j)` over the nodes that node i receives from, with d
the number of these nodes; a linear map and relu before the layers, a linear map after them. The sum is PyG's `FAConv`,
without the self-loops that it adds by default and the publication does not have. Edge weights are not used.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import FAConv

from tdegnn.adjacency import scaled_messages
from tdegnn.errors import check_finite
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork


class FrequencyAdaptiveNetwork(RivalNodeNetwork):
    """Signed attention over neighbors, with the first state added in each layer.

    Hidden dropout applies to the first state and to the messages of each layer.

    Args:
        eps: Weight of the first state. Default: 0.3.
    """

    equation = "F[l+1]_i = eps F[0]_i + sum_j tanh(g [F_i, F_j]) F_j / sqrt(d_i d_j)"
    citation = "Bo et al., 2021, Beyond low-frequency information in graph convolutional networks"

    eps: Tensor

    def _make_layers(self, eps: float = 0.3) -> None:
        check_finite(eps=eps)
        self._register_setting("eps", eps)
        channels = self.hidden_channels
        self.embedding = nn.Linear(self.num_features, channels)
        # The eps of `FAConv` is a number and not a buffer. It is zero here, and ours is added outside.
        self.operator = nn.ModuleList(FAConv(channels, eps=0.0, normalize=False) for _ in range(self.num_layers))
        self.readout = nn.Linear(channels, self.num_outputs)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        state = drop.hidden(torch.relu(apply_linear(self.embedding, drop.input(features))))
        first = state
        edges, scales = scaled_messages(graph, state)
        for convolution in self.operator:
            # A message is its attention times its scale, so dropping the scale drops the message.
            received = convolution(state, first, edges, drop.hidden(scales))
            state = received + self.eps.to(state.dtype) * first
        outputs: Tensor = self.readout(state)
        return outputs
