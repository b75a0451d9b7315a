"""The spatial term `s(F[l]; G)` of the equation: how fast each node changes, given its neighbors.

Every operator answers `operator(state, graph, layer, context) -> (rate, context)`. The context carries what
else an operator may see or keep from layer to layer; those here hand it on untouched. Operators have one set of
weights a layer or share one; `integrate` does not care.
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

    A node receives what the graph's direction says. Batch axes become one large graph of separate copies, so
    that every convolution works, also one that knows nothing of batches.

    Args:
        convs: One convolution for all layers, or a sequence with one for each layer. It must map a state to as
            many channels as it has. A nonlinearity can be part of it (`torch_geometric.nn.Sequential`).
    """

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
    """Names of the arguments of a convolution's forward pass."""
    if not isinstance(conv, nn.Module):
        raise InputError(f"Expected a PyG convolution, a module, got {conv!r}. Make an instance of it first.")
    # PyG's own Sequential takes anything and keeps the names it was made with.
    is_sequence = hasattr(conv, "signature")
    names = list(conv.signature.param_dict if is_sequence else inspect.signature(conv.forward).parameters)  # type: ignore[union-attr, arg-type]
    if len(names) < 2:
        raise InputError(f"Expected a convolution whose forward takes (x, edge_index), got {conv} with {names}.")
    return names
