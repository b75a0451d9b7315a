"""Does TDE-GNN find the order of systems whose order is known? Heat, wave, damped wave, and a third-order system.

For each history length o a network on physical states is trained on some trajectories and judged on others, by
the explained share. Near one at the true order and above it, clearly lower below: so the smallest o that explains
the o-th differences is the order of the data. One-step errors would not do: on smooth data a longer history
extrapolates better for any system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tdegnn.analysis.order import derivative_coefficients, explained_share, find_dynamics_order
from tdegnn.data.physics import Simulation, simulate_heat, simulate_third_order, simulate_wave
from tdegnn.data.windows import Windows, backward_difference, one_step_windows
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.training.fit import fit
from tdegnn.training.optimizers import QuasiNewton

SYSTEMS: dict[str, Callable[..., Simulation]] = {
    "heat": simulate_heat,
    "wave": simulate_wave,
    "damped wave": partial(simulate_wave, damping=0.3),
    "third order": simulate_third_order,
}
NetworkMaker: TypeAlias = Callable[[int, int, int, float], PhysicalNetwork]
ORDERS = (1, 2, 3, 4)
HIDDEN_CHANNELS = 16
TRAINING_STEPS = 15


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
class KnownOrderResult:
    """Nested fits of one simulated system."""

    system: str
    true_order: int
    seed: int
    fits: tuple[OrderFit, ...]

    @property
    def shares(self) -> dict[int, float]:
        """Explained share by order."""
        return {order_fit.order: order_fit.explained_share for order_fit in self.fits}

    @property
    def found_order(self) -> int | None:
        """The order of the data, as the fits say."""
        return find_dynamics_order(self.shares)

    def to_records(self) -> list[dict[str, Any]]:
        """One result line a fit."""
        shared = {"system": self.system, "true_order": self.true_order, "seed": self.seed}
        return [shared | vars(order_fit) for order_fit in self.fits]


def run_known_order(
    system: str,
    seed: int = 0,
    orders: Sequence[int] = ORDERS,
    device: torch.device | None = None,
    make_network: NetworkMaker = PhysicalNetwork.of_order,
    on_fit: Callable[[], None] | None = None,
) -> KnownOrderResult:
    """Simulate a system and fit nested orders.

    Args:
        system: A name in `SYSTEMS`.
        seed: Seed of the graph, the initial states and the initial weights.
        orders: History lengths to fit.
        device: Where to compute; the CPU by default.
        make_network: Makes a network from order, channels, hidden channels and step size.
        on_fit: Called after each fit.
    """
    simulation = SYSTEMS[system](seed=seed)
    states = simulation.states.to(device or torch.device("cpu"))
    fits = []
    for order in orders:
        torch.manual_seed(seed)
        network = make_network(order, states.shape[-1], HIDDEN_CHANNELS, simulation.step_size)
        fits.append(_fit(network.to(states.device, states.dtype), simulation, states))
        if on_fit is not None:
            on_fit()
    return KnownOrderResult(system, simulation.dynamics_order, seed, tuple(fits))


def _fit(network: PhysicalNetwork, simulation: Simulation, states: Tensor) -> OrderFit:
    # Two thirds of the trajectories to train on, a sixth to choose the weights, a sixth to judge.
    order, num_trajectories = network.order, len(states)
    training, validation, test = (
        one_step_windows(part, order)
        for part in states.split([num_trajectories * 2 // 3, num_trajectories // 6, num_trajectories // 6])
    )
    optimizer, scheduler = QuasiNewton().build(network.parameters(), TRAINING_STEPS)
    # In units of the difference that is to be explained, the loss is one minus the explained share.
    unit = float(backward_difference(training).var())

    def unexplained(windows: Windows) -> Tensor:
        predicted: Tensor = network(windows.history, simulation.graph)
        return (predicted - windows.target).square().mean() / unit

    fit(
        network,
        partial(unexplained, training),
        partial(unexplained, validation),
        optimizer,
        num_steps=TRAINING_STEPS,
        validate_every=1,
        scheduler=scheduler,
    )
    with torch.no_grad():
        errors = network(test.history, simulation.graph) - test.target
        coefficients = tuple(network.coefficients(test.history, 0).tolist())
    share = explained_share(errors.cpu().numpy(), backward_difference(test).cpu().numpy())
    return OrderFit(order, share, coefficients, tuple(derivative_coefficients(coefficients).tolist()))
