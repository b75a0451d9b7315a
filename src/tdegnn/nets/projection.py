"""Variable projection: the weights in which a prediction is linear are solved, the others are descended.

The next state on physical states, `sum_p c_p F[l-p+1] + h s(F[l]; G)`, is linear in c and in the readout of s. For each
choice of the other weights these have one best value. `Projection` solves for it and returns the loss that is left. By
the envelope theorem, its gradient with respect to the other weights is that of the loss at the solved weights, so no
derivative of the solution is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.core.combination import History
from tdegnn.errors import InputError
from tdegnn.graph import Graph, State


class LinearTerms(NamedTuple):
    """A prediction as a sum: `offset + terms @ weights`.

    Attributes:
        offset: What does not depend on the weights. It is the prediction if all weights are zero.
        terms: What each weight multiplies.
        is_penalized: Which weights a ridge pulls to zero.
    """

    offset: State
    terms: Float[Tensor, "*batch nodes channels weights"]
    is_penalized: Bool[Tensor, " weights"]

    def sizes(self) -> Float[Tensor, " weights"]:
        """Return the mean square of each penalized term, and 0 for the others.

        A ridge in these units cannot be evaded by hidden channels that grow while their weights shrink.
        """
        return self.is_penalized * self.terms.flatten(end_dim=-2).square().mean(dim=0)

    def predict(self, weights: Float[Tensor, " weights"]) -> State:
        """Return the prediction with these weights."""
        return self.offset + self.terms @ weights


@runtime_checkable
class LinearPredictor(Protocol):
    """A predictor of the next state that is linear in some of its weights."""

    def linear_terms(self, history: History, graph: Graph) -> LinearTerms:
        """Return the prediction as a sum, differentiable in the other weights."""

    def assign_linear(self, weights: Float[Tensor, " weights"]) -> None:
        """Set the weights in which the prediction is linear."""

    def other_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters in which the prediction is not linear."""


def as_linear(model: nn.Module) -> LinearPredictor:
    """Return the model, or raise an `InputError` if it is not linear in any of its weights."""
    if isinstance(model, LinearPredictor):
        return model
    raise InputError(
        "Expected a predictor that is linear in some of its weights, for variable projection, got "
        f"{type(model).__name__}. Use another optimizer."
    )


class Projection:
    """The loss of a predictor whose linear weights are the best ones for its other weights.

    It is relative to the loss with linear weights of zero. For physical states that is the plain stencil, so the loss
    is one minus the explained share, plus the ridge.

    Args:
        model: The predictor. Each call sets its linear weights.
        history: Observed histories.
        target: The states that follow them.
        graph: The graph on which they live.
        ridge: How strongly penalized weights are pulled to zero: their squares times this number are added to the mean
            squared error.
    """

    def __init__(self, model: LinearPredictor, history: History, target: State, graph: Graph, ridge: float) -> None:
        self._model, self._history, self._target, self._graph = model, history, target, graph
        self._ridge = ridge

    def __call__(self) -> Tensor:
        """Solve for the linear weights, set them, and return the loss that is left."""
        sum_of = self._model.linear_terms(self._history, self._graph)
        with torch.no_grad():
            weights = solve_weights(sum_of, self._target, self._ridge)
            self._model.assign_linear(weights)
        penalty = self._ridge * (weights.square() * sum_of.sizes()).sum()
        unit = (sum_of.offset - self._target).square().mean().clamp(min=torch.finfo(self._target.dtype).tiny)
        return ((sum_of.predict(weights) - self._target).square().mean() + penalty) / unit


def solve_weights(sum_of: LinearTerms, target: State, ridge: float) -> Float[Tensor, " weights"]:
    """Return the weights with the lowest mean squared error plus ridge. Of several, return the shortest.

    Differences of a smooth series shrink by an order of magnitude from one order to the next. So columns are scaled,
    and the rows themselves are decomposed: sums of products (`ridge.py`) would lose half of the digits.
    """
    rows = sum_of.terms.flatten(end_dim=-2)
    left = (target - sum_of.offset).flatten()
    # The ridge is more rows, with the target 0.
    penalties = torch.diag((len(rows) * ridge * sum_of.sizes()).sqrt())
    rows, left = torch.cat([rows, penalties]), torch.cat([left, left.new_zeros(len(penalties))])
    scales = torch.linalg.vector_norm(rows, dim=0)
    scales = torch.where(scales > 0, scales, 1.0)
    # Only LAPACK's driver takes matrices of any rank, and triangular factors leave it little to do.
    orthogonal, triangular = torch.linalg.qr(rows / scales)
    right = orthogonal.mT @ left[:, None]
    solved: Tensor = torch.linalg.lstsq(triangular.cpu(), right.cpu(), driver="gelsd").solution
    return solved[:, 0].to(rows) / scales


def spread_over_channels(
    hidden: Float[Tensor, "*batch nodes hidden"], channels: int
) -> Float[Tensor, "*batch nodes channels weights"]:
    """Return what each entry of a linear map from hidden channels multiplies, in each channel that it maps to."""
    identity = torch.eye(channels, dtype=hidden.dtype, device=hidden.device)
    return (identity[..., None] * hidden[..., None, None, :]).flatten(start_dim=-2)
