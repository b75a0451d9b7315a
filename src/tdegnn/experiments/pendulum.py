"""The paper's Example 1: which models can predict a pendulum, and what order do they say it has?

Naive, an LSTM that sees one state, an LSTM that sees two, and TDE-GNN of orders 1 to 5 predict the next angle.
All see the same data and get the same effort: full batches, the same number of steps, the same ways to descend to
choose from by validation. Pivot and bob are two nodes; the pivot does not move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.analysis.order import explained_share, find_dynamics_order
from tdegnn.analysis.report import CoefficientReport, explain, ordinal
from tdegnn.analysis.tolerances import EXPLAINED_ENOUGH, LOOSE_TOLERANCE
from tdegnn.core.combination import History
from tdegnn.data.simulators.physics import PendulumFeatures, Simulation, simulate_pendulum
from tdegnn.data.windows import OneStepWindows, backward_difference, one_step_windows
from tdegnn.errors import InputError
from tdegnn.nets.physical import PhysicalNetwork
from tdegnn.nets.rollout import PinnedPredictor, roll_out
from tdegnn.rivals.next_state import GraphLSTM, NaivePredictor
from tdegnn.training.devices import single_thread
from tdegnn.training.loop import ClosureTrainee, FitResult, fit
from tdegnn.training.optimizers import CosineAdam, Descent, QuasiNewton

BOB = 1
ROLL_OUT_STEPS = 100
ORDERS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Effort:
    """What every trained model gets alike: steps, ways to descend to choose from, hidden channels."""

    num_steps: int = 1000
    descents: tuple[Descent, ...] = (CosineAdam(0.003), CosineAdam(0.01), CosineAdam(0.03))
    hidden_channels: int = 32

    @classmethod
    def quasi_newton(cls) -> Effort:
        """As many iterations as the default, but of L-BFGS: the most that precise optimization can get."""
        descent = QuasiNewton()
        return cls(num_steps=1000 // descent.iterations_per_step, descents=(descent,))


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
        """First and last-plus-one predicted step of each part."""
        num_steps = self.simulation.states.shape[1]
        training, validation = int(0.6 * num_steps), int(0.8 * num_steps)
        return {
            "training": (0, training),
            "validation": (training, validation),
            "test": (validation, num_steps),
        }

    def windows(self, part: str, order: int) -> OneStepWindows:
        """Histories whose next state lies in the part; only inputs may reach back before it."""
        start, stop = self.bounds[part]
        return one_step_windows(self.states[:, max(0, start - order) : stop], order)

    def roll_out_starts(self, order: int, num_steps: int) -> tuple[History, Float[Tensor, "steps starts channels"]]:
        """Histories at every start in the test part that leaves room for `num_steps`, and the bob's true path."""
        start, stop = self.bounds["test"]
        starts = range(start, stop - num_steps + 1)
        states = self.states[0]
        history = tuple(torch.stack([states[s - 1 - p] for s in starts]) for p in range(order))
        truth = torch.stack([states[s : s + num_steps, BOB] for s in starts], dim=1)
        return history, truth


