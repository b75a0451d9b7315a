"""Diffusion with the features of past frames in it: the spatial term of a forecast.

`s = relu((F - h L F) W_l + F_past U_l)`. The features of all frames, `F_past`, come in as the context, and every layer
brings them up to date. `operators/with_past.py` gives the same features to any other operator.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_count, check_finite, check_layer
from tdegnn.graph import Graph, State
from tdegnn.operators.diffusion import PAPER


class PastFeatures(NamedTuple):
    """The context of an operator in a forecast.

    Attributes:
        features: Features of all frames of the window, which layers bring up to date.
        time: What is known about time.
        own: The context of the operator inside `WithPastFeatures`, from layer to layer.
    """

    features: State
    time: State
    own: Any = None


class PastFeaturesOperator(SpatialOperator):
    """Base of the operators that take past features: the maps `F_past U_l`, and the update of `F_past`.

    After each layer `F_past = relu(e_l [F_past, F, T])`, where T is what is known about time.

    Paper: Algorithm 2. Deviation: it updates the features and does not say how they reach the state. Here they enter
    the spatial term.
    """

    takes_past_features: ClassVar[bool] = True
    past_maps: nn.ModuleList
    updates: nn.ModuleList

    def _make_past_maps(self, channels: int, num_layers: int) -> None:
        """Draw the maps. Called by `__init__`, since each operator draws its own weights first."""
        self.past_maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_layers))
        # Nothing sees the features after the last layer.
        self.updates = nn.ModuleList(nn.Linear(3 * channels, channels) for _ in range(num_layers - 1))

    def _reset_past_maps(self) -> None:
        for linear in (*self.past_maps, *self.updates):
            cast(nn.Linear, linear).reset_parameters()

    def _look_back(self, state: State, layer: int, context: Any) -> tuple[State, PastFeatures]:
        """Return `F_past U_l + b_l`, and the context as this layer sees it."""
        check_layer(layer, len(self.past_maps))
        if not isinstance(context, PastFeatures):
            raise InputError(
                f"Expected PastFeatures as the context of {type(self).__name__}, got {type(context).__name__}. Use it "
                "in a network for series with latent states, or take another operator."
            )
        if layer > 0:
            joined = torch.cat([context.features, state, context.time], dim=-1)
            context = context._replace(features=torch.relu(self.updates[layer - 1](joined)))
        return self.past_maps[layer](context.features), context


class PastDiffusion(PastFeaturesOperator):
    """Diffusion with the features of past frames in it, `s = relu((F - h L F) W_l + F_past U_l + b_l)`.

    Args:
        channels: Channels of a state, of the features and of the time.
        num_layers: Number of layers.
        step_size: h.
    """

    equation = "relu((F - h L F) W_l + F_past U_l + b_l)"
    citation = PAPER

    step_size: Tensor

    def __init__(self, channels: int, num_layers: int, step_size: float) -> None:
        super().__init__()
        check_count(channels=channels, num_layers=num_layers)
        check_finite(step_size=step_size)
        self.channels, self.num_layers = channels, num_layers
        # A buffer, so that networks trained together may differ in it; in float64, so that no digit is lost.
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        self.state_maps = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(num_layers))
        self._make_past_maps(channels, num_layers)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for linear in self.state_maps:
            cast(nn.Linear, linear).reset_parameters()
        self._reset_past_maps()

    def forward(self, state: State, graph: Graph, layer: int, context: Any = None) -> tuple[State, PastFeatures]:
        """Return the rate, and the features as this layer saw them."""
        past, context = self._look_back(state, layer, context)
        diffused = graph.diffuse(state, self.step_size)
        state_map = cast(nn.Linear, self.state_maps[layer])
        # One operation instead of a product and a sum.
        mapped = torch.addmm(past.flatten(0, -2), diffused.flatten(0, -2), state_map.weight.mT)
        return torch.relu(mapped.view(state.shape)), context

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"channels={self.channels}, num_layers={self.num_layers}, step_size={float(self.step_size):g}"
