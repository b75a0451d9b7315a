"""The paper's Example 1: which models can predict a pendulum, and which order do they find?

A naive forecast, an LSTM that sees one state, an LSTM that sees two, and TDE-GNN of orders 1 to 5 predict the next
angle. All have the same data and the same effort: full batches, the same number of steps, and the same optimizers,
among which validation chooses. Pivot and bob are two nodes; the pivot does not move. `Effort()` is the usual way, Adam,
after which fits of long histories have not converged; with `Effort.projected()` every order converges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from math import floor
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.analysis.order import explained_share, find_dynamics_order, show_share
from tdegnn.analysis.report import CoefficientReport, explain, ordinal
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH, LOOSE_TOLERANCE
from tdegnn.core.combination import History
from tdegnn.data.simulators.physics import PendulumFeatures, Simulation, simulate_pendulum
from tdegnn.data.windows import OneStepWindows, backward_difference, one_step_windows
from tdegnn.errors import InputError
from tdegnn.experiments.one_step import OneStepTask, one_step_trainee
from tdegnn.metrics import mean_squared_error
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.nets.rollout import PinnedPredictor, roll_out
from tdegnn.parts import drawing_weights
from tdegnn.rivals.next_state import GraphLSTM, NaivePredictor
from tdegnn.training.devices import single_thread
from tdegnn.training.loop import FitResult, fit
from tdegnn.training.optimizers import CosineAdam, Descent, QuasiNewton, VariableProjection

BOB = 1
ROLL_OUT_STEPS = 100
ORDERS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Effort:
    """The effort for each trained model: steps, optimizers to choose from, hidden channels, steps per validation."""

    num_steps: int = 1000
    descents: tuple[Descent, ...] = (CosineAdam(0.003), CosineAdam(0.01), CosineAdam(0.03))
    hidden_channels: int = 32
    validate_every: int = 10

    @classmethod
    def quasi_newton(cls) -> Effort:
        """Return the default number of iterations, but of L-BFGS: the best that precise optimization can reach."""
        descent = QuasiNewton()
        return cls(num_steps=1000 // descent.iterations_per_step, descents=(descent,))

    @classmethod
    def projected(cls) -> Effort:
        """Return 100 iterations of L-BFGS, between which all weights that can be solved in closed form are.

        These are c and the readout of s, and the readout of an LSTM.
        """
        descents = tuple(VariableProjection(ridge=ridge) for ridge in (1e-4, 1e-6, 1e-8))
        return cls(num_steps=5, descents=descents, validate_every=1)


@dataclass(frozen=True)
class PendulumData:
    """The simulated pendulum, split in time 60 / 20 / 20 %."""

    simulation: Simulation
    device: torch.device

    @property
    def states(self) -> Float[Tensor, "1 time 2 channels"]:
        """All observations, on the device."""
        return self.simulation.states.to(self.device)

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """The first predicted step of each subset, and the one after its last."""
        num_steps = self.simulation.states.shape[1]
        training, validation = int(0.6 * num_steps), int(0.8 * num_steps)
        return {
            "training": (0, training),
            "validation": (training, validation),
            "test": (validation, num_steps),
        }

    def windows(self, subset: str, order: int) -> OneStepWindows:
        """Return the histories whose next state lies in the subset. Only inputs may lie before it."""
        start, stop = self.bounds[subset]
        return one_step_windows(self.states[:, max(0, start - order) : stop], order)

    def roll_out_starts(self, order: int, num_steps: int) -> tuple[History, Float[Tensor, "steps starts channels"]]:
        """Return the histories at every test step that leaves room for `num_steps`, and the true path of the bob."""
        start, stop = self.bounds["test"]
        starts = range(start, stop - num_steps + 1)
        states = self.states[0]
        history = tuple(torch.stack([states[s - 1 - p] for s in starts]) for p in range(order))
        truth = torch.stack([states[s : s + num_steps, BOB] for s in starts], dim=1)
        return history, truth


@dataclass(frozen=True)
class ModelResult:
    """The result of one model.

    Attributes:
        model: Its name.
        order: Number of states that it sees.
        num_parameters: Number of trained parameters.
        descent: The optimizer that validation chose.
        validation_mse: One-step error by which it was chosen.
        one_step_mse: One-step error on the test steps.
        roll_out_mse: Error over 100 free-running steps, mean over all starts among the test steps.
        explained_share: For TDE-GNN, the share of the o-th differences of the test steps that it explains.
        coefficients: For TDE-GNN, the learned c.
        seconds: Training time over all optimizers.
        curve_steps: Steps at which validation was measured, for the chosen optimizer.
        curve: The one-step validation error at these steps.
        roll_out: One free run from the first test step, for the figure.
    """

    model: str
    order: int
    num_parameters: int
    descent: str | None
    validation_mse: float
    one_step_mse: float
    roll_out_mse: float
    explained_share: float | None
    coefficients: tuple[float, ...] | None
    seconds: float
    curve_steps: tuple[int, ...] = field(repr=False)
    curve: tuple[float, ...] = field(repr=False)
    roll_out: Float[np.ndarray, "steps channels"] = field(repr=False)

    def report(self) -> CoefficientReport | None:
        """Return the analysis of the learned c; None for models without one."""
        return None if self.coefficients is None else explain(self.coefficients, LOOSE_TOLERANCE)

    def to_record(self) -> dict[str, Any]:
        """Return the numbers, without curves and runs."""
        report = self.report()
        record = {
            name: value for name, value in asdict(self).items() if name not in ("curve_steps", "curve", "roll_out")
        }
        return record | ({} if report is None else {"analysis": report.to_dict()})


@dataclass(frozen=True)
class PendulumResult:
    """Results of all models on one pendulum."""

    data: PendulumData
    seed: int
    effort: Effort
    models: tuple[ModelResult, ...]

    def __getitem__(self, model: str) -> ModelResult:
        names = [result.model for result in self.models]
        if model not in names:
            raise InputError(f"Expected a model that was run, one of {', '.join(names)}, got {model!r}.")
        return self.models[names.index(model)]

    @property
    def by_order(self) -> Mapping[int, ModelResult]:
        """The TDE-GNN results by order."""
        return {result.order: result for result in self.models if result.coefficients is not None}

    @property
    def shares(self) -> dict[int, float]:
        """Explained share by order."""
        return {order: result.explained_share or 0.0 for order, result in self.by_order.items()}

    @property
    def dynamics_order(self) -> int | None:
        """The order of the data, from the nested fits."""
        return find_dynamics_order(self.shares)

    @property
    def has_unconverged_orders(self) -> bool:
        """Whether a fit above the order of the data explains less than it could, which is as much as that order."""
        order = self.dynamics_order
        return order is not None and any(o > order and s < EXPLAINED_ENOUGH for o, s in self.shares.items())

    def to_records(self) -> list[dict[str, Any]]:
        """Return one result line per model. Weights were chosen on validation; errors are those of the test steps."""
        setting = {
            "experiment": "pendulum",
            "protocol": "honest",
            "seed": self.seed,
            "observed_channels": self.data.states.shape[-1],
            "num_steps": self.effort.num_steps,
            "descents": [repr(descent) for descent in self.effort.descents],
        }
        return [setting | model.to_record() for model in self.models]

    def verdict(self) -> str:
        """Return the result of the experiment in a few sentences."""
        shares, order = self.shares, self.dynamics_order
        if order is None:
            return "No order explains the data: " + ", ".join(
                f"{o}: {show_share(share)}" for o, share in shares.items()
            )
        lower = [
            f"Order {o} cannot do it: it explains {_percent(shares[o])} of the {ordinal(o)} differences."
            for o in sorted(shares)
            if o < order
        ]
        learned = ", ".join(f"{value:.4f}" for value in self.by_order[order].coefficients or ())
        found = (
            f"The pendulum is a system of {ordinal(order)} order: a history of {order} explains "
            f"{_percent(shares[order])} of the {ordinal(order)} differences, with c = [{learned}]."
        )
        return " ".join([*lower, found, *self._say_of_longer_histories(order)])

    def _say_of_longer_histories(self, order: int) -> list[str]:
        """Return what the fits above the order of the data say, in at most one sentence."""
        longer = [o for o in sorted(self.shares) if o > order]
        if longer and not self.has_unconverged_orders:
            listed, lowest = ", ".join(map(str, longer)), min(self.shares[o] for o in longer)
            return [
                f"Longer histories ({listed}) explain enough too, {_percent(lowest)} or more: they contain this one."
            ]
        agreeing = [
            str(o)
            for o in longer
            if (report := self.by_order[o].report()) is not None and report.root_multiplicity == order
        ]
        said = f"Longer histories ({', '.join(agreeing)}) say the same: 1 is a {order}-fold root of their c."
        return [said] if agreeing else []


def _percent(share: float) -> str:
    """Return a share in percent, rounded down, so that no share below 1 reads 100%. Below 0, nothing is explained."""
    return f"{floor(1000 * max(share, 0.0)) / 10:.1f}%"


def make_pendulum(features: PendulumFeatures = "angle", device: torch.device | None = None) -> PendulumData:
    """Simulate the pendulum of the paper: 1,000 observations at step 0.1."""
    return PendulumData(simulate_pendulum(features=features), device or torch.device("cpu"))


@single_thread()
def run_pendulum(
    data: PendulumData,
    seed: int = 0,
    effort: Effort | None = None,
    orders: tuple[int, ...] = ORDERS,
    on_step: Callable[[str], None] | None = None,
) -> PendulumResult:
    """Train and test all models.

    Args:
        data: From `make_pendulum`.
        seed: Seed of the initial weights.
        effort: The effort for each model.
        orders: Orders of TDE-GNN.
        on_step: Called with the model's name after every training step, `count_steps` times in all.
    """
    effort = effort or Effort()
    channels, hidden = data.states.shape[-1], effort.hidden_channels
    step_size = data.simulation.step_size
    makers: dict[str, Callable[[], nn.Module]] = {
        "LSTM, one state": partial(GraphLSTM, 1, channels, hidden),
        "LSTM, two states": partial(GraphLSTM, 2, channels, hidden),
    }
    for order in orders:
        makers[f"TDE-GNN, order {order}"] = partial(PhysicalNetwork.of_order, order, channels, hidden, step_size)
    results = [measure_model("naive", pin(NaivePredictor(), data), data, None, 0.0, None)]
    for name, make in makers.items():
        tick = None if on_step is None else partial(on_step, name)
        model, descent, seconds, fitted = train_best(make, data, effort, seed, tick)
        results.append(measure_model(name, model, data, descent, seconds, fitted))
    return PendulumResult(data, seed, effort, tuple(results))


def count_steps(effort: Effort, orders: tuple[int, ...] = ORDERS) -> int:
    """Return the number of training steps that `run_pendulum` makes."""
    return effort.num_steps * len(effort.descents) * (2 + len(orders))


def pin(predictor: nn.Module, data: PendulumData) -> PinnedPredictor:
    """Return a predictor whose pivot does not move, in the precision and on the device of the data."""
    is_pinned = torch.tensor([True, False])
    return PinnedPredictor(predictor, is_pinned).to(data.device, torch.float64)


def train_best(
    make: Callable[[], nn.Module],
    data: PendulumData,
    effort: Effort,
    seed: int,
    on_step: Callable[[], None] | None,
) -> tuple[PinnedPredictor, Descent, float, FitResult]:
    """Train with every optimizer, and return the model with the lowest validation error."""
    started = time.perf_counter()
    trials: list[tuple[FitResult, PinnedPredictor, Descent]] = []
    for descent in effort.descents:
        with drawing_weights(seed):
            model = pin(make(), data)
        training, validation = data.windows("training", model.order), data.windows("validation", model.order)
        naive = float(mean_squared_error(training.history[0][..., BOB, :], training.target[..., BOB, :]))
        task = OneStepTask(training, validation, data.simulation.graph, naive, slice(BOB, BOB + 1))
        fitted = fit(
            one_step_trainee(model, task, descent, effort.num_steps),
            num_steps=effort.num_steps,
            validate_every=effort.validate_every,
            on_step=None if on_step is None else lambda _: on_step(),
        )
        trials.append((fitted, model, descent))
    best, model, descent = max(trials, key=lambda trial: float(trial[0].best_scores))
    return model, descent, time.perf_counter() - started, best


def measure_model(
    name: str,
    model: PinnedPredictor,
    data: PendulumData,
    descent: Descent | None,
    seconds: float,
    fitted: FitResult | None,
) -> ModelResult:
    """Return the errors of a model on the test steps, one step and many steps ahead, and what it learned.

    Args:
        name: Its name in the result.
        model: The model, trained or not.
        data: The pendulum.
        descent: How it was trained. None if it was not.
        seconds: Seconds of the training.
        fitted: Result of the training. None if there was none.
    """
    graph, order = data.simulation.graph, model.order
    test, validation = data.windows("test", order), data.windows("validation", order)
    history, truth = data.roll_out_starts(order, ROLL_OUT_STEPS)
    run = roll_out(model, history, graph, ROLL_OUT_STEPS)[..., BOB, :]
    with torch.no_grad():
        predicted, validated = model(test.history, graph), model(validation.history, graph)
    network = model.predictor
    coefficients = share = None
    if isinstance(network, PhysicalNetwork):
        with torch.no_grad():
            coefficients = tuple(network.coefficients(test.history, 0).tolist())
        differences = backward_difference(test)
        share = explained_share((predicted - test.target)[..., BOB, :], differences[..., BOB, :])
    return ModelResult(
        model=name,
        order=order,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        descent=None if descent is None else repr(descent),
        validation_mse=float(mean_squared_error(validated[..., BOB, :], validation.target[..., BOB, :])),
        one_step_mse=float(mean_squared_error(predicted[..., BOB, :], test.target[..., BOB, :])),
        roll_out_mse=float(mean_squared_error(run, truth)),
        explained_share=share,
        coefficients=coefficients,
        seconds=seconds,
        curve_steps=tuple(fitted.steps) if fitted else (),
        curve=tuple(-float(score) for score in fitted.scores) if fitted else (),
        roll_out=run[:, 0].cpu().numpy(),
    )
