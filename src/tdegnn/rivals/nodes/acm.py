"""ACM and ACMII (Luan et al., 2022) as published: layers from the features to the classes, without maps at the ends.

`F[l+1] = relu(B_l(F[l]))` with the layers B of `operators/backbones/acm.py`. The last layer has no relu. As the rate of
a differential equation, the same layers need an input map and a readout around them.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import received_matrix
from tdegnn.errors import check_num_nodes
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features
from tdegnn.operators.backbones.acm import filtered_parts, mixed_parts
from tdegnn.rivals.nodes.base import RivalNodeNetwork


class AdaptiveChannelNetwork(RivalNodeNetwork):
    """Smooth, different and own parts, mixed per node in every layer.

    Outer dropout applies to the input, hidden dropout to the input of the other layers (published: the same rate).

    Deviation: the published graphs have no direction. Here low follows that of the graph.

    Args:
        relu_first: Whether the relu comes before the filters: ACMII (default), not ACM.
        with_rows: Whether there is a fourth part from the rows of the adjacency matrix, the variants with "+". Default:
            False.
    """

    equation = (
        "F[l+1] = 3 (a_L low relu(F W_L) + a_H high relu(F W_H) + a_I relu(F W_I)), low = D^-1 (A' + I), "
        "high = I - low, a = softmax(sigmoid(H_k . v_k) V / 3)"
    )
    citation = "Luan et al., 2022, Revisiting Heterophily For Graph Neural Networks"

    def _make_layers(self, *, relu_first: bool = True, with_rows: bool = False) -> None:
        num_nodes = self.num_nodes if with_rows else None
        self.layers = nn.ModuleList(_AcmLayer(*sizes, num_nodes, relu_first) for sizes in pairwise(self._state_sizes))

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first, *others = self.layers
        state: Tensor = first(drop.input(features), graph)
        for later in others:
            state = later(drop.hidden(torch.relu(state)), graph)
        return state


class _AcmLayer(nn.Module):
    """B, from `num_inputs` channels to `num_outputs`. With `num_nodes`, it has a fourth part."""

    def __init__(self, num_inputs: int, num_outputs: int, num_nodes: int | None, relu_first: bool) -> None:
        super().__init__()
        self.num_outputs, self.num_nodes, self.relu_first = num_outputs, num_nodes, relu_first
        num_parts = 3 if num_nodes is None else 4
        self.weight = nn.Parameter(torch.empty(num_inputs, 3 * num_outputs))  # W_L, W_H and W_I side by side
        self.part_vectors = nn.Parameter(torch.empty(num_parts, num_outputs))
        self.part_mixing = nn.Parameter(torch.empty(num_parts, num_parts))
        if num_nodes is not None:
            self.row_weight = nn.Parameter(torch.empty(num_nodes, num_outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, from the ranges of the released code."""
        own_bounds = {"part_vectors": 1.0, "part_mixing": len(self.part_mixing) ** -0.5}
        for name, parameter in self.named_parameters():
            bound = own_bounds.get(name, self.num_outputs**-0.5)
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, state: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        mapped: Tensor = state @ self.weight
        parts = filtered_parts(mapped, graph, relu_first=self.relu_first)
        if self.num_nodes is None:
            return mixed_parts(parts, self.part_vectors, self.part_mixing, 3.0)
        check_num_nodes(graph.num_nodes, self.num_nodes)
        rows = torch.relu(received_matrix(graph, mapped) @ self.row_weight)
        return mixed_parts([*parts, rows.expand_as(parts[0])], self.part_vectors, self.part_mixing, 1.0)
