"""LINKX (Lim et al., 2021): adjacency rows and features, each through a map of their own, joined by a perceptron.

`H_A = MLP_A(A')`, `H_X = MLP_X(X)`, `scores = MLP(relu(W [H_A, H_X] + H_A + H_X))`, with batch norm after the relu of
each hidden layer of an MLP. The same as PyG's `LINKX`, which takes neither sparse features nor our dropout masks.
Weights belong to nodes, so the network is bound to the graph it was made for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import received_matrix
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph, State
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork


class LinkxNetwork(RivalNodeNetwork):
    """Adjacency rows and features to scores.

    The layers are those of the last perceptron, including the readout; hidden dropout applies to the states of all
    perceptrons. Outer dropout applies to features and edges (published: 0).

    Args:
        num_input_layers: Layers of the maps of adjacency rows and of features. Published: 1 or 2. Default: 1, which is
            a linear map.
    """

    equation = "scores = MLP(relu(W [H_A, H_X] + H_A + H_X)), H_A = MLP_A(A'), H_X = MLP_X(X)"
    citation = "Lim et al., 2021, Large scale learning on non-homophilous graphs"

    def _make_layers(self, num_input_layers: int = 1) -> None:
        check_count(num_input_layers=num_input_layers)
        channels, num_hidden = self.hidden_channels, self.num_layers - 1
        self.adjacency_map = nn.Linear(self.num_nodes, channels)
        self.feature_map = nn.Linear(self.num_features, channels)
        self.deeper_adjacency_maps = nn.ModuleList(DeeperLayer(channels) for _ in range(num_input_layers - 1))
        self.deeper_feature_maps = nn.ModuleList(DeeperLayer(channels) for _ in range(num_input_layers - 1))
        self.joint_map = nn.Linear(2 * channels, channels)
        self.hidden_maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_hidden))
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(num_hidden))
        self.readout = nn.Linear(channels, self.num_outputs)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        if graph.num_nodes != self.num_nodes:
            raise InputError(
                f"Expected a graph of {self.num_nodes} nodes, each with weights of its own, got {graph.num_nodes}. "
                "Make a network for this graph."
            )
        drop = self._start(features, graph)
        adjacency = received_matrix(graph, self.adjacency_map.weight)
        from_adjacency = apply_linear(self.adjacency_map, drop.input(adjacency))
        from_features = apply_linear(self.feature_map, drop.input(features))
        for deeper in self.deeper_adjacency_maps:
            from_adjacency = deeper(from_adjacency, drop.hidden)
        for deeper in self.deeper_feature_maps:
            from_features = deeper(from_features, drop.hidden)
        joined = self.joint_map(torch.cat([from_adjacency, from_features], dim=-1))
        state = torch.relu(joined + from_adjacency + from_features)
        for linear, norm in zip(self.hidden_maps, self.norms, strict=True):
            state = drop.hidden(norm(torch.relu(linear(state))))
        outputs: Tensor = self.readout(state)
        return outputs


class DeeperLayer(nn.Module):
    """A layer of an input map after its first: batch norm of what the relu leaves, dropout, and a linear map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)
        self.linear = nn.Linear(channels, channels)

    def forward(self, state: State, drop: Callable[[State], State]) -> State:
        """Return the next state."""
        answer: State = self.linear(drop(self.norm(torch.relu(state))))
        return answer
