"""The network for node classification, the paper's Algorithm 1: one input, o initial states, L layers, a readout.

`dropout(input) -> embedding -> o states -> L layers, each with dropout on the current state -> dropout -> linear`. Its
parts decide what kind of network it is: `FixedCoefficients([1])` makes DE-GNN, `DirectCoefficients` TDE-GNN_D,
`AttentionCoefficients` TDE-GNN_A. The operator is any `SpatialOperator`. Other parts (`node_parts.py`) may take the
place of the linear maps at both ends, norm the states, and add scores to the outputs; their defaults are here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.combination import History, map_by_each
from tdegnn.core.integrator import Integration, integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.core.segments import SegmentLength
from tdegnn.errors import InputError, check_count, check_count_or_auto, check_finite
from tdegnn.graph import Graph, State
from tdegnn.nets.dropout import PassDropout
from tdegnn.nets.node_network import Features, NodeNetwork, apply_linear
from tdegnn.nets.node_parts import InputMap, NodeSkip, Readout, StateNorm
from tdegnn.parts import Family, reset_parts


class InitialStates(nn.Module, ABC):
    """The states with which the history starts, made from the embedding of the input.

    Args:
        order: Number of states.
        channels: Channels of a state.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__()
        check_count(order=order, channels=channels)
        self.order, self.channels = order, channels

    @abstractmethod
    def forward(self, embedded: State) -> History:
        """Return the initial states, newest first, given the embedding."""

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"order={self.order}, channels={self.channels}"


