"""Temporal coefficients between diffusion and waves: `c = (1 + b, -b)` with `b = sigmoid(t)`, one learned number.

`b = 0` is forward Euler, `(1, 0)`, and `b = 1` leapfrog, `(2, -1)`. This is the mixed dynamics of PDE-GCN (Eliasof,
Haber, Treister, 2021, PDE-GCN: Novel Architectures for Graph Neural Networks Motivated by Partial Differential
Equations). The characteristic roots are 1 and b, so that c is zero-stable for any t.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import VectorCoefficients


class MixedCoefficients(VectorCoefficients):
    """A learned mix of first and second order in time, `c = (1 + b, -b)` with `b = sigmoid(t)`. Starts at `b = 1/2`.

    Paper: PDE-GCN mixes the second and the first difference in time with a learned weight a = sigmoid(t),
    `a (F[l+1] - 2 F[l] + F[l-1]) / h^2 + (1 - a) (F[l+1] - F[l]) / h = s`. Solved for the next state, with
    `d = a / h^2 + (1 - a) / h`:
    `F[l+1] = ((2 a / h^2 + (1 - a) / h) F[l] - (a / h^2) F[l-1] + s) / d = (1 + b) F[l] - b F[l-1] + s / d`,
    where `b = (a / h^2) / d = a / (a + (1 - a) h)`. This is again a sigmoid, `b = sigmoid(t - log h)`.

    Deviation: b is learned instead of a, which only moves t by log h. The factor of the rate is h for any b, while
    1 / d goes from h (b = 0) to h^2 (b = 1).

    Args:
        num_layers: Number of layers, each with its own t. If None, all layers share one, as in PDE-GCN.
    """

    def __init__(self, num_layers: int | None = None) -> None:
        super().__init__(2, num_layers)
        self.raw = nn.Parameter(torch.empty(num_layers or 1, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to the middle, `c = (1.5, -0.5)`."""
        nn.init.zeros_(self.raw)

    def vectors(self) -> Float[Tensor, "layers order"]:
        """Return `(1 + b, -b)` of each layer."""
        second_order = torch.sigmoid(self.raw)
        return torch.cat([1 + second_order, -second_order], dim=-1)
