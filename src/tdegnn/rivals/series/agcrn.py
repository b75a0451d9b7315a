"""AGCRN (Bai et al., 2020): a GRU whose convolutions learn the graph, and have weights of their own for each node.

`conv(F) = (I + softmax(relu(E E^T))) F (E W) + E b`, the softmax over rows. E is one learned embedding per node, which
picks the weights of the node from the pool W. The gates are those of `recurrent.py`. The edges of the graph are not
used, and the network is bound to the nodes it was made for.

Deviation: the paper stacks two such layers; here is one, as in the other rivals.
"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames
from tdegnn.rivals.series.base import RivalSeriesNetwork
from tdegnn.rivals.series.recurrent import run_gru


class AdaptiveRecurrentNetwork(RivalSeriesNetwork):
    """A GRU with node-adaptive convolutions.

    Args:
        embedding_channels: Channels of the embedding of a node. Default: 10.
    """

    def _make_layers(self, embedding_channels: int = 10) -> None:
        check_count(embedding_channels=embedding_channels)
        sizes, channels = self.sizes, self.hidden_channels
        self.embedding = nn.Parameter(torch.empty(sizes.num_nodes, embedding_channels))
        self.input_pool = nn.Parameter(torch.empty(embedding_channels, sizes.num_channels, 3 * channels))
        self.bias_pool = nn.Parameter(torch.empty(embedding_channels, 3 * channels))
        self.gate_pool = nn.Parameter(torch.empty(embedding_channels, channels, 2 * channels))
        self.candidate_pool = nn.Parameter(torch.empty(embedding_channels, channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew. Embeddings have a length of about 1, so that weights are as large as in the pools."""
        super().reset_parameters()
        nn.init.normal_(self.embedding, std=self.embedding.shape[1] ** -0.5)
        for pool in (self.input_pool, self.gate_pool, self.candidate_pool):
            bound = pool.shape[1] ** -0.5
            nn.init.uniform_(pool, -bound, bound)
        nn.init.zeros_(self.bias_pool)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        learned = torch.softmax(torch.relu(self.embedding @ self.embedding.T), dim=-1)
        convolve = partial(_convolve, adjacency=learned)
        states = run_gru(
            convolve(frames.window, weights=self._pick(self.input_pool)) + self.embedding @ self.bias_pool,
            partial(convolve, weights=self._pick(self.gate_pool)),
            partial(convolve, weights=self._pick(self.candidate_pool)),
        )
        return self._read(frames, drop.hidden(states[:, -1]))

    def _pick(self, pool: Float[Tensor, "embedding_channels _ _"]) -> Float[Tensor, "nodes _ _"]:
        """Return `E W`, the weights of each node."""
        return torch.einsum("ne,eio->nio", self.embedding, pool)


def _convolve(
    state: Float[Tensor, "*batch nodes in_channels"],
    adjacency: Float[Tensor, "nodes nodes"],
    weights: Float[Tensor, "nodes in_channels out_channels"],
) -> Float[Tensor, "*batch nodes out_channels"]:
    """Return `(I + A) F W`, with another W for each node."""
    return torch.einsum("...ni,nio->...no", state + adjacency @ state, weights)
