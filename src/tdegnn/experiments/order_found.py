"""Is the order of a system found from its data alone, and up to which noise? `find_order` on simulated systems.

One procedure with one set of constants for all systems: it sees the states and the graph, never the name. White noise
is added to every observation, of a standard deviation that is a share of the states' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tdegnn.analysis.order_report import OrderFound
from tdegnn.analysis.order_search import find_order
from tdegnn.data.physics import Simulation, simulate_pendulum
from tdegnn.errors import InputError, check_count, check_finite
from tdegnn.experiments.known_orders import SYSTEMS as GRAPH_SYSTEMS
from tdegnn.experiments.records import append_lines, describe_environment, read_lines
from tdegnn.training.json_values import finite_or_null

NUM_SEEDS = 20
# Shares of the standard deviation of the states. The first four are what was asked for, the others show where it breaks.
NOISES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
# Number of right verdicts among 20 from which on a system counts as found.
ENOUGH_RIGHT = 18
# A pendulum that is let go higher may turn over, and its angle then grows without bound.
INITIAL_ANGLES = (0.5, 2.0)


def simulate_swing(seed: int) -> Simulation:
    """The pendulum of the paper from an initial angle that depends on the seed."""
    return simulate_pendulum(initial_angle=float(np.random.default_rng(seed).uniform(*INITIAL_ANGLES)))


SYSTEMS: dict[str, Callable[..., Simulation]] = {**GRAPH_SYSTEMS, "pendulum": simulate_swing}


@dataclass(frozen=True)
class OrderRun:
    """The order found for one noisy system."""

    system: str
    true_order: int
    seed: int
    noise: float
    found: OrderFound

    def to_record(self) -> dict[str, Any]:
        """A result line."""
        found = self.found
        return {
            "experiment": "order found",
            "protocol": "honest",
            "system": self.system,
            "true_order": self.true_order,
            "seed": self.seed,
            "noise": self.noise,
            "order": found.order,
            "agreement": found.agreement,
            "reason": found.reason,
            "noise_found": _round(found.noise_share),
            "explained_shares": [_round(trial.explained_share) for trial in found.trials],
            "chosen": [trial.chosen for trial in found.trials],
            "derivatives": [
                {
                    "order": entry.order,
                    "weight": _round(entry.weight),
                    "low": _round(entry.low),
                    "high": _round(entry.high),
                    "takes_part": entry.takes_part,
                }
                for entry in found.derivatives
            ],
            "num_resamples": found.num_resamples,
        }


def run_order(system: str, seed: int = 0, noise: float = 0.0) -> OrderRun:
    """Simulate a system, add noise, and find its order.

    Args:
        system: A name in `SYSTEMS`.
        seed: Seed of the graph, the initial states, the noise and the resamples.
        noise: Standard deviation of the noise, over that of the states.
    """
    if system not in SYSTEMS:
        raise InputError(f"Expected system to be one of {', '.join(SYSTEMS)}, got {system!r}.")
    check_count(0, seed=seed)
    check_finite(noise=noise)
    if noise < 0:
        raise InputError(f"Expected noise to be at least 0, got {noise}.")
    simulation = SYSTEMS[system](seed=seed)
    states = simulation.states.numpy()
    # Another stream than the initial states', which are drawn with the plain seed.
    disturbance = np.random.default_rng([seed, 1]).standard_normal(states.shape)
    noisy = states + noise * states.std() * disturbance
    found = find_order(noisy, simulation.graph, step_size=simulation.step_size, seed=seed)
    return OrderRun(system, simulation.dynamics_order, seed, noise, found)


def run_missing(
    path: Path,
    systems: Iterable[str] = tuple(SYSTEMS),
    noises: Sequence[float] = NOISES,
    seeds: Sequence[int] = range(NUM_SEEDS),
    on_run: Callable[[str], None] | None = None,
) -> None:
    """Run what has no line in `path` yet, and add the lines one by one."""
    done = {(line["system"], line["noise"], line["seed"]) for line in read_lines(path)}
    environment = describe_environment(torch.device("cpu"))
    for system in systems:
        for noise in noises:
            for seed in seeds:
                if (system, noise, seed) not in done:
                    append_lines(path, [finite_or_null(run_order(system, seed, noise).to_record() | environment)])
                if on_run is not None:
                    on_run(f"{system}, {noise:.1%}")


@dataclass(frozen=True)
class OrderCell:
    """Verdicts on one system at one noise.

    Attributes:
        num_runs: Number of seeds.
        num_right: Verdicts with the true order.
        num_wrong: Verdicts with another order. The rest said that the data cannot tell.
        num_damped: Verdicts with the true order in which D_1 takes part.
    """

    num_runs: int
    num_right: int
    num_wrong: int
    num_damped: int


def summarize_orders(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, float], OrderCell]:
    """Cells by system and noise."""
    groups: dict[tuple[str, float], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["system"], line["noise"]), []).append(line)
    cells = {}
    for key, members in groups.items():
        right = [line for line in members if line["order"] == line["true_order"]]
        wrong = [line for line in members if line["order"] not in (None, line["true_order"])]
        damped = [line for line in right if line["derivatives"] and line["derivatives"][0]["takes_part"]]
        cells[key] = OrderCell(len(members), len(right), len(wrong), len(damped))
    return cells


def breaking_noises(cells: Mapping[tuple[str, float], OrderCell]) -> dict[str, float | None]:
    """The lowest noise at which fewer than 18 of 20 verdicts are right, by system; `None` where there is none."""
    broken: dict[str, float | None] = {}
    for (system, noise), cell in sorted(cells.items(), key=lambda item: item[0][1]):
        broken.setdefault(system, None)
        if broken[system] is None and cell.num_right * NUM_SEEDS < ENOUGH_RIGHT * cell.num_runs:
            broken[system] = noise
    return broken


def _round(value: float | None) -> float | None:
    """Five significant digits: result lines are many."""
    return None if value is None else float(f"{value:.5g}")
