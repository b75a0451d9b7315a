"""The spatial term `s(F[l]; G)` of the equation: how fast each node changes, given its neighbors.

Every operator answers `operator(state, graph, layer, context) -> (rate, context)`. The context carries what
else an operator may see or keep from layer to layer; those here hand it on untouched. Operators have one set of
weights a layer or share one; `integrate` does not care.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import nn

from tdegnn.graph import Graph, State


class SpatialOperator(nn.Module, ABC):
    """The right-hand side of the differential equation."""

    @abstractmethod
    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the rate of change of `state`, and the context for the next layer."""
