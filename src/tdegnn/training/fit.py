"""The only training loop in the library: steps of an optimizer, the best weights by validation kept.

It knows neither the model's task nor its data: losses come in as functions without arguments. An optimizer that
evaluates the loss several times a step (L-BFGS) works like any other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tdegnn.errors import TrainingError, check_count


@dataclass
class FitResult:
    """How a training went.

    Attributes:
        best_validation: Lowest validation loss; the model has the weights it was reached with.
        best_step: The step after which it was reached.
        steps: The steps after which validation was measured.
        validation_losses: The validation loss after each of `steps`.
    """

    best_validation: float = float("inf")
    best_step: int = 0
    steps: list[int] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)


def fit(
    model: nn.Module,
    training_loss: Callable[[], Tensor],
    validation_loss: Callable[[], Tensor],
    optimizer: Optimizer,
    *,
    num_steps: int,
    validate_every: int = 10,
    scheduler: LRScheduler | None = None,
    on_step: Callable[[int], None] | None = None,
) -> FitResult:
    """Train `model` for `num_steps` steps of `optimizer`, give it the best weights seen, and leave it in eval mode.

    Args:
        model: What is trained, in place.
        training_loss: Computes the loss to descend.
        validation_loss: Computes the loss by which weights are chosen.
        optimizer: Any optimizer over parameters of the model.
        num_steps: Number of optimizer steps.
        validate_every: Steps between two looks at the validation loss; the last step is always looked at.
        scheduler: Advanced once a step.
        on_step: Called with the number of finished steps, for a progress bar.
    """
    check_count(num_steps=num_steps, validate_every=validate_every)
    result, best_weights = FitResult(), copy.deepcopy(model.state_dict())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = training_loss()
        loss.backward()
        return loss

    for step in range(1, num_steps + 1):
        model.train()
        loss = optimizer.step(closure)  # type: ignore[arg-type] # torch says float, and passes on what the closure returns
        if scheduler is not None:
            scheduler.step()
        if step % validate_every == 0 or step == num_steps:
            _check_finite("training", loss.item(), step)  # type: ignore[attr-defined]
            validation = _evaluate(model, validation_loss)
            _check_finite("validation", validation, step)
            result.steps.append(step)
            result.validation_losses.append(validation)
            if validation < result.best_validation:
                result.best_validation, result.best_step = validation, step
                best_weights = copy.deepcopy(model.state_dict())
        if on_step is not None:
            on_step(step)
    model.load_state_dict(best_weights)
    return result


def _evaluate(model: nn.Module, loss: Callable[[], Tensor]) -> float:
    model.eval()
    with torch.no_grad():
        return float(loss())


def _check_finite(name: str, loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"Expected a finite {name} loss, got {loss} after step {step}. Lower the learning rate or the step size."
        )