@dataclass(frozen=True)
class ModelResult:
    """How one model did.

    Attributes:
        model: Its name.
        order: Number of states it sees.
        num_parameters: Number of trained parameters.
        descent: The way to descend that validation chose.
        validation_mse: One-step error by which it was chosen.
        one_step_mse: One-step error on the test part.
        roll_out_mse: Error over 100 free-running steps, mean over all starts in the test part.
        explained_share: For TDE-GNN, the share of the o-th difference of the test part that it explains.
        coefficients: For TDE-GNN, the learned c.
        seconds: Training time over all ways to descend.
        curve_steps: Steps at which validation was measured, for the chosen way.
        curve: The one-step validation error there.
        roll_out: One free run from the start of the test part, for the figure.
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
        """The analysis of the learned c, where there is one."""
        return None if self.coefficients is None else explain(self.coefficients, LOOSE_TOLERANCE)

    def to_record(self) -> dict[str, Any]:
        """The numbers, without curves and runs."""
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
        """Whether a fit above the order of the data explains less than that order does: it could explain as much."""
        order = self.dynamics_order
        return order is not None and any(o > order and s < EXPLAINED_ENOUGH for o, s in self.shares.items())

    def to_records(self) -> list[dict[str, Any]]:
        """One result line a model. Weights were chosen on validation, errors are those of the test part."""
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
        """What the experiment says about the pendulum, in a few sentences."""
        shares, order = self.shares, self.dynamics_order
        if order is None:
            return "No order explains the data: " + ", ".join(f"{o}: {share:.3f}" for o, share in shares.items())
        lower = [
            f"Order {o} cannot do it: it explains {shares[o]:.1%} of the {ordinal(o)} differences."
            for o in sorted(shares)
            if o < order
        ]
        learned = ", ".join(f"{value:.4f}" for value in self.by_order[order].coefficients or ())
        found = (
            f"The pendulum is a system of {ordinal(order)} order: a history of {order} explains {shares[order]:.1%} "
            f"of the {ordinal(order)} differences, with c = [{learned}]."
        )
        agreeing = [
            str(o)
            for o, model in sorted(self.by_order.items())
            if o > order and (report := model.report()) is not None and report.root_multiplicity == order
        ]
        longer = f"Longer histories ({', '.join(agreeing)}) say the same: 1 is a {order}-fold root of their c."
        return " ".join([*lower, found, *([longer] if agreeing else [])])


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
        effort: What each model gets.
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
    """Number of training steps `run_pendulum` makes."""
    return effort.num_steps * len(effort.descents) * (2 + len(orders))


def pin(predictor: nn.Module, data: PendulumData) -> PinnedPredictor:
    """A predictor whose pivot stays where it is, in the numbers and on the device of the data."""
    is_pinned = torch.tensor([True, False])
    return PinnedPredictor(predictor, is_pinned).to(data.device, torch.float64)


def train_best(
    make: Callable[[], nn.Module],
    data: PendulumData,
    effort: Effort,
    seed: int,
    on_step: Callable[[], None] | None,
) -> tuple[PinnedPredictor, Descent, float, FitResult]:
    """Train in every way and keep the model with the lowest validation error."""
    started = time.perf_counter()
    trials: list[tuple[FitResult, PinnedPredictor, Descent]] = []
    for descent in effort.descents:
        torch.manual_seed(seed)
        model = pin(make(), data)
        optimizer, scheduler = descent.build(model.parameters(), effort.num_steps)
        training, validation = data.windows("training", model.order), data.windows("validation", model.order)
        # In units of a naive step the loss is of the size that optimizers expect.
        naive = float(_mean_square(training.target - training.history[0]))
        trainee = ClosureTrainee(
            model,
            partial(_one_step_mse, model, training, data, unit=naive),
            partial(_one_step_mse, model, validation, data),
            optimizer,
            scheduler,
        )
        fitted = fit(trainee, num_steps=effort.num_steps, on_step=None if on_step is None else lambda _: on_step())
        trials.append((fitted, model, descent))
    best, model, descent = max(trials, key=lambda trial: float(trial[0].best_scores))
    return model, descent, time.perf_counter() - started, best


def _mean_square(errors: Tensor) -> Tensor:
    """Mean square over everything but the pivot."""
    return errors[..., BOB, :].square().mean()


def _one_step_mse(model: nn.Module, windows: OneStepWindows, data: PendulumData, unit: float = 1.0) -> Tensor:
    return _mean_square(model(windows.history, data.simulation.graph) - windows.target) / unit


def measure_model(
    name: str,
    model: PinnedPredictor,
    data: PendulumData,
    descent: Descent | None,
    seconds: float,
    fitted: FitResult | None,
) -> ModelResult:
    """The errors of a model on the test part, one step and many steps ahead, and what it learned.

    Args:
        name: Its name in the result.
        model: The model, trained or not.
        data: The pendulum.
        descent: How it was trained; `None` where it was not.
        seconds: How long that took.
        fitted: What the training came to; `None` where there was none.
    """
    graph, order = data.simulation.graph, model.order
    test, validation = data.windows("test", order), data.windows("validation", order)
    history, truth = data.roll_out_starts(order, ROLL_OUT_STEPS)
    run = roll_out(model, history, graph, ROLL_OUT_STEPS)[..., BOB, :]
    with torch.no_grad():
        errors = model(test.history, graph) - test.target
        validation_mse = float(_one_step_mse(model, validation, data))
    network = model.predictor
    coefficients = share = None
    if isinstance(network, PhysicalNetwork):
        with torch.no_grad():
            coefficients = tuple(network.coefficients(test.history, 0).tolist())
        differences = backward_difference(test)
        share = explained_share(errors[..., BOB, :], differences[..., BOB, :])
    return ModelResult(
        model=name,
        order=order,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        descent=None if descent is None else repr(descent),
        validation_mse=validation_mse,
        one_step_mse=float(_mean_square(errors)),
        roll_out_mse=float((run - truth).square().mean()),
        explained_share=share,
        coefficients=coefficients,
        seconds=seconds,
        curve_steps=tuple(fitted.steps) if fitted else (),
        curve=tuple(-float(score) for score in fitted.scores) if fitted else (),
        roll_out=run[:, 0].cpu().numpy(),
    )
