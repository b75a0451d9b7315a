"""The layer history `H[l] = (F[l], F[l-1], ..., F[l-o+1])`: newest first, here and everywhere.

A history is a tuple of states, so that a new layer adds one state and copies none. Each state has the axes
(*batch, nodes, channels); `torch.stack(history)` puts the order in front of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from tdegnn.errors import InputError
from tdegnn.graph import check_precision

State: TypeAlias = Float[Tensor, "*batch nodes channels"]
History: TypeAlias = tuple[Float[Tensor, "*batch nodes channels"], ...]
# One weight a state, or one a state and batch element.
Coefficients: TypeAlias = Float[Tensor, " order"] | Float[Tensor, "order *batch"]


def as_history(states: Tensor | Sequence[Tensor], order: int) -> History:
    """Check `states`, newest first, and return the newest `order` of them.

    Args:
        states: A tensor (order, *batch, nodes, channels), or a sequence of states.
        order: How many states the temporal coefficients weigh.
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
    """Put a new state in front and let the oldest go."""
    return (state, *history[:-1])


def replace_newest(history: History, state: State) -> History:
    """Put `state` in the place of the newest one."""
    return (state, *history[1:])
