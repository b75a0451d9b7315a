"""The network for forecasting, the paper's Algorithm 2: a state, the features of its past, and the time.

Frames are embedded, the newest of them heads the history; layers integrate it while the features of all frames enter
the spatial term; a linear readout gives all steps of the horizon at once. What kind of network it is, is decided by its
parts: the rule for c, the skip beside it, and the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.checks import check_layer
from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.history import State
from tdegnn.core.integrator import Integration, integrate
from tdegnn.core.operators import SpatialOperator
from tdegnn.errors import check_count, check_finite
from tdegnn.graph import Graph
from tdegnn.nets.parts import reset_parts
from tdegnn.nets.series_network import Frames, SeriesNetwork, SeriesSizes, as_frames


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


class TimeEmbedding(nn.Linear):
    """A linear map of what is known of time, which may be nothing: then it gives its bias, at first zero."""

    def reset_parameters(self) -> None:
        """Draw the weights anew, where there are any; torch warns of maps without inputs."""
        if self.in_features:
            super().reset_parameters()
        else:
            nn.init.zeros_(self.bias)


class TemporalNetwork(SeriesNetwork):
    """Frames to forecasts, by integration.

    Args:
        sizes: The sizes of the task.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c; its order is the number of frames that become states, at most the window.
        step_size: h.
        skip: A forecast that is added to that of the layers, such as `LinearSkip`; none without it.
        dropout: Part of the current state that is dropped before each layer, and before the readout, in training.
        seed: Seed of the dropout.
    """

    step_size: Tensor

    def __init__(
        self,
        sizes: SeriesSizes,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        *,
        step_size: float = 1.0,
        skip: nn.Module | None = None,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(sizes, hidden_channels, dropout=dropout, seed=seed)
        check_count(num_layers=num_layers)
        check_finite(step_size=step_size)
        self._check_order(coefficients)
        self.num_layers = num_layers
        self.register_buffer("step_size", torch.tensor(step_size, dtype=torch.float64), persistent=False)
        known = sizes.horizon * sizes.num_known
        self.embedding = nn.Linear(sizes.num_channels, hidden_channels)
        self.past_embedding = nn.Linear(sizes.window * sizes.num_channels, hidden_channels)
        self.time_embedding = TimeEmbedding(known, hidden_channels)
        self.operator = PastDiffusion(hidden_channels, num_layers, step_size)
        self.readout = nn.Linear(hidden_channels, sizes.horizon * sizes.num_targets)
        self.skip = skip
        self.coefficients = coefficients
        self._leave_it_to_the_skip()

    def reset_parameters(self) -> None:
        """Draw all weights anew; c returns to where it starts, last, so that rules start with the same weights."""
        reset_parts(self.embedding, self.past_embedding, self.time_embedding, self.operator, self.readout)
        reset_parts(self.skip, self.coefficients)
        self._leave_it_to_the_skip()

    def _leave_it_to_the_skip(self) -> None:
        """A skip forecasts alone at first; the layers add to it what helps."""
        if self.skip is not None:
            nn.init.zeros_(self.readout.weight)
            nn.init.zeros_(self.readout.bias)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the forecasts of each window."""
        drop = self._start(frames, graph)
        state = self._integrate(frames, graph, drop.hidden).state
        forecast = as_frames(self.readout(drop.outer(state)), self.sizes)
        return forecast if self.skip is None else forecast + self.skip(frames, graph)

    def integrate(self, frames: Frames, graph: Graph) -> Integration:
        """Return the last state, the history and the coefficients c of every layer, without dropout."""
        return self._integrate(frames, graph, None)

    def _integrate(self, frames: Frames, graph: Graph, state_map: Callable[[Tensor], Tensor] | None) -> Integration:
        newest_first = frames.window.flip(1)[:, : self.coefficients.order]
        history = torch.relu(self.embedding(newest_first)).unbind(1)
        past = torch.relu(self.past_embedding(frames.window.movedim(1, 2).flatten(2)))
        time = self.time_embedding(self._flat_future(frames))
        return integrate(
            history,
            graph,
            self.coefficients,
            self.operator,
            num_layers=self.num_layers,
            step_size=self.step_size,
            context=PastFeatures(past, time),
            state_map=state_map,
        )


class LinearSkip(nn.Module):
    """A linear forecast of each node: from its own window, its neighbors' and the mean of all nodes', and the future.

    It is what a ridge regression on lags sees, and may start as its solution (`training/ridge_skip.py`); beside it, the
    layers learn what is not linear.

    Args:
        sizes: The sizes of the task.
        is_by_node: Whether each node has weights of its own, for its own window, beside those that all nodes share.
    """

    def __init__(self, sizes: SeriesSizes, *, is_by_node: bool = False) -> None:
        super().__init__()
        self.sizes = sizes
        num_own = sizes.window * (sizes.num_channels - sizes.num_waves) + sizes.horizon * sizes.num_known
        num_others = 2 * sizes.window * sizes.num_targets
        num_outputs = sizes.horizon * sizes.num_targets
        self.shared = nn.Linear(num_own + num_others, num_outputs)
        self.by_node = nn.Parameter(torch.empty(sizes.num_nodes if is_by_node else 0, num_own + 1, num_outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start with a forecast of zero."""
        for weight in (self.shared.weight, self.shared.bias, self.by_node):
            nn.init.zeros_(weight)

    def inputs(
        self, frames: Frames, graph: Graph
    ) -> tuple[Float[Tensor, "batch nodes own"], Float[Tensor, "batch nodes others"]]:
        """What a node sees of itself and of the future, with a one for the offset; and what it sees of others."""
        targets = frames.window[..., : self.sizes.num_targets]
        # Waves of the past say nothing that those of the future do not.
        without_waves = frames.window[..., : self.sizes.num_channels - self.sizes.num_waves]
        of_all = targets.mean(dim=-2, keepdim=True).expand_as(targets)
        own, future, neighbors, mean = (
            part.movedim(1, 2).flatten(2) for part in (without_waves, frames.future, graph.propagate(targets), of_all)
        )
        return torch.cat([own, future, torch.ones_like(own[..., :1])], dim=-1), torch.cat([neighbors, mean], dim=-1)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the linear forecasts."""
        own, others = self.inputs(frames, graph)
        flat: Tensor = self.shared(torch.cat([own[..., :-1], others], dim=-1))
        if len(self.by_node):
            flat = flat + torch.einsum("bni,nio->bno", own, self.by_node)
        return as_frames(flat, self.sizes)
