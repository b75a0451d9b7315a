"""The temporal coefficients `c` of the equation: how much each past state weighs in the next one.

Every rule answers `coefficients(history, layer) -> c`, one weight per state, newest first, with `sum c = 1`.
`FixedCoefficients` is a given integrator, `DirectCoefficients` a learned vector, `AttentionCoefficients` looks at the
history. `tdegnn.analysis` says what a vector means; `core/combination.py` computes the sum over states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.combination import Coefficients, History, attend, join, normalize_sum, weighted_sum
from tdegnn.errors import InputError, check_count, check_fits, check_layer
from tdegnn.graph import State

# How far a sum of c in float32 may be from one. The analysis allows the same.
SUM_TOLERANCE = 1e-4

# From the history and the number of the layer to `sum_p c_p F[l-p+1]` and c.
Combine: TypeAlias = Callable[[History, int], tuple[State, Coefficients]]


class TemporalCoefficients(nn.Module, ABC):
    """A rule that gives the weights of the last `order` states.

    Args:
        order: Number of past states that c weighs.
    """

    def __init__(self, order: int) -> None:
        super().__init__()
        check_count(order=order)
        self.order = order

    @abstractmethod
    def forward(self, history: History, layer: int) -> Coefficients:
        """Return c: one weight per state, or per state and batch element if the rule looks at the states."""

    def combine(self, history: History, layer: int) -> tuple[State, Coefficients]:
        """Return `sum_p c_p F[l-p+1]` and c. A rule may override this to compute both in fewer passes."""
        self.check_history(history)
        coefficients = self(history, layer)
        return weighted_sum(coefficients, history), coefficients

    def prepare(self) -> Combine:
        """Return a function that computes what `combine` does, for all layers of one integration.

        A rule may override this to compute only once what does not change from layer to layer.
        """
        return self.combine

    def check_history(self, history: History) -> None:
        """Raise an `InputError` if the history is not as long as c."""
        if len(history) != self.order:
            raise InputError(f"Expected a history of {self.order} states, one per coefficient, got {len(history)}.")

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"order={self.order}"


class FixedCoefficients(TemporalCoefficients):
    """A given integrator: `(1,)` is forward Euler (DE-GNN), `(2, -1)` leapfrog (wave dynamics, PDE-GCN).

    Args:
        values: The coefficients, newest state first. They must sum to one.
    """

    values: Tensor

    def __init__(self, values: Sequence[float] | Tensor) -> None:
        try:
            given = torch.as_tensor(values, dtype=torch.float64).detach().clone()
        except (TypeError, ValueError) as error:
            raise InputError(f"Expected coefficients to be a vector of numbers, got {values!r}.") from error
        if given.dim() != 1:
            raise InputError(f"Expected coefficients to be a vector, got shape {tuple(given.shape)}.")
        super().__init__(given.numel())
        total = given.sum().item()
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            raise InputError(
                f"Expected coefficients that sum to 1, got {given.tolist()} with sum {total:g}. "
                "Divide them by their sum, or use DirectCoefficients, which does."
            )
        self.register_buffer("values", given)

    def forward(self, history: History, layer: int) -> Float[Tensor, " order"]:  # noqa: ARG002
        """Return the given vector in the precision of the history."""
        return self.values.to(history[0])


class VectorCoefficients(TemporalCoefficients):
    """A rule whose c does not depend on the history: one vector for all layers, or one per layer.

    Args:
        order: Number of past states that c weighs.
        num_layers: Number of layers, each with its own vector. If None, all layers share one, as in the paper.
    """

    def __init__(self, order: int, num_layers: int | None = None) -> None:
        super().__init__(order)
        check_count(num_layers=1 if num_layers is None else num_layers)
        self.num_layers = num_layers

    @abstractmethod
    def vectors(self) -> Float[Tensor, "layers order"]:
        """Return c of every layer, or the one vector that all layers share."""

    def forward(self, history: History, layer: int) -> Float[Tensor, " order"]:
        """Return the vector of this layer, in the precision of the history."""
        return self._choose(self.vectors(), layer).to(history[0].dtype)

    def prepare(self) -> Combine:
        """Compute the vectors of all layers at once."""
        vectors = self.vectors()

        def combine(history: History, layer: int) -> tuple[State, Coefficients]:
            self.check_history(history)
            coefficients = self._choose(vectors, layer).to(history[0].dtype)
            return weighted_sum(coefficients, history), coefficients

        return combine

    def _choose(self, vectors: Float[Tensor, "layers order"], layer: int) -> Float[Tensor, " order"]:
        if self.num_layers is None:
            return vectors[0]
        check_layer(layer, self.num_layers)
        return vectors[layer]

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return super().extra_repr() + ("" if self.num_layers is None else f", num_layers={self.num_layers}")


class DirectCoefficients(VectorCoefficients):
    """A learned vector divided by its sum. Starts as forward Euler, `(1, 0, ..., 0)`.

    Args:
        order: Number of past states that c weighs.
        num_layers: Number of layers, each with its own vector. If None, all layers share one, as in the paper.
    """

    # Decay to zero would do nothing: c does not depend on the scale of the raw vector.
    anchored: ClassVar[tuple[str, ...]] = ("raw",)

    def __init__(self, order: int, num_layers: int | None = None) -> None:
        super().__init__(order, num_layers)
        self.raw = nn.Parameter(torch.empty(num_layers or 1, order))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to forward Euler."""
        with torch.no_grad():
            self.raw.zero_()[:, 0] = 1.0

    def vectors(self) -> Float[Tensor, "layers order"]:
        """Return the raw vectors, each divided by its sum."""
        return normalize_sum(self.raw.mT).mT


