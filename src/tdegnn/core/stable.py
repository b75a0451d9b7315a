"""Temporal coefficients c that are zero-stable whatever their parameters: a learned vector, and attention.

Both learn the factors of the characteristic polynomial (`core/stable_factors.py`) instead of c, so that every root but
the m-fold 1 stays inside the unit disc. `docs/stability.md` says what that guarantees and what it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import (
    SUM_TOLERANCE,
    AttentionCoefficients,
    Combine,
    FixedCoefficients,
    TemporalCoefficients,
    VectorCoefficients,
)
from tdegnn.core.combination import Coefficients, History, join, mean_scores, weighted_sum
from tdegnn.core.stable_factors import (
    check_stable,
    divide_by_ones,
    factor_parameters,
    margin_beside,
    stable_coefficients,
    start_parameters,
)
from tdegnn.errors import InputError, check_fits
from tdegnn.graph import State


class _FactoredCoefficients(TemporalCoefficients):
    """Base of the rules that learn factors. Multiplicity and margin are shown, and saved with the parameters."""

    multiplicity: int
    margin: float
    anchored: ClassVar[tuple[str, ...]] = ("raw",)  # weight decay pulls to where the rule starts

    def get_extra_state(self) -> Tensor:
        """Return multiplicity and margin, without which the parameters have no meaning."""
        return torch.tensor([self.multiplicity, self.margin], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the margin of the rule whose parameters are loaded."""
        multiplicity, margin = state.tolist()
        if multiplicity != self.multiplicity:
            raise InputError(
                f"Expected parameters of a rule with multiplicity {self.multiplicity}, got those of one with "
                f"{multiplicity:g}. Make the rule with the same multiplicity."
            )
        self.margin = margin

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"{super().extra_repr()}, multiplicity={self.multiplicity}, margin={self.margin:g}"


class StableCoefficients(_FactoredCoefficients, VectorCoefficients):
    """A learned vector c that satisfies the root condition, whatever its parameters (to rounding: `margin`).

    `x^o - sum_p c_p x^(o-p) = (x - 1)^m prod_i (x^2 + a_i x + b_i)` with `b = tanh u` and `a = (1 + b) tanh v`, and
    all roots but 1 scaled by `1 - margin`. With parameters of zero it is `(x - 1)^m x^(o-m)`: forward Euler for m = 1,
    leapfrog for m = 2. The rule starts there or, with four free roots and more, next to it (`START`).

    Deviation: the paper divides a raw vector by its sum. That may be unstable, and is undefined if the sum is zero.

    Args:
        order: Number of past states that c weighs.
        multiplicity: m, how often 1 is a root: the order of the recursion if its lower derivatives vanish.
        margin: How far all other roots stay from the unit circle. If None, wide enough to keep the recursion bounded
            for 10,000 steps with m = 1, although c is rounded to float64: 0.001 up to order 4, 0.017 at 6, 0.229 at 12.
            For float32 it must be wider (`safe_margin` computes it).
        num_layers: Number of layers, each with its own vector. If None, all layers share one.
    """

    def __init__(
        self, order: int, multiplicity: int = 1, margin: float | None = None, num_layers: int | None = None
    ) -> None:
        super().__init__(order, num_layers)
        self.multiplicity, self.margin = multiplicity, check_stable(order, multiplicity, margin)
        self.raw = nn.Parameter(torch.empty(num_layers or 1, order - multiplicity))
        self._start = start_parameters(order - multiplicity, self.margin)
        self.reset_parameters()

    @classmethod
    def from_coefficients(
        cls,
        values: Sequence[float] | Tensor,
        multiplicity: int | None = None,
        margin: float | None = None,
        num_layers: int | None = None,
    ) -> StableCoefficients:
        """Start from a given stable c. If it is a tensor, the rule has its precision.

        Args:
            values: c, newest state first.
            multiplicity: How often 1 is a root. If None, counted with a tolerance of rounding errors. If given, the
                tolerance is 1e-4, and c is moved accordingly.
            margin: How far all other roots stay from the unit circle. The roots of c must, too. If None, the default
                of the class, or half of the distance that c leaves if that is smaller.
            num_layers: See the class. Every layer starts from c.
        """
        given = FixedCoefficients(values).values
        check_stable(len(given), 1 if multiplicity is None else multiplicity, margin)
        dtype = values.dtype if isinstance(values, Tensor) and values.is_floating_point() else None
        polynomial = torch.cat([given.new_ones(1), -given]).cpu().numpy()
        sizes = np.abs(polynomial)
        rounding = sizes * torch.finfo(dtype or given.dtype).eps
        if multiplicity is not None:
            rounding = np.full_like(sizes, SUM_TOLERANCE * sizes.max())
        found, rest = divide_by_ones(polynomial, multiplicity, rounding)
        if multiplicity not in (None, found):
            raise InputError(
                f"Expected coefficients that have 1 as a {multiplicity}-fold root, got {given.tolist()}, which have it "
                f"{found}-fold. Leave multiplicity out."
            )
        if margin is None:
            margin = margin_beside(rest, len(given), found)
        rule = cls(len(given), found, margin, num_layers).to(given.device, dtype)
        rule._start = factor_parameters(rest, margin)
        rule.reset_parameters()
        return rule

    def reset_parameters(self) -> None:
        """Return to the start: a given c, or `(x - 1)^m x^(o-m)`, or next to it."""
        with torch.no_grad():
            self.raw.copy_(torch.from_numpy(self._start))

    def vectors(self) -> Float[Tensor, "layers order"]:
        """Return the product of the factors of each vector."""
        return stable_coefficients(self.raw, self.multiplicity, self.margin)


