"""The equation itself: `F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)`, layer after layer.

This is the only loop over layers in the library. It knows neither where c comes from nor what s is: pass other parts to
get another integrator. Below it is the history, a tuple of states, newest first, and how it moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import Combine, TemporalCoefficients
from tdegnn.core.combination import History
from tdegnn.core.operator import SpatialOperator
from tdegnn.core.segments import Recomputation, SegmentLength, cut_into_segments
from tdegnn.errors import InputError, check_count, check_count_or_auto, check_finite
from tdegnn.graph import Graph, State, check_precision
from tdegnn.messages import messages_in

StateMap: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Integration:
    """What `integrate` returns.

    Attributes:
        state: The last state, `F[L]`.
        history: The last states, newest first, from which the next integration would start.
        coefficients: The weights c of every layer, and of every batch element if the rule looks at the states.
    """

    state: State
    history: History
    coefficients: Float[Tensor, "layers order"] | Float[Tensor, "layers order *batch"]


def integrate(
    history: Tensor | Sequence[Tensor],
    graph: Graph,
    coefficients: TemporalCoefficients,
    operator: SpatialOperator,
    *,
    num_layers: int,
    step_size: float | Float[Tensor, ""],
    context: Any = None,
    state_map: StateMap | Sequence[StateMap] | None = None,
    after_layer: StateMap | None = None,
    on_state: Callable[[Tensor], None] | None = None,
    segment_length: SegmentLength = None,
) -> Integration:
    """Integrate for `num_layers` layers.

    Args:
        history: Initial states, newest first: a tensor (order, *batch, nodes, channels) or a sequence of states.
        graph: The graph on which the states live.
        coefficients: The rule for c.
        operator: The spatial term s.
        num_layers: Number of layers L.
        step_size: h. A tensor if networks that are trained together differ in it.
        context: What the operator sees besides the state.
        state_map: Applied to the current state before each layer, or one function per layer. The history keeps its
            result (the paper's dropout).
        after_layer: Applied to the new state after each layer, such as a norm. The history keeps its result.
        on_state: Called with the new state after each layer, as the history keeps it. The initial states are not shown.
        segment_length: Layers per segment. Only the history at the borders of segments is then kept for the backward
            pass, which computes the layers in between again: less memory, more time, the same numbers. `"auto"` is
            about the root of `num_layers`. If None, everything is kept. A `state_map` or `after_layer` with weights
            must then be a module, and must not depend on how often it was called.

    Example:
        >>> graph = Graph([[0, 1], [1, 2]])
        >>> now, before = torch.ones(3, 4), torch.zeros(3, 4)
        >>> result = integrate(
        ...     (now, before), graph, FixedCoefficients([2.0, -1.0]), DiffusionOperator(4, 8, step_size=0.1),
        ...     num_layers=8, step_size=0.1,
        ... )
        >>> result.state.shape
        torch.Size([3, 4])
    """
    _check_part("graph", graph, Graph)
    _check_part("coefficients", coefficients, TemporalCoefficients)
    _check_part(
        "operator", operator, SpatialOperator, " Derive it from SpatialOperator; ConvOperator wraps those of PyG."
    )
    check_count(num_layers=num_layers)
    if segment_length is not None:
        check_count_or_auto(segment_length=segment_length)
    if not isinstance(step_size, Tensor):
        check_finite(step_size=step_size)
    elif step_size.dim():
        raise InputError(f"Expected step_size to be one number, got a tensor of shape {tuple(step_size.shape)}.")
    states = as_history(history, coefficients.order)
    del history  # a state that nothing holds any more makes room for the next one
    graph.check_state(states[0])
    if isinstance(step_size, Tensor):
        step_size = step_size.to(states[0].dtype)

    maps = _one_per_layer(state_map, num_layers)
    equation = _Equation(graph, coefficients.prepare(), operator, step_size, maps, after_layer)
    parts = (part for part in (coefficients, operator, after_layer, *maps) if isinstance(part, nn.Module))
    recompute: Recomputation | None = None
    weights: list[Tensor] = []
    segments = [range(num_layers)] if segment_length is None else cut_into_segments(num_layers, segment_length)
    for segment in segments:
        # The backward pass begins with the last segment: to compute it again would save nothing.
        if segment.stop == num_layers or not torch.is_grad_enabled():
            newest_first, states = [states], ()
            states, context, segment_weights = equation.advance(segment, newest_first.pop(), context, on_state)
        else:
            recompute = recompute or Recomputation(parts)
            states, context, segment_weights, seen = recompute(
                partial(equation.advance_and_show, segment, on_state is not None), context, *states
            )
            for state in seen:
                assert on_state is not None
                on_state(state)
        weights += segment_weights
    return Integration(states[0], states, torch.stack(weights))


@dataclass(frozen=True)
class _Equation:
    """All parts of the equation, ready to compute layers."""

    graph: Graph
    combine: Combine
    operator: SpatialOperator
    step_size: float | Float[Tensor, ""]
    state_maps: Sequence[StateMap]
    after_layer: StateMap | None

    def advance(
        self, layers: range, states: History, context: Any, on_state: Callable[[Tensor], None] | None
    ) -> tuple[History, Any, list[Tensor]]:
        """Compute some layers. Return the history and the context after them, and their weights c."""
        weights: list[Tensor] = []
        for layer in layers:
            if self.state_maps:
                mapped = self.state_maps[layer](states[0])
                _check_shape("state_map", mapped, states[0])
                states = replace_newest(states, mapped)
            combined, layer_weights = self.combine(states, layer)
            # The oldest state is not needed any more: nothing holds it while the rate is computed.
            newest, states = states[0], states[:-1]
            rate, context = call_operator(self.operator, newest, self.graph, layer, context)
            is_free = self.operator.rate_is_free and not torch.is_grad_enabled()
            advanced = _advance(combined, rate, self.step_size, rate if is_free else None)
            del combined, rate, newest
            if self.after_layer is not None:
                state = self.after_layer(advanced)
                _check_shape("after_layer", state, advanced)
                advanced = state
            if on_state is not None:
                on_state(advanced)
            states = (advanced, *states)
            weights.append(layer_weights)
        return states, context, weights

    def advance_and_show(
        self, layers: range, is_shown: bool, context: Any, *states: Tensor
    ) -> tuple[History, Any, list[Tensor], list[Tensor]]:
        """Compute some layers. Return the new states too, if they are to be shown: a second computation shows none."""
        seen: list[Tensor] = []
        return *self.advance(layers, states, context, seen.append if is_shown else None), seen


def _one_per_layer(state_map: StateMap | Sequence[StateMap] | None, num_layers: int) -> Sequence[StateMap]:
    """Return one map per layer. Empty if there is none."""
    if state_map is None:
        return ()
    if not isinstance(state_map, Sequence):
        return [state_map] * num_layers
    if len(state_map) != num_layers:
        raise InputError(f"Expected one state_map or {num_layers}, one per layer, got {len(state_map)}.")
    return state_map


def _advance(combined: State, rate: State, step_size: float | Float[Tensor, ""], place: State | None = None) -> State:
    """Return `combined + step_size rate`, in a place of its own if None is given."""
    if isinstance(step_size, Tensor):
        return torch.addcmul(combined, rate, step_size, out=place)
    return torch.add(combined, rate, alpha=step_size, out=place)


def call_operator(operator: nn.Module, state: State, graph: Graph, layer: int, context: Any) -> tuple[State, Any]:
    """Call an operator, and check that it returns a rate with the shape of the state, and a context."""
    number_type = getattr(operator, "message_type", None)
    with nullcontext() if number_type is None else messages_in(number_type):
        answer: Any = operator(state, graph, layer, context)
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Tensor):
        what = f"{len(answer)} things" if isinstance(answer, tuple) else type(answer).__name__
        raise InputError(f"Expected the operator to return (rate, context), got {what}. Return both.")
    _check_shape("the operator", answer[0], state)
    return answer


def _check_part(name: str, part: object, kind: type, advice: str = "") -> None:
    if not isinstance(part, kind):
        came = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
        raise InputError(f"Expected {name} to be a {kind.__name__}, got {came}.{advice}")


def _check_shape(giver: str, came: Tensor, state: Tensor) -> None:
    # A shape that broadcasts would silently give another state.
    if came.shape != state.shape:
        raise InputError(
            f"Expected {giver} to return shape {tuple(state.shape)}, as the state, got {tuple(came.shape)}."
        )


def as_history(states: Tensor | Sequence[Tensor], order: int) -> History:
    """Check `states`, newest first, and return the newest `order` of them.

    Args:
        states: A tensor (order, *batch, nodes, channels), or a sequence of states.
        order: Number of states that the temporal coefficients weigh.
    """
    is_stack = isinstance(states, Tensor) and states.dim() > 0
    is_sequence = isinstance(states, Sequence) and all(isinstance(state, Tensor) for state in states)
    if not is_stack and not is_sequence:
        raise InputError(
            "Expected the history to be a tensor (order, *batch, nodes, channels) or a sequence of tensors, newest "
            f"first, got {type(states).__name__}. Use torch.as_tensor."
        )
    history = tuple(states.unbind(0)) if isinstance(states, Tensor) else tuple(states)
    if len(history) < order:
        raise InputError(
            f"Expected a history of at least {order} states (the order of the coefficients), got {len(history)}. "
            "Give more states or lower the order."
        )
    newest = history[0]
    check_precision(newest)
    for state in history[1:order]:
        if (state.shape, state.dtype, state.device) != (newest.shape, newest.dtype, newest.device):
            raise InputError(
                "Expected all states of the history to be alike, got "
                f"{tuple(newest.shape)} {newest.dtype} on {newest.device} and "
                f"{tuple(state.shape)} {state.dtype} on {state.device}."
            )
    return history[:order]


def push(history: History, state: State) -> History:
    """Return the history with a new state in front and without the oldest."""
    return (state, *history[:-1])


def replace_newest(history: History, state: State) -> History:
    """Return the history with `state` in place of the newest one."""
    return (state, *history[1:])
