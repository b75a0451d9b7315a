"""Does TDE-GNN find the order of systems whose order is known? Heat, wave, damped wave, and a third-order system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tdegnn.data.simulators.physics import Simulation, simulate_heat, simulate_third_order, simulate_wave
from tdegnn.errors import InputError
from tdegnn.experiments.nested_orders import (
    ORDERS,
    PROJECTED,
    NestedEffort,
    NestedFits,
    NetworkMaker,
    fit_nested_orders,
)
from tdegnn.nets.physical import PhysicalNetwork

SYSTEMS: dict[str, Callable[..., Simulation]] = {
    "heat": simulate_heat,
    "wave": simulate_wave,
    "damped wave": partial(simulate_wave, damping=0.3),
    "third order": simulate_third_order,
}


@dataclass(frozen=True)
class KnownOrderResult:
    """Nested fits of one simulated system."""

    system: str
    true_order: int
    seed: int
    effort: NestedEffort
    nested: NestedFits

    def to_records(self) -> list[dict[str, Any]]:
        """Return one result line per fit. Weights were chosen on validation trajectories; shares are of test ones."""
        setting = {
            "experiment": "known orders",
            "protocol": "honest",
            "system": self.system,
            "true_order": self.true_order,
            "seed": self.seed,
            **self.effort.to_record(),
        }
        return [setting | vars(order_fit) for order_fit in self.nested.fits]


def run_known_order(
    system: str,
    seed: int = 0,
    orders: Sequence[int] = ORDERS,
    device: torch.device | None = None,
    make_network: NetworkMaker = PhysicalNetwork.of_order,
    effort: NestedEffort = PROJECTED,
    on_fit: Callable[[], None] | None = None,
) -> KnownOrderResult:
    """Simulate a system and fit nested orders.

    Args:
        system: A name in `SYSTEMS`.
        seed: Seed of the graph, the initial states and the initial weights.
        orders: History lengths to fit.
        device: Where to compute. Default: the CPU.
        make_network: See `fit_nested_orders`.
        effort: How each history length is trained.
        on_fit: Called after each fit.
    """
    if system not in SYSTEMS:
        raise InputError(f"Expected system to be one of {', '.join(SYSTEMS)}, got {system!r}.")
    simulation = SYSTEMS[system](seed=seed)
    states = simulation.states.to(device or torch.device("cpu"))
    nested = fit_nested_orders(
        states, simulation.graph, simulation.step_size, orders, seed, make_network, effort, on_fit
    )
    return KnownOrderResult(system, simulation.dynamics_order, seed, effort, nested)
