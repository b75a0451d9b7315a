"""OrderedGNN (Song et al., 2023): channels in an order, of which each layer fills some and keeps those before them.

`x' = LN(g x + (1 - g) m)`, with m the mean of the nodes that a node receives from. The gate is
`g = g_old + (1 - g_old) cumsum(softmax([x, m] V + v))`, one number per chunk of channels: it rises along the chunks and
never falls from layer to layer. Before the layers linear map, relu and layer norm; after them a linear map.
"""

from __future__ import annotations

from itertools import cycle

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import averaging_matrix
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.node_network import Features, apply_linear
from tdegnn.rivals.nodes.base import RivalNodeNetwork
from tdegnn.sparse import SparseMatrix

MOST_CHUNKS = 64


class OrderedNetwork(RivalNodeNetwork):
    """Gated means of neighbors, with channels in an order.

    Outer dropout applies to the input of each linear map, the readout included, hidden dropout to the state before each
    layer. Gates and layer norms of the layers are the parameter group `spatial`. The mean uses edge weights, and is
    zero for a node that receives nothing.

    Deviation: where the release has a second weight decay, it leaves the layer norms of the input out of its optimizer.
    Here they always learn.

    Args:
        num_input_layers: Linear maps before the layers, each with relu and layer norm. Default: 1.
        num_chunks: Chunks of channels, a divisor of `hidden_channels`. If None, 64, or one per channel if there are
            fewer.
        is_gate_shared: Whether all layers have the same V and v. Default: False.
    """

    equation = (
        "F[l+1] = LN(g F[l] + (1 - g) m), m = D^-1 A' F[l], g = g_old + (1 - g_old) cumsum(softmax([F[l], m] V + v))"
    )
    citation = "Song et al., 2023, Ordered GNN: Ordering Message Passing to Deal with Heterophily and Over-smoothing"

    def _make_layers(
        self, num_input_layers: int = 1, num_chunks: int | None = None, is_gate_shared: bool = False
    ) -> None:
        channels = self.hidden_channels
        num_chunks = min(MOST_CHUNKS, channels) if num_chunks is None else num_chunks
        check_count(num_input_layers=num_input_layers, num_chunks=num_chunks)
        if channels % num_chunks:
            raise InputError(
                f"Expected hidden_channels to be a multiple of the {num_chunks} chunks, got {channels}. "
                "Change one of them, or num_chunks."
            )
        self.first_map, *others = [
            nn.Linear(size, channels) for size in (self.num_features, *[channels] * (num_input_layers - 1))
        ]
        self.other_maps = nn.ModuleList(others)
        self.input_norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(num_input_layers))
        self.operator = _OrderedLayers(channels, num_chunks, self.num_layers, 1 if is_gate_shared else self.num_layers)
        self.readout = nn.Linear(channels, self.num_outputs)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        drop = self._start(features, graph)
        first_norm, *other_norms = self.input_norms
        state = first_norm(torch.relu(apply_linear(self.first_map, drop.input(features))))
        for linear, norm in zip(self.other_maps, other_norms, strict=True):
            state = norm(torch.relu(linear(drop.outer(state))))
        state = self.operator(state, averaging_matrix(graph, state), drop)
        outputs: Tensor = self.readout(drop.outer(state))
        return outputs


class _OrderedLayers(nn.Module):
    """The layers between input and readout."""

    def __init__(self, channels: int, num_chunks: int, num_layers: int, num_gates: int) -> None:
        super().__init__()
        self.num_chunks = num_chunks
        self.gates = nn.ModuleList(nn.Linear(2 * channels, num_chunks) for _ in range(num_gates))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(num_layers))

    def forward(
        self, state: Float[Tensor, "nodes channels"], matrix: SparseMatrix, drop: PassDropout
    ) -> Float[Tensor, "nodes channels"]:
        share = state.new_zeros(self.num_chunks)
        # A shared gate is used by all layers.
        for gate, norm in zip(cycle(self.gates), self.norms, strict=False):
            state = drop.hidden(state)
            received = matrix @ state
            rising = torch.softmax(gate(torch.cat([state, received], dim=-1)), dim=-1).cumsum(dim=-1)
            share = share + (1.0 - share) * rising
            theirs, own = (each.unflatten(-1, (self.num_chunks, -1)) for each in (received, state))
            state = norm(torch.lerp(theirs, own, share[..., None]).flatten(-2))
        return state
