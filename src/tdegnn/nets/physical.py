"""A network on physical states: one layer of the integrator is one observed step.

There is no encoder and no decoder: c weighs the observed states themselves, and only s has hidden channels. So the
learned c can be read: its roots and derivative coefficients are those of the equation behind the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import comb

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.core.coefficients import DirectCoefficients, TemporalCoefficients
from tdegnn.core.combination import History
from tdegnn.core.integrator import integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError
from tdegnn.graph import Graph, State
from tdegnn.nets.projection import LinearTerms, spread_over_channels
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator

# Longer stencils have a sum of less than 1 % of the sum of their sizes, where `DirectCoefficients` limits c.
LONGEST_SOLVED = 6


class PhysicalNetwork(nn.Module):
    """Predict the next state as `sum_p c_p F[l-p+1] + h s(F[l]; G)`.

    Args:
        coefficients: The rule for c.
        operator: The spatial term s.
        step_size: h, the time between two observations.
    """

    def __init__(self, coefficients: TemporalCoefficients, operator: SpatialOperator, step_size: float) -> None:
        super().__init__()
        self.coefficients, self.operator, self.step_size = coefficients, operator, step_size

    @classmethod
    def of_order(cls, order: int, channels: int, hidden_channels: int, step_size: float) -> PhysicalNetwork:
        """Make the usual network: a learned vector c of this length, and a spatial term with one hidden layer."""
        operator = HiddenDiffusionOperator(channels, hidden_channels)
        return cls(DirectCoefficients(order), operator, step_size)

    @property
    def order(self) -> int:
        """Number of states the network looks at."""
        return self.coefficients.order

    def forward(self, history: History, graph: Graph) -> State:
        """Return the state that follows the history."""
        result = integrate(history, graph, self.coefficients, self.operator, num_layers=1, step_size=self.step_size)
        return result.state

    def linear_terms(self, history: History, graph: Graph) -> LinearTerms:
        """Return the prediction as a sum that is linear in c and in the readout of s.

        With all weights zero it is the plain stencil of backward differences, `2 F[l] - F[l-1]` for two states: a
        solution is never worse than that. Each further weight adds a difference of the history, which keeps
        `sum c = 1`.
        """
        _, operator = self._linear_parts()
        stencil = _differences(len(history))
        past = torch.stack(history, dim=-1) @ torch.tensor(stencil).to(history[0]).mT
        hidden = self.step_size * operator.hidden_state(history[0], graph)
        rates = spread_over_channels(hidden, operator.channels)
        num_differences = len(stencil) - 1
        is_penalized = torch.arange(num_differences + rates.shape[-1], device=hidden.device) >= num_differences
        return LinearTerms(past.sum(dim=-1), torch.cat([past[..., 1:], rates], dim=-1), is_penalized)

    def assign_linear(self, weights: Float[Tensor, " weights"]) -> None:
        """Set c and the readout of s from the weights of `linear_terms`."""
        rule, operator = self._linear_parts()
        stencil = torch.tensor(_differences(self.order)).to(weights)
        num_differences = len(stencil) - 1
        coefficients = stencil.sum(dim=0) + weights[:num_differences] @ stencil[1:]
        with torch.no_grad():
            rule.raw.copy_(coefficients)
            operator.readout.weight.copy_(weights[num_differences:].view_as(operator.readout.weight))

    def other_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters of s that are not its readout."""
        _, operator = self._linear_parts()
        return [*operator.state_map.parameters(), *operator.difference_map.parameters()]

    def _linear_parts(self) -> tuple[DirectCoefficients, HiddenDiffusionOperator]:
        rule, operator = self.coefficients, self.operator
        if rule.order > LONGEST_SOLVED:
            raise InputError(
                f"Expected a history of at most {LONGEST_SOLVED} states for variable projection, got {rule.order}. "
                "Use another optimizer."
            )
        if type(rule) is DirectCoefficients and type(operator) is HiddenDiffusionOperator:
            return rule, operator
        raise InputError(
            "Expected DirectCoefficients and a HiddenDiffusionOperator, which variable projection can solve for, got "
            f"{type(rule).__name__} and {type(operator).__name__}. Use another optimizer."
        )

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"step_size={self.step_size}"


def _differences(order: int) -> list[list[float]]:
    """Return the stencils of the backward differences of orders 0 to `order` - 1, one row each."""
    return [[float((-1) ** p * comb(j, p)) for p in range(order)] for j in range(order)]