class AttentionCoefficients(TemporalCoefficients):
    """Attention of the current state over the history: dot products without softmax, divided by their sum.

    With `q = F[l] Wq^T + bq` and `k_p = F[l-p+1] Wk^T + bk`, `raw_p` is the mean over nodes of
    `q . k_p / sqrt(channels)` and `c = raw / sum(raw)`: one vector per layer and batch element.

    Deviation: the paper computes the scores of all pairs of states and keeps one row. Here only that row is computed,
    and the two projections are joined, `M = Wq^T Wk`, since scores are averaged over nodes. The numbers are the same,
    to rounding.

    Args:
        order: Number of past states that c weighs.
        channels: Channels of a state.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order)
        check_count(channels=channels)
        self.channels = channels
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the query anew, and make the key equal to it.

        Deviation: the paper does not say how they start. If they are equal, a score starts as a similarity, and the sum
        of the scores starts away from 0.
        """
        self.query.reset_parameters()
        self.key.load_state_dict(self.query.state_dict())

    def forward(self, history: History, layer: int) -> Float[Tensor, order * batch]:
        """Return the weights of the history as the current state sees it."""
        return self.combine(history, layer)[1]

    def combine(self, history: History, layer: int) -> tuple[State, Coefficients]:
        """Return the weighted sum and the weights."""
        return self.prepare()(history, layer)

    def prepare(self) -> Combine:
        """Join query and key once. Compute scores and sum together in every layer."""
        device_type = self.query.weight.device.type
        # c needs all digits, even if the rest of a network runs in half precision.
        with torch.autocast(device_type, enabled=False):
            score = join(self.query, self.key)

        def combine(history: History, layer: int) -> tuple[State, Coefficients]:  # noqa: ARG001
            self.check_history(history)
            check_fits(history[0], self.query.weight, self.channels)
            with torch.autocast(device_type, enabled=False):
                return attend(score, history)

        return combine

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"{super().extra_repr()}, channels={self.channels}"


class GatedAttention(AttentionCoefficients):
    """Attention behind a learned gate, `c = (1 - g) (1, 0, ..., 0) + g a`, which starts closed: as forward Euler.

    Deviation: the paper's attention has no gate. It gives weight to older states from the first step on, and can hardly
    learn c = [1]. This rule contains c = [1], and weight decay pulls the gate back to it.

    Args:
        order: Number of past states that c weighs.
        channels: Channels of a state.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.gate = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Draw query and key anew, and close the gate."""
        super().reset_parameters()
        if hasattr(self, "gate"):  # not yet while the base class is initialized
            nn.init.zeros_(self.gate)

    def prepare(self) -> Combine:
        """Apply the gate to what the attention returns."""
        attend_to = super().prepare()

        def combine(history: History, layer: int) -> tuple[State, Coefficients]:
            attended, weights = attend_to(history, layer)
            gated = self.gate * weights
            newest = gated[:1] + (1 - self.gate)
            return torch.lerp(history[0], attended, self.gate), torch.cat([newest, gated[1:]])

        return combine
