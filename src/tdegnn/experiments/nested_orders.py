"""Which order do data have? Fit networks on physical states with longer and longer histories, and compare them.

For each history length o, a network is trained on some trajectories and judged on others by the explained share. The
share is near one at the true order and clearly lower below it, so the order of the data is the smallest o that explains
the o-th differences. One-step errors cannot tell: on smooth data a longer history extrapolates better for any system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tdegnn.analysis.order import explained_share, find_dynamics_order
from tdegnn.analysis.stencil import derivative_coefficients
from tdegnn.data.windows import backward_difference, one_step_windows
from tdegnn.errors import InputError, check_finite
from tdegnn.experiments.one_step import OneStepTask, one_step_trainee
from tdegnn.graph import Graph
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.parts import drawing_weights
from tdegnn.training.devices import single_thread
from tdegnn.training.loop import fit
from tdegnn.training.optimizers import Descent, QuasiNewton, VariableProjection

NetworkMaker: TypeAlias = Callable[[int, int, int, float], PhysicalNetwork]
ORDERS = (1, 2, 3, 4)
HIDDEN_CHANNELS = 16
FEWEST_TRAJECTORIES = 3


@dataclass(frozen=True)
class NestedEffort:
    """How each history length is trained: number of steps, and optimizer."""

    num_steps: int
    descent: Descent

    def to_record(self) -> dict[str, Any]:
        """Return the effort for a result line."""
        return {
            "num_steps": self.num_steps,
            "descents": [repr(self.descent)],
            "hidden_channels": HIDDEN_CHANNELS,
        }


PROJECTED = NestedEffort(10, VariableProjection())
# Descends c too. Fits above the true order do not always converge.
QUASI_NEWTON = NestedEffort(15, QuasiNewton())


@dataclass(frozen=True)
class OrderFit:
    """A fit of one history length.

    Attributes:
        order: The history length o.
        explained_share: Share of the o-th differences of held-out trajectories that the fit explains.
        coefficients: The learned c.
        derivative_coefficients: Its `D_1, ..., D_o`.
    """

    order: int
    explained_share: float
    coefficients: tuple[float, ...]
    derivative_coefficients: tuple[float, ...]


@dataclass(frozen=True)
class NestedFits:
    """Fits of several history lengths to the same data."""

    fits: tuple[OrderFit, ...]

    @property
    def shares(self) -> dict[int, float]:
        """Explained share by order."""
        return {order_fit.order: order_fit.explained_share for order_fit in self.fits}

    @property
    def dynamics_order(self) -> int | None:
        """The order of the data: the smallest one that explains enough. None if none does."""
        return find_dynamics_order(self.shares)


@single_thread()
def fit_nested_orders(
    states: Float[Tensor, "trajectories time nodes channels"],
    graph: Graph,
    step_size: float,
    orders: Sequence[int] = ORDERS,
    seed: int = 0,
    make_network: NetworkMaker = PhysicalNetwork.of_order,
    effort: NestedEffort = PROJECTED,
    on_fit: Callable[[], None] | None = None,
) -> NestedFits:
    """Fit every history length in `orders`.

    Args:
        states: Observed trajectories, preferably in float64. Two thirds are for training, a sixth chooses the weights,
            and the rest judges. Cut a long series into pieces to get trajectories.
        graph: The graph on which the states live.
        step_size: Time between two observations.
        orders: History lengths to fit.
        seed: Seed of the initial weights.
        make_network: Makes a network from order, channels, hidden channels and step size.
        effort: How each history length is trained.
        on_fit: Called after each fit.
    """
    if states.dim() != 4 or len(states) < FEWEST_TRAJECTORIES:
        raise InputError(
            "Expected states of shape (trajectories, time, nodes, channels) with at least "
            f"{FEWEST_TRAJECTORIES} trajectories, got {tuple(states.shape)}."
        )
    graph.check_state(states)
    check_finite(step_size=step_size)
    fits = []
    for order in orders:
        with drawing_weights(seed):
            network = make_network(order, states.shape[-1], HIDDEN_CHANNELS, step_size)
        fits.append(_fit(network.to(states.device, states.dtype), states, graph, effort))
        if on_fit is not None:
            on_fit()
    return NestedFits(tuple(fits))


def _fit(network: PhysicalNetwork, states: Tensor, graph: Graph, effort: NestedEffort) -> OrderFit:
    num_validation = max(1, len(states) // 6)
    num_training = min(max(1, len(states) * 2 // 3), len(states) - num_validation - 1)
    sizes = [num_training, num_validation, len(states) - num_training - num_validation]
    training, validation, test = (one_step_windows(subset, network.order) for subset in states.split(sizes))
    # In units of the variance to explain, the loss is one minus the explained share.
    task = OneStepTask(training, validation, graph, unit=float(backward_difference(training).var()))
    trainee = one_step_trainee(network, task, effort.descent, effort.num_steps)
    fit(trainee, num_steps=effort.num_steps, validate_every=1)
    with torch.no_grad():
        errors = network(test.history, graph) - test.target
        coefficients = tuple(network.coefficients(test.history, 0).tolist())
    share = explained_share(errors, backward_difference(test))
    return OrderFit(network.order, share, coefficients, tuple(derivative_coefficients(coefficients).tolist()))
