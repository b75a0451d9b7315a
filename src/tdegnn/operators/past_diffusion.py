"""The network for forecasting, the paper's Algorithm 2: a state, the features of its past, and the time.

Frames are embedded, the newest of them heads the history; layers integrate it while the features of all frames enter
the spatial term; a linear readout gives all steps of the horizon at once. What kind of network it is, is decided by its
parts: the rule for c, the skip beside it, and the operator.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import check_count, check_finite, check_layer
from tdegnn.graph import Graph, State


class PastFeatures(NamedTuple):
    """The context of the operator: the features of all frames, which layers bring up to date, and the time."""

    features: State
    time: State


class PastDiffusion(SpatialOperator):
    """The spatial term with the features of the past in it, `s = relu((F - h L F) W_l + F_past U_l)`.

    After each layer `F_past = relu(e_l [F_past, F, T])`, T being what is known of time. Paper: Algorithm 2. Deviation:
    it updates the features and does not say how they reach the state; here they enter the spatial term.

    Args:
        channels: Channels of a state, of the features and of the time.
        num_layers: Number of layers.
        step_size: h.
    """

    step_size: Tensor

    def __init__(self, channels: int, num_layers: int, step_size: float) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(step_size=step_size)
        self.channels, self.num_layers = channels, num_layers
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        self.state_maps = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(num_layers))
        self.past_maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))
        # Features after the last layer would reach nothing.
        self.updates = nn.ModuleList(nn.Linear(3 * channels, channels) for _ in range(num_layers - 1))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in (*self.state_maps, *self.past_maps, *self.updates):
            linear.reset_parameters()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, PastFeatures]:
        """Return the rate, and the features as this layer saw them."""
        check_layer(layer, self.num_layers)
        features, time = context
        if layer > 0:
            features = torch.relu(self.updates[layer - 1](torch.cat([features, state, time], dim=-1)))
        diffused = graph.diffuse(state, self.step_size)
        past, state_map = self.past_maps[layer](features), cast(nn.Linear, self.state_maps[layer])
        # One operation in place of a product and a sum.
        mapped = torch.addmm(past.flatten(0, -2), diffused.flatten(0, -2), state_map.weight.mT)
        rate = torch.relu(mapped.view(state.shape))
        return rate, PastFeatures(features, time)

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, step_size={float(self.step_size):g}"
