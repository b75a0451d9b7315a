"""Run a one-step predictor on its own predictions, and hold nodes that do not move.

Both wrap any predictor `predictor(history, graph) -> next state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.core.combination import History
from tdegnn.core.integrator import as_history, push
from tdegnn.errors import check_count
from tdegnn.graph import Graph, State
from tdegnn.nets.projection import LinearTerms, as_linear


@runtime_checkable
class OneStepPredictor(Protocol):
    """Anything that predicts the next state from the last `order` states."""

    @property
    def order(self) -> int:
        """Number of states the predictor looks at."""

    def __call__(self, history: History, graph: Graph) -> State:
        """Return the state that follows the history."""


class PinnedPredictor(nn.Module):
    """A predictor in which some nodes keep their state, such as the pivot of a pendulum.

    Args:
        predictor: Any one-step predictor that is a module.
        is_pinned: True for each node that does not move.
    """

    is_pinned: Tensor

    def __init__(self, predictor: nn.Module, is_pinned: Bool[Tensor, " nodes"]) -> None:
        super().__init__()
        self.predictor = predictor
        self.register_buffer("is_pinned", is_pinned)

    @property
    def order(self) -> int:
        """Number of states the predictor looks at."""
        return int(self.predictor.order)  # type: ignore[arg-type]

    def forward(self, history: History, graph: Graph) -> State:
        """Return the predicted state, with pinned nodes where they were."""
        return torch.where(self.is_pinned[:, None], history[0], self.predictor(history, graph))

    def linear_terms(self, history: History, graph: Graph) -> LinearTerms:
        """Return the terms of the predictor. Those of pinned nodes are zero, and their offset is where they were."""
        offset, terms, is_penalized = as_linear(self.predictor).linear_terms(history, graph)
        offset = torch.where(self.is_pinned[:, None], history[0], offset)
        return LinearTerms(offset, terms.masked_fill(self.is_pinned[:, None, None], 0.0), is_penalized)

    def assign_linear(self, weights: Float[Tensor, " weights"]) -> None:
        """Set the linear weights of the predictor."""
        as_linear(self.predictor).assign_linear(weights)

    def other_parameters(self) -> Iterable[nn.Parameter]:
        """Return the other parameters of the predictor."""
        return as_linear(self.predictor).other_parameters()


def roll_out(
    predictor: OneStepPredictor, history: Tensor | Sequence[Tensor], graph: Graph, num_steps: int
) -> Float[Tensor, "steps *batch nodes channels"]:
    """Predict `num_steps` states, each from the ones before it, without gradients.

    Args:
        predictor: Any one-step predictor. If it has dropout or batch norm, call its `eval()` first.
        history: The states to start from, newest first, as for `integrate`.
        graph: The graph on which they live.
        num_steps: Number of states to predict.
    """
    check_count(num_steps=num_steps)
    states = as_history(history, predictor.order)
    predictions = []
    with torch.no_grad():
        for _ in range(num_steps):
            predictions.append(predictor(states, graph))
            states = push(states, predictions[-1])
    return torch.stack(predictions)
