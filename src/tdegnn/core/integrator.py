"""The equation itself: `F[l+1] = sum_p c_p F[l-p+1] + h s(F[l]; G)`, layer after layer.

This is the only loop over layers in the library. It knows neither where c comes from nor what s is: pass other parts to
get another integrator. Below it is the history, a tuple of states, newest first, and how it moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import TemporalCoefficients
from tdegnn.core.combination import History
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.graph import Graph, State, check_precision


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
    state_map: Callable[[Tensor], Tensor] | None = None,
    after_layer: Callable[[Tensor], Tensor] | None = None,
    on_state: Callable[[Tensor], None] | None = None,
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
        state_map: Applied to the current state before each layer. The history keeps its result (the paper's dropout).
        after_layer: Applied to the new state after each layer, such as a norm. The history keeps its result.
        on_state: Called with the new state after each layer, as the history keeps it. The initial states are not shown.

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
    if not isinstance(step_size, Tensor):
        check_finite(step_size=step_size)
    elif step_size.dim():
        raise InputError(f"Expected step_size to be one number, got a tensor of shape {tuple(step_size.shape)}.")
    states = as_history(history, coefficients.order)
    graph.check_state(states[0])
    if isinstance(step_size, Tensor):
        step_size = step_size.to(states[0].dtype)

    combine = coefficients.prepare()
    weights: list[Tensor] = []
    for layer in range(num_layers):
        if state_map is not None:
            mapped = state_map(states[0])
            _check_shape("state_map", mapped, states[0])
            states = replace_newest(states, mapped)
        combined, layer_weights = combine(states, layer)
        rate, context = call_operator(operator, states[0], graph, layer, context)
        advanced = _advance(combined, rate, step_size)
        if after_layer is not None:
            state = after_layer(advanced)
            _check_shape("after_layer", state, advanced)
            advanced = state
        if on_state is not None:
            on_state(advanced)
        states = push(states, advanced)
        weights.append(layer_weights)
    return Integration(states[0], states, torch.stack(weights))


def _advance(combined: State, rate: State, step_size: float | Float[Tensor, ""]) -> State:
    if isinstance(step_size, Tensor):
        return torch.addcmul(combined, rate, step_size)
    return torch.add(combined, rate, alpha=step_size)


def call_operator(operator: nn.Module, state: State, graph: Graph, layer: int, context: Any) -> tuple[State, Any]:
    """Call an operator, and check that it returns a rate with the shape of the state, and a context."""
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
