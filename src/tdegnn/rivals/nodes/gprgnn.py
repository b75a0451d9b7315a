"""GPRGNN (Chien et al., 2021): a perceptron, and then a learned sum over the hops of a convolution.

`scores = sum_k g_k P^k MLP(X)`, k from 0 to K, with P as in `gcn.py`. The weights g are learned. They start as those of
personalized PageRank, `g_k = a (1 - a)^k` and `g_K = (1 - a)^K`. Edge weights are used.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import convolution_matrix
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.rivals.nodes.hop_weights import HopWeights


class GeneralizedPageRankNetwork(RivalNodeNetwork):
    """A perceptron and a learned sum over hops.

    The layers are those of the perceptron, including its readout. Outer dropout applies to the input of each of them,
    hidden dropout to the scores before they are propagated. The weights g are the parameter group `spatial`, which as
    published has no weight decay. An isolated node receives from itself only.

    Args:
        num_hops: K, the number of hops. Default: 10.
        alpha: a, from 0 to 1. With 1, g starts at hop 0 alone; with 0, at hop K alone. Default: 0.1.
    """

    equation = "scores = sum_k g_k P^k MLP(X), k from 0 to K, g learned, P = D^-1/2 (A' + I) D^-1/2"
    citation = "Chien et al., 2021, Adaptive Universal Generalized PageRank Graph Neural Network"

    def _make_layers(self, num_hops: int = 10, alpha: float = 0.1) -> None:
        check_count(num_hops=num_hops)
        if not 0.0 <= alpha <= 1.0:
            raise InputError(f"Expected alpha to be from 0 to 1, got {alpha}.")
        self.first, *others = [nn.Linear(*sizes) for sizes in pairwise(self._state_sizes)]
        self.others = nn.ModuleList(others)
        start = (1.0 - alpha) ** torch.arange(num_hops + 1, dtype=torch.float64)
        start[:-1] *= alpha
        self.operator = HopWeights(start)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        state = apply_linear(self.first, drop.input(features))
        for linear in self.others:
            state = linear(drop.outer(torch.relu(state)))
        state = drop.hidden(state)
        matrix = convolution_matrix(graph, state)
        first_weight, *weights = self.operator.weights.unbind()
        scores = first_weight * state
        for weight in weights:
            state = matrix @ state
            scores = scores + weight * state
        return scores
