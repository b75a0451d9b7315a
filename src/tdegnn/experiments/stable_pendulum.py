"""The pendulum at order 5, where the paper's c is unstable: relearned with stable coefficients, and with free ones.

Data, split, network, effort and choice by validation are those of `pendulum.py`; only the rule for c differs. Stable
coefficients have 1 as a double root, which a pendulum needs, or as a simple one. They are compared with the c that the
paper prints, with a new spatial term and without one. After training, each model runs on its own predictions, ten times
as long as the pendulum was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.analysis.report import CoefficientReport, explain
from tdegnn.core.coefficients import DirectCoefficients, FixedCoefficients, TemporalCoefficients
from tdegnn.core.stable import StableCoefficients
from tdegnn.data.simulators.physics import simulate_pendulum
from tdegnn.errors import InputError
from tdegnn.experiments.paper import PENDULUM_COEFFICIENTS
from tdegnn.experiments.pendulum import (
    BOB,
    ROLL_OUT_STEPS,
    Effort,
    ModelResult,
    PendulumData,
    measure_model,
    pin,
    train_best,
)
from tdegnn.metrics import mean_squared_error
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.nets.rollout import PinnedPredictor, roll_out
from tdegnn.operators.hidden_diffusion import HiddenDiffusionOperator
from tdegnn.training.devices import single_thread

ORDER = 5
RUN_STEPS, LONG_RUN_STEPS = 1000, 10_000
# A run is bounded while it stays within this many times the true amplitude.
BOUND = 2.0
# Longer than one swing, which takes 67 steps.
SWING_STEPS = 100


@dataclass(frozen=True)
class Contestant:
    """A rule for c at order 5, and whether it has a spatial term.

    Attributes:
        make_rule: Makes the rule.
        num_fixed_roots: Multiplicity of the root 1 that the rule guarantees.
        has_operator: Whether a spatial term is learned. If not, nothing is learned.
    """

    make_rule: Callable[[], TemporalCoefficients]
    num_fixed_roots: int = 1
    has_operator: bool = True


FREE, STABLE, PRINTED = "free", "stable, m = 2", "printed"
CONTESTANTS = {
    FREE: Contestant(partial(DirectCoefficients, ORDER)),
    STABLE: Contestant(partial(StableCoefficients, ORDER, multiplicity=2), num_fixed_roots=2),
    "stable, m = 1": Contestant(partial(StableCoefficients, ORDER, multiplicity=1)),
    PRINTED: Contestant(partial(FixedCoefficients, PENDULUM_COEFFICIENTS[ORDER])),
    "printed, s = 0": Contestant(partial(FixedCoefficients, PENDULUM_COEFFICIENTS[ORDER]), has_operator=False),
}


@dataclass(frozen=True)
class FreeRun:
    """A model on its own predictions, from the first test window on, and the true pendulum.

    Attributes:
        angles: The predicted angle of the bob.
        truth: Its true angle.
    """

    angles: Float[np.ndarray, " steps"]
    truth: Float[np.ndarray, " steps"]

    @property
    def relative_angles(self) -> Float[np.ndarray, " steps"]:
        """Absolute values of the predicted angles, in units of the true amplitude."""
        return np.asarray(np.abs(self.angles) / np.abs(self.truth).max())

    def largest_angle(self, num_steps: int) -> float:
        """Return the largest of the first `num_steps` relative angles."""
        return float(self.relative_angles[:num_steps].max())

    def last_swing(self, num_steps: int) -> float:
        """Return the largest relative angle of the last swing within `num_steps`: it shows if swings grow or decay."""
        return float(self.relative_angles[:num_steps][-SWING_STEPS:].max())

    @property
    def num_bounded_steps(self) -> int:
        """Number of steps before the run first exceeds the bound; all steps if it never does."""
        is_beyond = ~(self.relative_angles <= BOUND)  # NaN exceeds the bound too
        return int(np.argmax(is_beyond)) if is_beyond.any() else len(is_beyond)

    def mse(self, num_steps: int) -> float:
        """Return the mean squared error of the first `num_steps` steps."""
        return float(mean_squared_error(self.angles[:num_steps], self.truth[:num_steps]))


@dataclass(frozen=True)
class StablePendulumResult:
    """The result of one contestant with one seed.

    Attributes:
        contestant: Its name.
        rule: Its rule for c, as text.
        seed: Seed of the initial weights. None if nothing was learned.
        effort: The effort of its training.
        model: Errors and c, as in the pendulum experiment.
        run: The model on its own predictions.
    """

    contestant: str
    rule: str
    seed: int | None
    effort: Effort
    model: ModelResult
    run: FreeRun = field(repr=False)

    @property
    def report(self) -> CoefficientReport:
        """The analysis of c."""
        assert self.model.coefficients is not None  # all contestants have one
        return explain(self.model.coefficients)

    @property
    def max_free_root_modulus(self) -> float:
        """Largest modulus of the roots that the rule does not hold at 1."""
        roots = np.array(self.report.roots)
        nearest_first = roots[np.argsort(np.abs(roots - 1), kind="stable")]
        return float(np.abs(nearest_first[CONTESTANTS[self.contestant].num_fixed_roots :]).max())

    @property
    def is_bounded(self) -> bool:
        """Whether the run of 1,000 steps never exceeds the bound."""
        return self.run.num_bounded_steps >= min(RUN_STEPS, len(self.run.angles))

    def to_record(self) -> dict[str, Any]:
        """Return a result line. Weights were chosen on validation; errors are of the test steps and of later ones."""
        report, model = self.report, self.model
        return {
            "experiment": "stable pendulum",
            "protocol": "honest",
            "model": self.contestant,
            "rule": self.rule,
            "order": model.order,
            "seed": self.seed,
            "num_steps": self.effort.num_steps,
            "descents": [repr(descent) for descent in self.effort.descents],
            "descent": model.descent,
            "num_parameters": model.num_parameters,
            "validation_mse": model.validation_mse,
            "one_step_mse": model.one_step_mse,
            "explained_share": model.explained_share,
            "coefficients": model.coefficients,
            "roots": [[root.real, root.imag] for root in report.roots],
            "max_root_modulus": report.max_root_modulus,
            "max_free_root_modulus": self.max_free_root_modulus,
            "root_multiplicity": report.root_multiplicity,
            "is_zero_stable": report.is_stable,
            "tolerance": report.tolerance,
            "roll_out_mse": model.roll_out_mse,
            "run_mse_100": self.run.mse(ROLL_OUT_STEPS),
            "run_mse_1000": self.run.mse(RUN_STEPS),
            "largest_angle": self.run.largest_angle(RUN_STEPS),
            "is_bounded": self.is_bounded,
            "last_swing": self.run.last_swing(RUN_STEPS),
            "num_bounded_steps": self.run.num_bounded_steps,
            "last_swing_of_10000": self.run.last_swing(LONG_RUN_STEPS),
            "seconds": model.seconds,
        }


@single_thread()
def run_contestant(
    name: str,
    data: PendulumData,
    seed: int = 0,
    effort: Effort | None = None,
    on_step: Callable[[str], None] | None = None,
) -> StablePendulumResult:
    """Train one contestant like the models of the pendulum experiment, and let it run.

    Args:
        name: One of `CONTESTANTS`.
        data: Result of `make_pendulum`, with observed angles.
        seed: Seed of the initial weights.
        effort: The effort of the training.
        on_step: Called with the name after every training step.
    """
    if name not in CONTESTANTS:
        raise InputError(f"Expected a contestant among {', '.join(CONTESTANTS)}, got {name!r}.")
    contestant, effort = CONTESTANTS[name], effort or Effort()
    make = partial(_make_network, contestant, data, effort)
    if contestant.has_operator:
        tick = None if on_step is None else partial(on_step, name)
        model, descent, seconds, fitted = train_best(make, data, effort, seed, tick)
        measured = measure_model(name, model, data, descent, seconds, fitted)
    else:
        model = pin(make(), data)
        measured = measure_model(name, model, data, None, 0.0, None)
    rule = repr(contestant.make_rule())
    run = _run_freely(model, data, LONG_RUN_STEPS)
    return StablePendulumResult(name, rule, seed if contestant.has_operator else None, effort, measured, run)


def run_stable_pendulum(
    data: PendulumData,
    seeds: Sequence[int],
    effort: Effort | None = None,
    on_step: Callable[[str], None] | None = None,
) -> list[StablePendulumResult]:
    """Run all contestants with all seeds. A contestant that learns nothing has no seed and is run once."""
    trained = [name for name, contestant in CONTESTANTS.items() if contestant.has_operator]
    results = [run_contestant(name, data, seed, effort, on_step) for seed in seeds for name in trained]
    return results + [run_contestant(name, data, 0, effort) for name in CONTESTANTS if name not in trained]


def count_steps(effort: Effort, num_seeds: int) -> int:
    """Return the number of training steps that `run_stable_pendulum` makes."""
    num_trained = sum(contestant.has_operator for contestant in CONTESTANTS.values())
    return effort.num_steps * len(effort.descents) * num_trained * num_seeds


def _make_network(contestant: Contestant, data: PendulumData, effort: Effort) -> PhysicalNetwork:
    operator = HiddenDiffusionOperator(data.states.shape[-1], effort.hidden_channels)
    if not contestant.has_operator:
        nn.init.zeros_(operator.readout.weight)
    return PhysicalNetwork(contestant.make_rule(), operator, data.simulation.step_size)


def _run_freely(model: PinnedPredictor, data: PendulumData, num_steps: int) -> FreeRun:
    start, _ = data.bounds["test"]
    history = tuple(data.states[0, start - 1 - past] for past in range(model.order))
    predicted = roll_out(model, history, data.simulation.graph, num_steps)
    # The observations end long before the run does, so the pendulum is simulated further.
    longer = simulate_pendulum(start + num_steps, data.simulation.step_size).states
    return FreeRun(_angles_of(predicted), _angles_of(longer[0, start:]))


def _angles_of(states: Float[Tensor, "steps nodes 1"]) -> Float[np.ndarray, " steps"]:
    return states[:, BOB, 0].cpu().numpy()
