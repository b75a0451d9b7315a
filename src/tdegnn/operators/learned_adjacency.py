"""A term for graphs that are not known: `s(F) = relu(F U_l + (G F) W_l + b_l)`, `G = softmax(relu(E_1 E_2^T))`.

The adaptive adjacency of Wu et al. (2019), Graph WaveNet: two learned embeddings per node, one as receiver and one as
sender. G has a number for each pair of nodes and is computed once per forward pass, in the first layer. The graph that
is given is not used.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_count, check_fits, check_layer, check_num_nodes
from tdegnn.graph import Graph, State

# G takes 4 bytes per pair of nodes and member, and its gradient several times as much: 100 MB for this many nodes.
MOST_NODES = 5000


class LearnedAdjacency(NamedTuple):
    """The context of `LearnedAdjacencyOperator`.

    Attributes:
        matrix: G. Row i weighs what node i receives.
    """

    matrix: Float[Tensor, "nodes nodes"]


class LearnedAdjacencyOperator(SpatialOperator):
    """A learned graph, `s(F) = relu(F U_l + (G F) W_l + b_l)` with `G = softmax(relu(E_1 E_2^T))` by rows.

    Deviation: Graph WaveNet adds this to convolutions on a given graph, with gates over time. Here it is the whole
    term, with maps for a node and for what it receives, in each layer.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
        num_nodes: Number of nodes, at most 5,000: G has a number for each pair of them.
        embedding_channels: Channels of the embeddings of nodes. Default: 8.
    """

    is_bound_to_nodes: ClassVar[bool] = True
    reach = None
    equation: ClassVar[str] = "relu(F U_l + (G F) W_l + b_l), G = softmax(relu(E1 E2^T)), E learned"
    citation: ClassVar[str] = "Wu et al., 2019, Graph WaveNet for Deep Spatial-Temporal Graph Modeling"

    def __init__(self, channels: int, num_layers: int, num_nodes: int, *, embedding_channels: int = 8) -> None:
        super().__init__()
        check_count(
            channels=channels, num_layers=num_layers, num_nodes=num_nodes, embedding_channels=embedding_channels
        )
        if num_nodes > MOST_NODES:
            raise InputError(
                f"Expected at most {MOST_NODES} nodes for a learned adjacency, which has a number for each pair, got "
                f"{num_nodes}. Use an operator on a given graph, such as 'diffusion'."
            )
        self.channels, self.num_layers, self.num_nodes = channels, num_layers, num_nodes
        self.receivers, self.senders = (nn.Parameter(torch.empty(num_nodes, embedding_channels)) for _ in range(2))
        self.state_maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))
        self.neighbor_maps = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(num_layers))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, embeddings from a normal distribution."""
        for embedding in (self.receivers, self.senders):
            nn.init.normal_(embedding)
        for linear in (*self.state_maps, *self.neighbor_maps):
            cast(nn.Linear, linear).reset_parameters()

    def adjacency(self) -> Float[Tensor, "nodes nodes"]:
        """Return G, whose rows sum to one."""
        return torch.softmax(torch.relu(self.receivers @ self.senders.mT), dim=-1)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, LearnedAdjacency]:
        """Return `relu(F U_l + (G F) W_l + b_l)`, and G."""
        check_layer(layer, self.num_layers)
        check_num_nodes(graph.num_nodes, self.num_nodes)
        check_fits(state, self.receivers, self.channels)
        learned = LearnedAdjacency(self.adjacency()) if context is None else context
        mapped = self.state_maps[layer](state) + self.neighbor_maps[layer](learned.matrix @ state)
        return torch.relu(mapped), learned

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, num_nodes={self.num_nodes}"
