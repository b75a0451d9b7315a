"""GCNII (Chen et al., 2020): deep convolutions that keep hold of the first state and stay near the identity.

`F[l+1] = relu(H ((1 - b_l) I + b_l W_l))`, `H = (1 - a) P F[l] + a F[0]`, `b_l = log(theta / l + 1)`, l from 1 on, with
a linear map and relu before the layers and a linear map after them; P is that of `rivals/nodes/gcn.py`. PyG's `GCN2Conv` is the
same for one layer; here a and theta are buffers, so that networks that differ in them can be trained together.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, NodeNetwork, apply_linear
from tdegnn.rivals.series.adjacency import convolution_matrix


class InitialResidualNetwork(NodeNetwork):
    """Convolutions with initial residual and identity mapping.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        hidden_channels: Channels of a state.
        num_layers: Number of convolutions.
        alpha: Part a of the first state in each layer, from 0 to 1.
        theta: How far the layers are from the identity; called lambda in the paper. Positive.
        outer_dropout: Part of the input, and of the last state, that is dropped in training.
        hidden_dropout: Part of the state that is dropped before each layer in training.
        seed: Seed of the dropout.
    """

    alpha: Tensor
    theta: Tensor

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        *,
        alpha: float = 0.1,
        theta: float = 0.5,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"Expected alpha to be from 0 to 1, got {alpha}.")
        if not theta > 0.0:
            raise InputError(f"Expected theta to be positive, got {theta}.")
        self._register_setting("alpha", alpha)
        self._register_setting("theta", theta)
        self.embedding = nn.Linear(num_features, hidden_channels)
        self.operator = nn.ModuleList(
            nn.Linear(hidden_channels, hidden_channels, bias=False) for _ in range(num_layers)
        )
        self.readout = nn.Linear(hidden_channels, num_outputs)
        self.reset_parameters()

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
