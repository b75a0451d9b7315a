"""The layers of ACM and ACMII (Luan et al., 2022): what is smooth, what differs, and the node itself, mixed per node.

`B(F) = 3 (a_L * relu(low F W_L) + a_H * relu(high F W_H) + a_I * relu(F W_I))`, `low = D^-1 (A' + I)`,
`high = I - low`. ACMII filters after the relu, `low relu(F W_L)`. The weights a of the three parts H_k are, per node,
`softmax(sigmoid([H_L . v_L, H_H . v_H, H_I . v_I]) V / 3)`. The variants with `+` have a fourth part, `relu(A' W)`. The
context is handed on untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.adjacency import received_matrix, scaled_matrix
from tdegnn.errors import check_count, check_fits, check_layer, check_num_nodes
from tdegnn.graph import Graph, State
from tdegnn.operators.rate_of import Backbone


class AcmBackbone(Backbone):
    """Smooth, different and own parts, mixed per node, `B(F) = 3 sum_k a_k * relu(K_k F W_k)`, K = low, high, I.

    The weights of edges are used. For a node without edges low is its own state, and high is zero.

    Paper: Luan et al. (2022), section 4.2. Deviation: the published network has two layers and no readout after them.
    It takes graphs without direction; here low follows the direction of the graph.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
    """

    num_parts: ClassVar[int] = 3
    scale: ClassVar[float] = 3.0
    relu_first: ClassVar[bool] = False
    equation: ClassVar[str] = (
        "3 (a_L relu(low F W_L) + a_H relu(high F W_H) + a_I relu(F W_I)), low = D^-1 (A' + I), high = I - low, "
        "a = softmax(sigmoid(H_k . v_k) V / 3)"
    )
    citation: ClassVar[str] = "Luan et al., 2022, Revisiting Heterophily For Graph Neural Networks"

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        self.channels, self.num_layers = channels, num_layers
        # W_L, W_H and W_I side by side.
        self.weight = nn.Parameter(torch.empty(num_layers, channels, 3 * channels))
        self.part_vectors = nn.Parameter(torch.empty(num_layers, self.num_parts, channels))
        self.part_mixing = nn.Parameter(torch.empty(num_layers, self.num_parts, self.num_parts))
        AcmBackbone.reset_parameters(self)  # what a subclass draws too is not there yet

    def reset_parameters(self) -> None:
        """Draw all weights anew, from the ranges of the released code."""
        ranges = (
            (self.weight, self.channels**-0.5),
            (self.part_vectors, 1.0),
            (self.part_mixing, self.num_parts**-0.5),
        )
        for parameter, bound in ranges:
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the parts, mixed per node."""
        check_layer(layer, self.num_layers)
        check_fits(state, self.weight, self.channels)
        parts = self._parts(state, graph, layer)
        return mixed_parts(parts, self.part_vectors[layer], self.part_mixing[layer], self.scale), context

    def _parts(self, state: State, graph: Graph, layer: int) -> list[State]:
        """Return H_L, H_H and H_I."""
        return filtered_parts(state @ self.weight[layer], graph, relu_first=self.relu_first)


def filtered_parts(mapped: Float[Tensor, "*batch nodes mapped"], graph: Graph, *, relu_first: bool) -> list[State]:
    """Return H_L, H_H and H_I.

    Args:
        mapped: `F W_L`, `F W_H` and `F W_I` side by side.
        graph: The graph.
        relu_first: Whether the relu comes before the filters, as in ACMII.
    """
    if relu_first:
        mapped = torch.relu(mapped)
    _, to_high, own = mapped.chunk(3, dim=-1)
    low = scaled_matrix(graph, mapped, -1.0, 0.0, self_loops=True)
    smooth, smooth_of_high = (low @ mapped[..., : 2 * own.shape[-1]]).chunk(2, dim=-1)
    parts = [smooth, to_high - smooth_of_high, own]
    return parts if relu_first else [torch.relu(part) for part in parts]


