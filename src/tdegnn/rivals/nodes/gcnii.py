"""GCNII (Chen et al., 2020): deep convolutions that keep the first state in view and stay near the identity.

`F[l+1] = relu(H ((1 - b_l) I + b_l W_l))`, `H = (1 - a) P F[l] + a F[0]`, `b_l = log(theta / l + 1)`, l from 1 on, with
a linear map and relu before the layers and a linear map after them. P is that of `gcn.py`. One layer is the same as
PyG's `GCN2Conv`; here a and theta are buffers, so that networks that differ in them can be trained together.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.errors import InputError
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork


class InitialResidualNetwork(RivalNodeNetwork):
    """Convolutions with initial residual and identity mapping.

    Outer dropout applies to the last state too, hidden dropout to the state before each layer.

    Args:
        alpha: Weight a of the first state in each layer, from 0 to 1. Default: 0.1.
        theta: How far the layers are from the identity, positive; called lambda in the paper. Default: 0.5.
    """

    equation = "F[l+1] = relu(((1 - a) P F[l] + a F[0]) ((1 - b_l) I + b_l W_l)), b_l = log(theta / l + 1)"
    citation = "Chen et al., 2020, Simple and deep graph convolutional networks"

    alpha: Tensor
    theta: Tensor

    def _make_layers(self, alpha: float = 0.1, theta: float = 0.5) -> None:
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"Expected alpha to be from 0 to 1, got {alpha}.")
        if not theta > 0.0:
            raise InputError(f"Expected theta to be positive, got {theta}.")
        self._register_setting("alpha", alpha)
        self._register_setting("theta", theta)
        channels = self.hidden_channels
        self.embedding = nn.Linear(self.num_features, channels)
        self.operator = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(self.num_layers))
        self.readout = nn.Linear(channels, self.num_outputs)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        state = torch.relu(apply_linear(self.embedding, drop.input(features)))
        first, matrix = state, convolution_matrix(graph, state)
        for depth, linear in enumerate(self.operator, start=1):
            mixed = torch.lerp(matrix @ drop.hidden(state), first, self.alpha.to(state.dtype))
            identity_gap = torch.log(self.theta / depth + 1.0).to(state.dtype)
            state = torch.relu(torch.lerp(mixed, linear(mixed), identity_gap))
        outputs: Tensor = self.readout(drop.outer(state))
        return outputs
