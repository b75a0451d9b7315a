"""LINKX (Lim et al., 2021): adjacency rows and features, each through a linear map, joined by a perceptron.

`H_A = A' W_A`, `H_X = X W_X`, `scores = MLP(relu(W [H_A, H_X] + H_A + H_X))`, with batch norm after the relu of each
hidden layer of the MLP. The same as PyG's `LINKX`, written anew because that takes neither sparse features nor masks
from outside. A weight belongs to a node: the network is bound to the graph it was made for.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, NodeNetwork, apply_linear
from tdegnn.rivals.series.adjacency import received_matrix


class LinkxNetwork(NodeNetwork):
    """Adjacency rows and features to scores.

    Args:
        num_features: Features of a node.
        num_outputs: Numbers a node gets: classes, or targets of a regression.
        num_nodes: Nodes of the graph.
        hidden_channels: Channels between layers.
        num_layers: Layers of the last perceptron, the readout included.
        outer_dropout: Part of the input, features and edges, that is dropped in training; published with 0.
        hidden_dropout: Part of the states of the last perceptron that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        num_nodes: int,
        hidden_channels: int,
        num_layers: int,
        *,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(num_features, num_outputs, hidden_channels, num_layers, outer_dropout, hidden_dropout, seed)
        check_count(num_nodes=num_nodes)
        self.num_nodes = num_nodes
        self.adjacency_map = nn.Linear(num_nodes, hidden_channels)
        self.feature_map = nn.Linear(num_features, hidden_channels)
        self.joint_map = nn.Linear(2 * hidden_channels, hidden_channels)
        self.hidden_maps = nn.ModuleList(nn.Linear(hidden_channels, hidden_channels) for _ in range(num_layers - 1))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden_channels) for _ in range(num_layers - 1))
        self.readout = nn.Linear(hidden_channels, num_outputs)
        self.reset_parameters()

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
        joined = self.joint_map(torch.cat([from_adjacency, from_features], dim=-1))
        state = torch.relu(joined + from_adjacency + from_features)
        for linear, norm in zip(self.hidden_maps, self.norms, strict=True):
            state = drop.hidden(norm(torch.relu(linear(state))))
        outputs: Tensor = self.readout(state)
        return outputs