class StableAttention(_FactoredCoefficients, AttentionCoefficients):
    """Attention that chooses the factors of the characteristic polynomial, so that c is zero-stable at every layer.

    The scores s of the current state over the history, those of `AttentionCoefficients`, become `s / sqrt(1 + |s|^2)`,
    a vector shorter than one. The parameters of the factors are a linear function of it, which starts as a constant, so
    that the rule starts as `StableCoefficients` does. There is one vector c per layer and batch element.

    Args:
        order: Number of past states that c weighs.
        channels: Channels of a state.
        multiplicity: m, how often 1 is a root.
        margin: How far all other roots stay from the unit circle. If None, as in `StableCoefficients`.
    """

    def __init__(self, order: int, channels: int, multiplicity: int = 1, margin: float | None = None) -> None:
        super().__init__(order, channels)
        self.multiplicity, self.margin = multiplicity, check_stable(order, multiplicity, margin)
        num_free = order - multiplicity
        self.raw, self.slope = nn.Parameter(torch.empty(num_free)), nn.Parameter(torch.empty(num_free, order))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw query and key anew. At first c does not depend on them."""
        super().reset_parameters()
        if hasattr(self, "raw"):  # not yet while the base class is initialized
            with torch.no_grad():
                self.raw.copy_(torch.from_numpy(start_parameters(len(self.raw), self.margin)))
                self.slope.zero_()

    def prepare(self) -> Combine:
        """Join query and key."""
        device_type = self.query.weight.device.type
        # c needs all digits, even if the rest of a network runs in half precision.
        with torch.autocast(device_type, enabled=False):
            score = join(self.query, self.key)

        def combine(history: History, layer: int) -> tuple[State, Coefficients]:  # noqa: ARG001
            self.check_history(history)
            check_fits(history[0], self.query.weight, self.channels)
            with torch.autocast(device_type, enabled=False):
                raw = self.raw + _bounded(mean_scores(score, history)).movedim(0, -1) @ self.slope.mT
                coefficients = stable_coefficients(raw, self.multiplicity, self.margin).movedim(-1, 0)
                return weighted_sum(coefficients, history), coefficients

        return combine


def _bounded(scores: Float[Tensor, order * batch]) -> Float[Tensor, order * batch]:
    """Return `s / sqrt(1 + |s|^2)`."""
    # The result does not depend on `size`, so the gradient may treat it as a constant. Squares do not overflow.
    size = scores.detach().abs().amax(dim=0, keepdim=True).clamp(min=1.0)
    scaled = scores / size
    return scaled * torch.rsqrt(size**-2 + scaled.square().sum(dim=0, keepdim=True))
