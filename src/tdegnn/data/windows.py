"""Windows over observed states: the history a model sees and the state that follows it. Views, never copies."""

from __future__ import annotations

from math import comb
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from tdegnn.errors import InputError


class Windows(NamedTuple):
    """Histories, newest first, and the states that follow them; (trajectories, time) are batch axes."""

    history: tuple[Float[Tensor, "trajectories windows nodes channels"], ...]
    target: Float[Tensor, "trajectories windows nodes channels"]


def one_step_windows(states: Float[Tensor, "trajectories time nodes channels"], order: int) -> Windows:
    """Cut trajectories into every history of `order` states and the state after it."""
    num_steps = states.shape[1]
    if not 1 <= order < num_steps:
        raise InputError(f"Expected an order between 1 and {num_steps - 1}, one less than the steps, got {order}.")
    history = tuple(states[:, order - 1 - p : num_steps - 1 - p] for p in range(order))
    return Windows(history, states[:, order:])


def backward_difference(windows: Windows) -> Float[Tensor, "trajectories windows nodes channels"]:
    """The o-th backward difference of target and history: what a fit of order o has to explain."""
    order = len(windows.history)
    difference = windows.target.clone()
    for p, state in enumerate(windows.history, start=1):
        difference += (-1) ** p * comb(order, p) * state
    return difference
