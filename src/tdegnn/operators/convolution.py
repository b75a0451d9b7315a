"""Any PyG convolution as the spatial term, `s(F; G) = conv(F, edges)`.

Paper: the equation leaves s open, and this is the way to put a published convolution in its place, such as `GCNConv`
(Kipf and Welling, 2017) or `GATConv` (Velickovic et al., 2018). The context is handed on untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_layer
from tdegnn.graph import Graph, State


class ConvOperator(SpatialOperator):
    """Any PyG convolution as the spatial term, `s(F; G) = conv(F, edges)`.

    A node receives along the direction of the graph. Batch axes become one large graph of separate copies, so that
    every convolution works, including one that does not know about batches.

    Deviation: a convolution normalizes the graph as it does in PyG, not by the P of `Graph`.

    Args:
        convs: One convolution for all layers, or a sequence with one per layer. It must keep the number of channels.
            For a nonlinearity behind it, use `torch_geometric.nn.Sequential`.
    """

    reach = 2  # some scale by the degrees of neighbors, which they count themselves

    def __init__(self, convs: nn.Module | Sequence[nn.Module]) -> None:
        super().__init__()
        if not isinstance(convs, nn.Module | Sequence):
            raise InputError(f"Expected a PyG convolution or a sequence of them, got {convs!r}.")
        self.is_shared = isinstance(convs, nn.Module) and not isinstance(convs, nn.ModuleList)
        given: list[nn.Module] = [convs] if self.is_shared else list(convs)  # type: ignore[arg-type, list-item]
        if not given:
            raise InputError("Expected at least one convolution, got none.")
        self._takes_weights = all("edge_weight" in _arguments_of(conv) for conv in given)
        self.convs = nn.ModuleList(given)

    def reset_parameters(self) -> None:
        """Draw the weights of every convolution anew."""
        for conv in self.convs:
            conv.reset_parameters()  # type: ignore[operator]

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the convolution of `state` along the messages of `graph`."""
        graph.check_state(state)
        if not self.is_shared:
            check_layer(layer, len(self.convs))
        if graph.is_weighted and not self._takes_weights:
            raise InputError(
                f"Expected a convolution with an edge_weight argument for a weighted graph, got {self.convs[0]}. "
                "Use graph.without_weights(), or one that takes them (GCNConv, GraphConv, ...)."
            )
        conv = self.convs[0 if self.is_shared else layer]
        rows = state.reshape(-1, state.shape[-1])
        edges, weights = graph.messages_of_copies(len(rows) // graph.num_nodes, state)
        rate = conv(rows, edges, edge_weight=weights) if self._takes_weights else conv(rows, edges)
        if rate.shape != rows.shape:
            raise InputError(
                f"Expected the convolution to keep {rows.shape[-1]} channels, got {rate.shape[-1]} from {conv}."
            )
        return rate.reshape(state.shape), context


def _arguments_of(conv: object) -> list[str]:
    """Return the names of the arguments of a convolution's forward pass."""
    if not isinstance(conv, nn.Module):
        raise InputError(f"Expected a PyG convolution, a module, got {conv!r}. Make an instance of it first.")
    # PyG's Sequential takes any arguments. It keeps the names that it was made with in `signature`.
    is_sequence = hasattr(conv, "signature")
    names = list(conv.signature.param_dict if is_sequence else inspect.signature(conv.forward).parameters)  # type: ignore[union-attr, arg-type]
    if len(names) < 2:
        raise InputError(f"Expected a convolution whose forward takes (x, edge_index), got {conv} with {names}.")
    return names
