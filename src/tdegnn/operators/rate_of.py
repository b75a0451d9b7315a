"""The layer of any network as a spatial term: `s(F; G) = B(F; G) - F`.

With c = [1] and h = 1 the step `F + h s(F)` is B(F), so the integration is the network itself. Every other c, fixed or
learned, then shows what time adds to it. B is a `Backbone` (`operators/backbones/`), a layer of PyG, or another
operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import wraps
from typing import Any, ClassVar

from torch import nn

from tdegnn.core.integrator import call_operator
from tdegnn.core.operator import SpatialOperator
from tdegnn.graph import Graph, State
from tdegnn.operators.convolution import ConvOperator
from tdegnn.parts import Part, reset_parts


class Backbone(nn.Module, ABC):
    """The layers of a network, `F[l+1] = B_l(F[l]; G)`.

    Attributes:
        equation: B(F) in one line of plain text, for `tdegnn zoo`.
        citation: Where it was published, for `tdegnn zoo`.
        is_bound_to_nodes: Whether weights belong to nodes, see `SpatialOperator`.
        reach: How many hops away it looks, see `SpatialOperator`.
    """

    equation: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    is_bound_to_nodes: ClassVar[bool] = False
    reach: int | None = 1

    def reset_parameters(self) -> None:
        """Draw the weights of all modules inside anew. A backbone with parameters of its own draws them too."""
        reset_parts(*(module for module in self.modules() if module is not self))

    @abstractmethod
    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the next state, and the context for the next layer.

        Args:
            state: The current state, (*batch, nodes, channels).
            graph: The graph.
            layer: Number of the layer, from 0 on.
            context: What the backbone returned in the layer before. None at first.
        """


class RateOf(SpatialOperator):
    """The layers of a network as the spatial term, `s(F; G) = B(F; G) - F`.

    With c = [1] and h = 1, `integrate` applies the layers one after the other. The context is that of the backbone.

    Args:
        backbone: What computes B: a `Backbone`, a layer of PyG (or a sequence with one per layer, see `ConvOperator`),
            or an operator, whose answer is then the next state.
    """

    def __init__(self, backbone: nn.Module | Sequence[nn.Module]) -> None:
        super().__init__()
        self.backbone = backbone if isinstance(backbone, Backbone | SpatialOperator) else ConvOperator(backbone)
        layer = self.backbone.equation
        inherited = {
            "equation": f"B(F) - F, B(F) = {layer}" if layer else "B(F) - F",
            "citation": self.backbone.citation,
            "is_bound_to_nodes": self.backbone.is_bound_to_nodes,
            "reach": self.backbone.reach,
            "takes_past_features": getattr(self.backbone, "takes_past_features", False),
        }
        for name, value in inherited.items():
            setattr(self, name, value)

    def reset_parameters(self) -> None:
        """Draw the weights of the backbone anew."""
        reset_parts(self.backbone)

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return `B(F) - F`, and the context of the backbone."""
        new_state, context = call_operator(self.backbone, state, graph, layer, context)
        return new_state - state, context


def as_rate(backbone: type[Backbone]) -> Part:
    """Return the part that makes `RateOf(backbone(...))`. It takes the settings and sizes that the backbone takes."""

    @wraps(backbone, updated=())
    def make(*args: Any, **settings: Any) -> RateOf:
        return RateOf(backbone(*args, **settings))

    return Part(make)
