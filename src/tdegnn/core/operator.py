"""The spatial term `s(F[l]; G)` of the equation: how fast each node changes, given its neighbors.

Every operator answers `operator(state, graph, layer, context) -> (rate, context)`. The context carries what else an
operator sees, or keeps from layer to layer. An operator has one set of weights per layer or shares one: `integrate`
does not care. The operators of this package are in `tdegnn.operators`; `docs/your_own_operator.md` shows how to write
another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import nn

from tdegnn.graph import Graph, State


class SpatialOperator(nn.Module, ABC):
    """The right-hand side of the differential equation.

    Attributes:
        takes_past_features: Whether the operator takes the features of past frames as its context
            (`operators/past_diffusion.py`). A network for series adds them to the rate of an operator that does not.
        is_bound_to_nodes: Whether the operator keeps something for each node, such as an embedding: it works on graphs
            with the same nodes in the same order only, and takes their number as `num_nodes`.
        reach: How many hops away the nodes are that decide the rate of a node, for predictions in blocks. If None, all
            nodes decide it at once, and the operator cannot be used with batches. Default: 1.
        message_type: Type to which states are rounded before they travel along edges, such as `torch.bfloat16`: half of
            what a product reads. If None, they are not. Set by the precision of a training.
        rate_is_free: Whether nothing else holds the rate that was returned, so that without gradients the next state
            may be written over it.
        equation: The rate in one line of plain text, for `tdegnn zoo`.
        citation: Where it was published, for `tdegnn zoo`.
    """

    takes_past_features: ClassVar[bool] = False
    is_bound_to_nodes: ClassVar[bool] = False
    reach: int | None = 1
    message_type: torch.dtype | None = None
    rate_is_free: ClassVar[bool] = False
    equation: ClassVar[str] = ""
    citation: ClassVar[str] = ""

    @abstractmethod
    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, Any]:
        """Return the rate of change of `state`, and the context for the next layer.

        Args:
            state: The current state, (*batch, nodes, channels).
            graph: The graph. `propagate`, `laplacian` and `diffuse` apply its normalized matrices.
            layer: Number of the layer, from 0 on.
            context: What the operator returned in the layer before, at first what the network passes in.
        """
