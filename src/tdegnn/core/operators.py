"""The spatial term `s(F[l]; G)` of the equation: how fast each node changes, given its neighbors.

Every operator answers `operator(state, graph, layer, context) -> (rate, context)`. The context carries what
else an operator may see or keep from layer to layer; those here hand it on untouched. Operators have one set of
weights a layer or share one; `integrate` does not care.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.checks import check_fits, check_layer
from tdegnn.core.history import State
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Graph


class SpatialOperator(nn.Module, ABC):
    """The right-hand side of the differential equation."""

    @abstractmethod
    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the rate of change of `state`, and the context for the next layer."""


class DiffusionOperator(SpatialOperator):
    """The paper's spatial term, `s(F; G) = relu((F - h L F) W_l)`.

    Paper: App. B.2. With batch norm the product is normalized before the relu.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own `W_l`.
        step_size: h.
        batch_norm: Whether to normalize channels over nodes (and batch) before the relu.
    """

    step_size: Tensor

    def __init__(self, channels: int, num_layers: int, step_size: float, *, batch_norm: bool = False) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(step_size=step_size)
        self.channels, self.num_layers = channels, num_layers
        # A buffer, so that networks trained together may differ in it; in float64, so that no digit is lost.
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        self.weight = nn.Parameter(torch.empty(num_layers, channels, channels))
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(num_layers if batch_norm else 0))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, each layer as a linear map of its own."""
        for weight in self.weight:
            nn.init.kaiming_uniform_(weight, a=5**0.5)
        for norm in self.norms:
            norm.reset_parameters()  # type: ignore[operator]

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `relu((F - h L F) W_l)`."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.weight, self.channels)
        mixed = graph.diffuse(state, self.step_size) @ self._layer_map(layer)
        if self.norms:
            # Batch norm knows rows and channels only: nodes and batch are both rows.
            mixed = self.norms[layer](mixed.flatten(0, -2)).view_as(mixed)
        return torch.relu(mixed), context

    def _layer_map(self, layer: int) -> Float[Tensor, "channels channels"]:
        return self.weight[layer]

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, step_size={float(self.step_size):g}"


class NearIdentityDiffusion(DiffusionOperator):
    """The paper's spatial term with maps that start at the identity, `s(F; G) = relu((F - h L F) (I + V_l))`.

    Deviation: the paper's maps start at random and decay to zero. These start as plain diffusion, and weight decay,
    which is on V, pulls them back to it. Where neighbors are alike (Cora, Citeseer) that is worth half a point.
    """

    def reset_parameters(self) -> None:
        """Start at the identity."""
        super().reset_parameters()
        nn.init.zeros_(self.weight)

    def _layer_map(self, layer: int) -> Float[Tensor, "channels channels"]:
        return torch.eye(self.channels, dtype=self.weight.dtype, device=self.weight.device) + self.weight[layer]


class HiddenDiffusionOperator(SpatialOperator):
    """The spatial term for physical states, `s(F; G) = relu(F W_s - (L F) W_d + b) W_o`, the same in all layers.

    Only s has hidden channels: c then weighs physical states, and its numbers mean what `tdegnn.analysis` says.
    The state may be of one channel.

    Deviation: `(F - h L F) W` would be the case `W_d = h W_s`. With one channel that ties the state and its
    Laplacian into one number, so that s = -L F, the right-hand side of the heat and wave equations, could not be
    written at all under `sum c = 1`. Two weights can write it.

    Args:
        channels: Channels of a physical state.
        hidden_channels: Hidden channels of s.
    """

    def __init__(self, channels: int, hidden_channels: int) -> None:
        super().__init__()
        check_count(channels=channels, hidden_channels=hidden_channels)
        self.channels = channels
        self.state_map = nn.Linear(channels, hidden_channels)
        self.difference_map = nn.Linear(channels, hidden_channels, bias=False)
        self.readout = nn.Linear(hidden_channels, channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in (self.state_map, self.difference_map, self.readout):
            linear.reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:  # noqa: ARG002
        """Return `relu(F W_s - (L F) W_d + b) W_o`."""
        check_fits(state, self.readout.weight, self.channels)
        hidden = torch.relu(self.state_map(state) - self.difference_map(graph.laplacian(state)))
        return self.readout(hidden), context


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
