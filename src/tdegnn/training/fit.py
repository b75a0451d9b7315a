"""The only training loop in the library: steps, a look at the validation score now and then, the best weights kept.

It knows neither the model nor its data, nor whether one network is trained or many at once: a `Trainee` steps, says
how good each of its members is, and keeps the weights it is told to keep. `ClosureTrainee` is one network with losses
as functions; `node_training.py` has many members.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tdegnn.errors import TrainingError, check_count


class Trainee(ABC):
    """What is trained: one network, or several members that do not know of each other."""

    @abstractmethod
    def step(self) -> None:
        """Make one step of the optimizer for each member that has not been stopped."""

    @abstractmethod
    def validate(self) -> Float[Tensor, " members"]:
        """How good each member is now; higher is better, NaN for one that has diverged."""

    @abstractmethod
    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Keep the weights of these members as the best they had."""

    @abstractmethod
    def stop(self, is_finished: Bool[Tensor, " members"]) -> None:
        """Leave these members as they are from now on."""

    @abstractmethod
    def restore(self) -> None:
        """Give every member the weights that were kept."""


@dataclass
class FitResult:
    """How a training went, for each member.

    Attributes:
        best_scores: Highest validation score; the member has the weights it was reached with.
        best_steps: The step after which it was reached.
        is_diverged: Whether the member came to scores that are no number.
        steps: The steps after which validation was measured.
        scores: The validation scores after each of `steps`.
    """

    best_scores: Float[Tensor, " members"]
    best_steps: Int[Tensor, " members"]
    is_diverged: Bool[Tensor, " members"]
    steps: list[int] = field(default_factory=list)
    scores: list[Float[Tensor, " members"]] = field(default_factory=list)


def fit(
    trainee: Trainee,
    *,
    num_steps: int,
    validate_every: int = 10,
    patience: int | None = None,
    on_step: Callable[[int], None] | None = None,
) -> FitResult:
    """Train for `num_steps` steps and give each member the best weights it had.

    Args:
        trainee: What is trained.
        num_steps: Number of steps at most.
        validate_every: Steps between two looks at the validation score; the last step is always looked at.
        patience: A member is finished when its score has not improved for so many steps. Without it none is.
        on_step: Called with the number of finished steps, for a progress bar.
    """
    check_count(num_steps=num_steps, validate_every=validate_every, patience=1 if patience is None else patience)
    result: FitResult | None = None
    for step in range(1, num_steps + 1):
        trainee.step()
        if step % validate_every == 0 or step == num_steps:
            scores = trainee.validate()
            if result is None:
                result = _start(scores)
            is_better = scores > result.best_scores
            result.best_scores = torch.where(is_better, scores, result.best_scores)
            result.best_steps = torch.where(is_better, step, result.best_steps)
            result.is_diverged |= scores.isnan()
            result.steps.append(step)
            result.scores.append(scores)
            trainee.keep(is_better)
            is_finished = result.is_diverged
            if patience is not None:
                is_finished = is_finished | (step - result.best_steps >= patience)
            trainee.stop(is_finished)
            if bool(is_finished.all()):
                break
        if on_step is not None:
            on_step(step)
    assert result is not None  # the last step is always looked at
    trainee.restore()
    return result


def _start(scores: Float[Tensor, " members"]) -> FitResult:
    return FitResult(
        torch.full_like(scores, -math.inf),
        torch.zeros(len(scores), dtype=torch.int64, device=scores.device),
        torch.zeros(len(scores), dtype=torch.bool, device=scores.device),
    )


class ClosureTrainee(Trainee):
    """One network, trained by any optimizer of torch on losses that are functions without arguments.

    The score is minus the validation loss. A loss that is no number is an error here: there is nobody else to go on.

    Args:
        model: What is trained, in place.
        training_loss: Computes the loss to descend.
        validation_loss: Computes the loss by which weights are chosen.
        optimizer: Any optimizer over parameters of the model.
        scheduler: Advanced once a step.
    """

    def __init__(
        self,
        model: nn.Module,
        training_loss: Callable[[], Tensor],
        validation_loss: Callable[[], Tensor],
        optimizer: Optimizer,
        scheduler: LRScheduler | None = None,
    ) -> None:
        self._model, self._optimizer, self._scheduler = model, optimizer, scheduler
        self._training_loss, self._validation_loss = training_loss, validation_loss
        self._best_weights = copy.deepcopy(model.state_dict())
        self._last_loss = torch.tensor(math.nan)
        self._num_steps = 0

    def step(self) -> None:
        """Make one step of the optimizer, which may evaluate the loss several times (L-BFGS)."""
        self._model.train()
        loss = self._optimizer.step(self._closure)  # type: ignore[arg-type] # torch says float, and passes on what it gets
        if self._scheduler is not None:
            self._scheduler.step()
        self._last_loss = loss.detach()  # type: ignore[attr-defined]
        self._num_steps += 1

    def validate(self) -> Float[Tensor, " 1"]:
        """Minus the validation loss."""
        self._check_finite("training", float(self._last_loss))
        self._model.eval()
        with torch.no_grad():
            loss = float(self._validation_loss())
        self._check_finite("validation", loss)
        return torch.tensor([-loss], dtype=torch.float64)

    def keep(self, is_better: Bool[Tensor, " 1"]) -> None:
        """Keep the weights where they are the best so far."""
        if bool(is_better):
            self._best_weights = copy.deepcopy(self._model.state_dict())

    def stop(self, is_finished: Bool[Tensor, " 1"]) -> None:
        """Nothing to do: with its only member finished, the training ends."""

    def restore(self) -> None:
        """Give the network the best weights, and leave it in evaluation mode."""
        self._model.load_state_dict(self._best_weights)
        self._model.eval()

    def _closure(self) -> Tensor:
        self._optimizer.zero_grad()
        loss = self._training_loss()
        loss.backward()
        return loss

    def _check_finite(self, name: str, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"Expected a finite {name} loss, got {loss} after step {self._num_steps}. "
                "Lower the learning rate or the step size."
            )
