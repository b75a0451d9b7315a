"""A network on physical states: one layer of the integrator is one observed step.

There is no encoder and no decoder: c weighs the observed states themselves, and only s has hidden channels. So the
learned c can be read: its roots and derivative coefficients are those of the equation behind the data.
"""

from __future__ import annotations

from torch import nn

from tdegnn.core.coefficients import DirectCoefficients, TemporalCoefficients
from tdegnn.core.combination import History
from tdegnn.core.integrator import integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.graph import Graph, State
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator


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

    def extra_repr(self) -> str:
        """Return the sizes shown by `repr`."""
        return f"step_size={self.step_size}"