def mixed_parts(
    parts: Sequence[State],
    vectors: Float[Tensor, "parts channels"],
    mixing: Float[Tensor, "parts parts"],
    scale: float,
) -> State:
    """Return `scale sum_k a_k * H_k` with the weights `a = softmax(sigmoid(H_k . v_k) V / parts)` of each node."""
    scores = torch.stack([part @ vector for part, vector in zip(parts, vectors.unbind(0), strict=True)], dim=-1)
    weights = torch.softmax(torch.sigmoid(scores) @ mixing / len(parts), dim=-1)
    mixed = torch.zeros_like(parts[0])
    for part, weight in zip(parts, (scale * weights).split(1, dim=-1), strict=True):
        mixed = torch.addcmul(mixed, part, weight)
    return mixed


class AcmiiBackbone(AcmBackbone):
    """ACM with the relu before the filters, `B(F) = 3 sum_k a_k * K_k relu(F W_k)`, K = low, high, I.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
    """

    relu_first: ClassVar[bool] = True
    equation: ClassVar[str] = (
        "3 (a_L low relu(F W_L) + a_H high relu(F W_H) + a_I relu(F W_I)), low = D^-1 (A' + I), high = I - low, "
        "a = softmax(sigmoid(H_k . v_k) V / 3)"
    )


class AcmPlusBackbone(AcmBackbone):
    """ACM with a fourth part of the adjacency rows, `B(F) = sum_k a_k * relu(K_k F W_k) + a_S * relu(A' W_S)`.

    `W_S` has one row per node, so the backbone is bound to the graph it was made for. V is 4 x 4, and the scores are
    divided by 4 instead of 3 before the softmax.

    Deviation: the paper also normalizes the parts before they are weighed. The released code never does.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
        num_nodes: Nodes of the graph.
    """

    num_parts: ClassVar[int] = 4
    scale: ClassVar[float] = 1.0
    is_bound_to_nodes: ClassVar[bool] = True
    equation: ClassVar[str] = (
        "a_L relu(low F W_L) + a_H relu(high F W_H) + a_I relu(F W_I) + a_S relu(A' W_S), low = D^-1 (A' + I), "
        "high = I - low, a = softmax(sigmoid(H_k . v_k) V / 4)"
    )

    def __init__(self, channels: int, num_layers: int, num_nodes: int) -> None:
        check_count(num_nodes=num_nodes)
        super().__init__(channels, num_layers)
        self.num_nodes = num_nodes
        self.structure_weight = nn.Parameter(torch.empty(num_layers, num_nodes, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, from the ranges of the released code."""
        super().reset_parameters()
        bound = self.channels**-0.5
        nn.init.uniform_(self.structure_weight, -bound, bound)

    def _parts(self, state: State, graph: Graph, layer: int) -> list[State]:
        """Return H_L, H_H, H_I and H_S."""
        check_num_nodes(graph.num_whole_nodes, self.num_nodes)
        structure = torch.relu(received_matrix(graph, state) @ graph.of_its_nodes(self.structure_weight[layer]))
        return [*super()._parts(state, graph, layer), structure.expand_as(state)]


class AcmiiPlusBackbone(AcmPlusBackbone):
    """ACMII with a fourth part of the adjacency rows, `B(F) = sum_k a_k * K_k relu(F W_k) + a_S * relu(A' W_S)`.

    Args:
        channels: Channels of a state.
        num_layers: Number of layers, each with its own maps.
        num_nodes: Nodes of the graph.
    """

    relu_first: ClassVar[bool] = True
    equation: ClassVar[str] = (
        "a_L low relu(F W_L) + a_H high relu(F W_H) + a_I relu(F W_I) + a_S relu(A' W_S), low = D^-1 (A' + I), "
        "high = I - low, a = softmax(sigmoid(H_k . v_k) V / 4)"
    )