class MappedStates(InitialStates):
    """The paper's initial states, each a linear map of the embedding.

    A single state is the embedding itself, which is a linear map already.

    Args:
        order: Number of states.
        channels: Channels of a state.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.maps = nn.Parameter(torch.empty(self._num_maps, channels, channels))
        self.reset_parameters()

    @property
    def _num_maps(self) -> int:
        return self.order if self.order > 1 else 0

    def reset_parameters(self) -> None:
        """Draw the maps anew, each as a linear layer would."""
        for state_map in self.maps:
            nn.init.kaiming_uniform_(state_map, a=math.sqrt(5))

    def forward(self, embedded: State) -> History:
        """Return the initial states, newest first."""
        return map_by_each(embedded, self.maps) or (embedded,)


class NewestUnmapped(MappedStates):
    """Initial states of which the newest is the embedding itself. Only the older ones are mapped.

    Deviation: the paper maps all of them. Then a network with c = [1, 0, ..., 0] is not DE-GNN: it has one more linear
    map, which costs accuracy (Chameleon). Here the learned network contains DE-GNN and starts as DE-GNN.

    Args:
        order: Number of states.
        channels: Channels of a state.
    """

    @property
    def _num_maps(self) -> int:
        return self.order - 1

    def forward(self, embedded: State) -> History:
        """Return the initial states, newest first."""
        return (embedded, *map_by_each(embedded, self.maps))


INITIAL_STATES = Family("initial_states", InitialStates, {"mapped": MappedStates, "newest-unmapped": NewestUnmapped})


class LinearInput(nn.Linear, InputMap):
    """The paper's embedding of the features, `relu(X W + b)`.

    Args:
        num_features: Features of a node.
        channels: Channels of the embedding.
    """

    def __init__(self, num_features: int, channels: int) -> None:
        super().__init__(num_features, channels)

    def forward(self, features: Features) -> Float[Tensor, "nodes channels"]:
        """Return the embedding."""
        return torch.relu(apply_linear(self, features))


class LinearReadout(nn.Linear, Readout, ABC):
    """A readout that is a linear map of what it keeps of the states."""

    def join(self, kept: Any) -> Float[Tensor, "*batch nodes joined"]:
        """Return what is kept, which is one tensor unless a class says otherwise."""
        joined: Tensor = kept
        return joined


class LastReadout(LinearReadout):
    """A linear map of the last state.

    Args:
        channels: Channels of a state.
        num_outputs: Outputs per node.
    """

    def __init__(self, channels: int, num_outputs: int) -> None:
        super().__init__(channels, num_outputs)

    def keep(self, kept: State | None, state: State) -> State:  # noqa: ARG002 (the states before do not matter)
        """Return the newest state."""
        return state


class StationaryNetwork(NodeNetwork):
    """Node features to class scores.

    Args:
        num_features: Features of a node.
        num_outputs: Outputs per node: classes, or targets of a regression.
        hidden_channels: Channels of a state.
        num_layers: Number of layers L.
        coefficients: The rule for c. Its order is the number of initial states.
        operator: The spatial term s, of `hidden_channels` channels.
        initial_states: Makes the initial states from the embedding. If None, the paper's `MappedStates`.
        step_size: h.
        input_map: Makes the embedding from the features. If None, `LinearInput`.
        state_norm: Applied to the new state after each layer. If None, states stay as they are.
        readout: Makes the outputs from the states. If None, `LastReadout`.
        skip: Makes scores that are added to the outputs. If None, nothing is added.
        outer_dropout: Fraction of the input, and of what the readout reads, that is dropped in training.
        hidden_dropout: Fraction of the current state that is dropped before each layer in training.
        readout_dropout: Fraction of what the readout reads that is dropped in training. If None, `outer_dropout`.
        seed: Seed of the dropout.
        segment_length: Layers per segment, see `integrate`. If None, the backward pass keeps all layers.
    """

    step_size: Tensor

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        hidden_channels: int,
        num_layers: int,
        coefficients: TemporalCoefficients,
        operator: SpatialOperator,
        *,
        initial_states: InitialStates | None = None,
        input_map: InputMap | None = None,
        state_norm: StateNorm | None = None,
        readout: Readout | None = None,
        skip: NodeSkip | None = None,
        step_size: float = 1.0,
        outer_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        readout_dropout: float | None = None,
        seed: int = 0,
        segment_length: SegmentLength = None,
    ) -> None:
        super().__init__(
            num_features,
            num_outputs,
            hidden_channels,
            num_layers,
            outer_dropout,
            hidden_dropout,
            seed,
            readout_dropout=readout_dropout,
        )
        check_finite(step_size=step_size)
        if segment_length is not None:
            check_count_or_auto(segment_length=segment_length)
        if not isinstance(coefficients, TemporalCoefficients):
            raise InputError(
                f"Expected coefficients to be a TemporalCoefficients, got {type(coefficients).__name__}. For a given "
                "vector: FixedCoefficients."
            )
        self._register_setting("step_size", step_size)
        self.embedding = LinearInput(num_features, hidden_channels) if input_map is None else input_map
        if initial_states is None:
            initial_states = MappedStates(coefficients.order, hidden_channels)
        self.initial_states = initial_states
        self.coefficients = coefficients
        self.operator = operator
        self.state_norm = state_norm
        self.readout = LastReadout(hidden_channels, num_outputs) if readout is None else readout
        self.skip = skip
        self.segment_length = segment_length

    def reset_parameters(self) -> None:
        """Draw all weights anew, and return c to where it starts.

        Weights that only some rules need are drawn last. So networks with the same seed and different rules start with
        the same embedding, operator and readout, and a comparison does not depend on the draw.
        """
        reset_parts(self.embedding, self.operator, self.readout, self.state_norm, self.skip)
        reset_parts(self.initial_states, self.coefficients)

    def forward(self, features: Features, graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Return the scores of each node."""
        dropout = self._start(features, graph)
        kept: Any = None

        def keep(state: Tensor) -> None:
            nonlocal kept
            kept = self.readout.keep(kept, state)

        self._run(features, graph, dropout, keep)
        outputs = self.readout.read(dropout.readout(self.readout.join(kept)), dropout.readout)
        return outputs if self.skip is None else outputs + self.skip(graph)

    def integrate(self, features: Features, graph: Graph) -> Integration:
        """Return the last state, the history and the coefficients c of every layer, without dropout."""
        self._check_features(features, graph)
        return self._run(features, graph, PassDropout(None, self.outer_dropout, self.hidden_dropout))

    def _run(
        self,
        features: Features,
        graph: Graph,
        dropout: PassDropout,
        on_state: Callable[[Tensor], None] | None = None,
    ) -> Integration:
        return integrate(
            self.initial_states(self.embedding.embed(dropout.input(features), dropout.readout)),
            graph,
            self.coefficients,
            self.operator,
            num_layers=self.num_layers,
            step_size=self.step_size,
            # By layer, not one after another: with segments, layers are computed more than once.
            state_map=dropout.hidden_by_layer(self.num_layers),
            after_layer=self.state_norm,
            on_state=on_state,
            segment_length=self.segment_length,
        )
