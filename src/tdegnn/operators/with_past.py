"""Any operator in a forecast: its rate, plus the features of past frames.

`s = operator(F; G) + F_past U_l + b_l`. The features are updated after each layer as in `operators/past_diffusion.py`.
"""

from __future__ import annotations

from typing import Any

from tdegnn.core.integrator import call_operator
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_count
from tdegnn.graph import Graph, State
from tdegnn.operators.past_diffusion import PastFeatures, PastFeaturesOperator
from tdegnn.parts import reset_parts


class WithPastFeatures(PastFeaturesOperator):
    """An operator and the features of past frames, `s = operator(F; G) + F_past U_l + b_l`.

    Deviation: the paper's Algorithm 2 does not say how the features reach the state. Here they are added to the rate,
    so that the operator itself needs to know nothing about them.

    Args:
        operator: An operator that does not take past features. The context that it returns is handed to it again in
            the next layer; at first it gets None.
        channels: Channels of a state, of the features and of the time.
        num_layers: Number of layers.
    """

    def __init__(self, operator: SpatialOperator, channels: int, num_layers: int) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        if operator.takes_past_features:
            raise InputError(
                f"Expected an operator that does not take past features, got {type(operator).__name__}. Use it alone."
            )
        self.operator = operator
        self._make_past_maps(channels, num_layers)

    def reset_parameters(self) -> None:
        """Draw all weights anew, those of the operator first."""
        reset_parts(self.operator)
        self._reset_past_maps()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, PastFeatures]:
        """Return the rate, and the features as this layer saw them."""
        past, context = self._look_back(state, layer, context)
        rate, own = call_operator(self.operator, state, graph, layer, context.own)
        return rate + past, context._replace(own=own)
