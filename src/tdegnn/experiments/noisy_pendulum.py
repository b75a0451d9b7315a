"""The pendulum once more, with so much noise that its differences drown in it: is its order still found?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tdegnn.analysis.order_report import OrderFound
from tdegnn.analysis.order_search import find_order
from tdegnn.experiments.pendulum import BOB, PendulumData

# Standard deviation of the noise, over that of the angle.
NOISE = 0.2


@dataclass(frozen=True)
class NoisyPendulum:
    """A pendulum that is observed with noise, and its order as the noisy series show it.

    Attributes:
        angles: The angle of the bob without noise.
        observed: The angle as it is observed.
        noise: Standard deviation of the noise, over that of the angle.
        found: The order, found from the noisy series alone.
    """

    angles: Float[np.ndarray, " time"]
    observed: Float[np.ndarray, " time"]
    noise: float
    found: OrderFound

    @property
    def noise_of_second_differences(self) -> float:
        """How many times as large as the second differences of the angle those of the noise are."""
        noise = np.diff(self.observed - self.angles, 2)
        return float(noise.std() / np.diff(self.angles, 2).std())

    def verdict(self) -> str:
        """Return what was done and found, in a few sentences."""
        return (
            f"The same pendulum, with noise of {self.noise:.0%} on every angle. In the second differences, the noise "
            f"is {self.noise_of_second_differences:.0f} times as large as the signal. What the noisy series say of "
            f"their order: {self.found.verdict}"
        )


def observe_with_noise(data: PendulumData, seed: int = 0, noise: float = NOISE) -> NoisyPendulum:
    """Add white noise to the angle of the bob, and find the order of what is then seen.

    Args:
        data: From `make_pendulum`, with observed angles.
        seed: Seed of the noise and of the resamples.
        noise: Standard deviation of the noise, over that of the angle.
    """
    states = data.simulation.states.numpy().copy()
    angles = states[0, :, BOB, 0].copy()
    states[0, :, BOB, 0] += noise * angles.std() * np.random.default_rng(seed).standard_normal(len(angles))
    found = find_order(states, data.simulation.graph, step_size=data.simulation.step_size, seed=seed)
    return NoisyPendulum(angles, states[0, :, BOB, 0], noise, found)
