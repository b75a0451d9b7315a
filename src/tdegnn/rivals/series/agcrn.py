"""AGCRN (Bai et al., 2020): a GRU whose convolutions learn the graph, and have weights of their own for each node.

`conv(F) = (I + softmax(relu(E E^T))) F (E W) + E b`, the softmax over rows, E one learned embedding a node, with which
a node picks its weights from the pool W. Gates and readout are those of `rivals/series/recurrent.py`. The edges of the graph are
not looked at, and the network is bound to the nodes it was made for.

Deviation: the paper stacks two such layers; here is one, as in the other rivals.
"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import check_count
from tdegnn.graph import Graph
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.rivals.series.recurrent import RecurrentNetwork, run_gru


class AdaptiveRecurrentNetwork(RecurrentNetwork):
    """A GRU with node-adaptive convolutions.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        embedding_channels: Channels of the embedding of a node.
        dropout: Part of the last state that is dropped in training.
        seed: Seed of the dropout.
    """

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        *,
        embedding_channels: int = 10,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        check_count(embedding_channels=embedding_channels)
        self.embedding = nn.Parameter(torch.empty(sizes.num_nodes, embedding_channels))
        self.input_pool = nn.Parameter(torch.empty(embedding_channels, sizes.num_channels, 3 * hidden_channels))
        self.bias_pool = nn.Parameter(torch.empty(embedding_channels, 3 * hidden_channels))
        self.gate_pool = nn.Parameter(torch.empty(embedding_channels, hidden_channels, 2 * hidden_channels))
        self.candidate_pool = nn.Parameter(torch.empty(embedding_channels, hidden_channels, hidden_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew: embeddings of length one or so, so that a node's weights are as large as a pool's."""
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
        """`E W`, the weights of each node."""
        return torch.einsum("ne,eio->nio", self.embedding, pool)


def _convolve(
    state: Float[Tensor, "*batch nodes in_channels"],
    adjacency: Float[Tensor, "nodes nodes"],
    weights: Float[Tensor, "nodes in_channels out_channels"],
) -> Float[Tensor, "*batch nodes out_channels"]:
    """`(I + A) F W`, with another W for each node."""
    return torch.einsum("...ni,nio->...no", state + adjacency @ state, weights)
