"""What systems of the GRAND type share: a mean G over what a node receives, `sg(a)`, and what they keep of layer 0.

They are differential equations: one set of weights for all layers. The context keeps the first state, without its
gradient as in the released codes, and G if it is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_fits
from tdegnn.graph import Graph, State
from tdegnn.operators.edge_attention import EdgeWeights, make_mixing


class FirstState(NamedTuple):
    """The context of an operator that needs the state of layer 0.

    Attributes:
        state: The state of layer 0, without its gradient.
        weights: G of that state. None if G is constant, or computed in every layer.
    """

    state: State
    weights: EdgeWeights | None = None


class MixingOperator(SpatialOperator):
    """Base of the operators with a mean G.

    Args:
        channels: Channels of a state.
        mixing: G, `"attention"` (default) or `"constant"`; with settings `{"name": ..., "settings": {...}}`.
        self_loops: Whether a node receives from itself too. Default: True, as in the released code of GRAND. Otherwise
            a node that receives nothing gets zero.
    """

    def __init__(
        self, channels: int, *, mixing: str | Mapping[str, Any] = "attention", self_loops: bool = True
    ) -> None:
        super().__init__()
        check_count(channels=channels)
        self.channels = channels
        self.mixing = make_mixing(mixing, channels, self_loops)
        self.reach = 1 if self.mixing.is_local else None
        # sigmoid(0) = 1/2
        self.raw_rate = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Draw the weights of G anew, and start with `sg(a) = 1/2`."""
        self.mixing.reset_parameters()
        nn.init.zeros_(self.raw_rate)

    def _look_back(self, state: State, graph: Graph, context: FirstState | None) -> FirstState:
        """Return what is kept of layer 0. In layer 0 the context is None."""
        check_fits(state, self.raw_rate, self.channels)
        return self._keep(state, graph) if context is None else context

    def _keep(self, first: State, graph: Graph) -> FirstState:
        """Return what is kept of the state of layer 0, here G too."""
        return FirstState(first.detach(), self.mixing.weigh(first, graph))

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}"
