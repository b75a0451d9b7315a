"""The only training loop in the library: it makes steps, validates at intervals, and keeps the best weights.

The loop does not know the model or its data, nor whether it trains one network or many at once. A `Trainee` makes
steps, scores each of its members, and stores the weights that the loop selects. `ClosureTrainee` is one network with
losses as functions; `MembersTraining` is many networks. With a run folder, an interrupted training continues as if it
had not been interrupted.
"""

from __future__ import annotations

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tdegnn.errors import InputError, TrainingError, check_count
from tdegnn.runs.run_folder import Checkpoint, RunFolder

# Checkpoints must be rare enough to cost little, and frequent enough that a kill loses little.
SAVE_SECONDS = 5.0
# The plain value of a checkpoint that says that the training ended because no time was left.
WAS_LATE = "was_late"
# A member whose loss is this many times its lowest will not recover.
EXPLODED = 1e6


class Trainee(ABC):
    """One network, or several members that do not depend on each other, to be trained."""

    @abstractmethod
    def step(self) -> None:
        """Make one step of the optimizer for each member that has not been stopped."""

    @abstractmethod
    def last_losses(self) -> Float[Tensor, " members"]:
        """Return the training losses of the last step."""

    @abstractmethod
    def validate(self) -> Float[Tensor, " members"]:
        """Return the current score of each member. Higher is better; NaN means that it has diverged."""

    def tie_breaks(self) -> Float[Tensor, " members"] | None:
        """Return what decides between equal scores, measured by the last `validate`. If None, the earlier step wins."""
        return None

    @abstractmethod
    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Store the current weights of these members as their best ones."""

    @abstractmethod
    def stop(self, is_finished: Bool[Tensor, " members"]) -> None:
        """Stop these members: later steps do not change them."""

    @abstractmethod
    def restore(self) -> None:
        """Restore the best weights of every member."""

    def best_weights(self) -> dict[str, Tensor]:
        """Return the best weights by name, one row per member."""
        raise _not_resumable(self)

    def state(self) -> dict[str, Tensor]:
        """Return everything that is needed to continue the training."""
        raise _not_resumable(self)

    def load_state(self, state: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """Continue from where `state` was taken."""
        raise _not_resumable(self)


def _not_resumable(trainee: Trainee) -> InputError:
    return InputError(
        f"Expected a training that can be written to a run folder, got a {type(trainee).__name__}. Leave run out."
    )


@dataclass(frozen=True)
class Look:
    """The result of one validation.

    Attributes:
        step: Number of finished steps.
        losses: The training losses of the last step, one per member.
        scores: The validation scores.
        tie_breaks: What decides between equal scores, if anything does. Higher is better.
    """

    step: int
    losses: Float[Tensor, " members"]
    scores: Float[Tensor, " members"]
    tie_breaks: Float[Tensor, " members"] | None = None

    def to_record(self) -> dict[str, Any]:
        """Return a line of metrics, with lists if there are several members."""
        columns = {"loss": self.losses.tolist(), "score": self.scores.tolist()}
        return {"step": self.step, **{name: row[0] if len(row) == 1 else row for name, row in columns.items()}}


@dataclass
class FitResult:
    """The result of a training, per member.

    Attributes:
        best_scores: Highest validation score. The member has the weights that reached it.
        best_steps: The step after which it was reached.
        is_diverged: Whether a score was not a number, or the loss exploded.
        lowest_losses: Lowest training loss.
        steps: The steps after which validation was measured.
        scores: The validation scores after each of `steps`.
        best_tie_breaks: What decided between scores that equal the best, if anything does.
        was_late: Whether the training ended early because no time was left.
    """

    best_scores: Float[Tensor, " members"]
    best_steps: Int[Tensor, " members"]
    is_diverged: Bool[Tensor, " members"]
    lowest_losses: Float[Tensor, " members"]
    steps: list[int] = field(default_factory=list)
    scores: list[Float[Tensor, " members"]] = field(default_factory=list)
    best_tie_breaks: Float[Tensor, " members"] | None = None
    was_late: bool = False

    def add(self, look: Look) -> Bool[Tensor, " members"]:
        """Add the result of a validation. Return which members are better than ever before."""
        is_better = look.scores > self.best_scores
        if look.tie_breaks is not None and self.best_tie_breaks is not None:
            is_better = is_better | ((look.scores == self.best_scores) & (look.tie_breaks > self.best_tie_breaks))
            self.best_tie_breaks = torch.where(is_better, look.tie_breaks, self.best_tie_breaks)
        self.best_scores = torch.where(is_better, look.scores, self.best_scores)
        self.best_steps = torch.where(is_better, look.step, self.best_steps)
        self.lowest_losses = torch.fmin(self.lowest_losses, look.losses)
        is_exploded = look.losses > EXPLODED * (1 + self.lowest_losses.abs())
        self.is_diverged = self.is_diverged | look.scores.isnan() | is_exploded
        self.steps.append(look.step)
        self.scores.append(look.scores)
        return is_better

    @property
    def best_member(self) -> int:
        """The member with the highest score; of several, the one that tie breaks prefer, else the first."""
        scores = self.best_scores.nan_to_num(nan=-math.inf)
        if self.best_tie_breaks is None:
            return int(scores.argmax())
        # Few validation nodes have few scores: several members often share the highest.
        return int(self.best_tie_breaks.masked_fill(scores < scores.max(), -math.inf).argmax())

    def finished(self, patience: int | None) -> Bool[Tensor, " members"]:
        """Return which members need no more steps: they diverged, or have not improved for `patience` steps."""
        if patience is None:
            return self.is_diverged
        return self.is_diverged | (self.steps[-1] - self.best_steps >= patience)

    def state(self) -> dict[str, Tensor]:
        """Return the result so far as tensors."""
        return {
            "best_scores": self.best_scores,
            "best_steps": self.best_steps,
            "is_diverged": self.is_diverged,
            "lowest_losses": self.lowest_losses,
            "steps": torch.tensor(self.steps),
            "scores": torch.stack(self.scores),
            **({} if self.best_tie_breaks is None else {"best_tie_breaks": self.best_tie_breaks}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], device: torch.device) -> FitResult:
        """Return the result whose `state` was taken, on the device of the training."""
        _check_result(state)
        on_device = {name: tensor.to(device) for name, tensor in state.items()}
        steps, scores = on_device.pop("steps").tolist(), list(on_device.pop("scores"))
        return cls(steps=steps, scores=scores, **on_device)  # type: ignore[arg-type] # not `was_late`, which is no tensor


def _check_result(state: Mapping[str, Tensor]) -> None:
    """Raise an `InputError` for tensors that are not the state of a `FitResult`."""
    num_members = state["best_scores"].shape if "best_scores" in state else torch.Size()
    num_steps = state["steps"].shape if "steps" in state else torch.Size()
    expected = {
        "best_scores": (num_members, True),
        "best_steps": (num_members, False),
        "is_diverged": (num_members, False),
        "lowest_losses": (num_members, True),
        "steps": (num_steps, False),
        "scores": (num_steps + num_members, True),
        **({"best_tie_breaks": (num_members, True)} if "best_tie_breaks" in state else {}),
    }
    found = {name: (tensor.shape, tensor.is_floating_point()) for name, tensor in state.items()}
    if found != expected or len(num_members) != 1 or len(num_steps) != 1 or 0 in num_steps:
        raise InputError("Expected the checkpoint of this training, got that of another. Choose another folder.")


def fit(
    trainee: Trainee,
    *,
    num_steps: int,
    validate_every: int = 10,
    patience: int | None = None,
    on_step: Callable[[int], object] | None = None,
    on_look: Callable[[Look], None] | None = None,
    run: RunFolder | None = None,
    save_every: float = SAVE_SECONDS,
    is_late: Callable[[int], bool] | None = None,
) -> FitResult:
    """Train for `num_steps` steps and give each member the best weights it had.

    Args:
        trainee: The network or members to train.
        num_steps: Maximum number of steps.
        validate_every: Steps between two validations. The last step is always validated.
        patience: Steps without improvement after which a member is finished. If None, it makes all steps.
        on_step: Called with the number of finished steps, for a progress bar.
        on_look: Called with the result of each validation.
        run: Folder that gets a line of metrics per validation, and now and then the best weights and a checkpoint. If
            it already has a checkpoint, training continues from it.
        save_every: Minimum seconds between two checkpoints. The first validation and the last step always write one.
        is_late: Called with the number of finished steps: whether the training must end, because no time is left. A
            checkpoint keeps that it has ended.
    """
    check_count(num_steps=num_steps, validate_every=validate_every, patience=1 if patience is None else patience)
    record = None if run is None else _Record(run, trainee, save_every)
    result = None if record is None else record.resume()
    first = 0 if result is None else result.steps[-1]
    for step in range(first + 1, num_steps + 1):
        if result is not None and (result.was_late or bool(result.finished(patience).all())):
            break
        trainee.step()
        ends_now = step < num_steps and is_late is not None and is_late(step)
        if step % validate_every == 0 or step == num_steps or ends_now:
            look = Look(step, trainee.last_losses().clone(), trainee.validate(), trainee.tie_breaks())
            if result is None:
                result = _start(look)
            is_better = result.add(look)
            result.was_late = ends_now
            trainee.keep(is_better)
            trainee.stop(result.finished(patience))
            if record is not None:
                record.add(look, result, is_better=bool(is_better.any()))
            if on_look is not None:
                on_look(look)
        if on_step is not None:
            on_step(step)
    assert result is not None  # the last step is always validated
    if record is not None:
        # Before the best weights are restored: a longer training continues from the last ones.
        record.save(result)
    trainee.restore()
    return result


def _start(look: Look) -> FitResult:
    scores = look.scores
    return FitResult(
        torch.full_like(scores, -math.inf),
        torch.zeros(len(scores), dtype=torch.int64, device=scores.device),
        torch.zeros(len(scores), dtype=torch.bool, device=scores.device),
        torch.full_like(look.losses, math.inf),
        best_tie_breaks=None if look.tie_breaks is None else torch.full_like(look.tie_breaks, -math.inf),
    )


class _Record:
    """Writes the progress of a training to its run folder.

    The best weights are written before the checkpoint. If the process is killed between the two, the resumed training
    writes the same weights again.
    """

    def __init__(self, run: RunFolder, trainee: Trainee, save_every: float) -> None:
        trainee.state()  # raises now, before training, if the trainee cannot be resumed
        self._run, self._trainee, self._save_every = run, trainee, save_every
        self._is_better = True
        self._saved_at = -math.inf
        self._kept_values: dict[str, Any] = {}

    def resume(self) -> FitResult | None:
        """Continue from the checkpoint and return its result. Return None if there is no checkpoint."""
        checkpoint = self._run.read_checkpoint()
        if checkpoint is None:
            return None
        self._trainee.load_state(_without_prefix("trainee.", checkpoint.tensors))
        device = next(iter(self._trainee.state().values())).device
        result = FitResult.from_state(_without_prefix("result.", checkpoint.tensors), device)
        self._kept_values = dict(checkpoint.values)
        result.was_late = bool(self._kept_values.get(WAS_LATE))
        return result

    def add(self, look: Look, result: FitResult, *, is_better: bool) -> None:
        self._run.append_metrics(look.to_record())
        self._is_better |= is_better
        if time.monotonic() - self._saved_at >= self._save_every:
            self.save(result)

    def save(self, result: FitResult) -> None:
        if self._is_better:
            self._run.write_weights(self._trainee.best_weights())
        tensors = {f"trainee.{name}": tensor for name, tensor in self._trainee.state().items()}
        tensors |= {f"result.{name}": tensor for name, tensor in result.state().items()}
        if result.was_late:
            self._kept_values[WAS_LATE] = True
        self._run.write_checkpoint(Checkpoint(result.steps[-1], tensors, self._kept_values))
        self._is_better, self._saved_at = False, time.monotonic()


def _without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names have the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


class ClosureTrainee(Trainee):
    """One network, trained by any optimizer of torch on losses that are functions without arguments.

    The score is minus the validation loss. A loss that is not a number is an error here: there are no other members.

    Args:
        model: The network, which is trained in place.
        training_loss: Computes the loss to descend.
        validation_loss: Computes the loss by which weights are chosen.
        optimizer: Any optimizer over parameters of the model.
        scheduler: Advanced once per step.
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

    def last_losses(self) -> Float[Tensor, " 1"]:
        """Return the training loss of the last step."""
        return self._last_loss.reshape(1).cpu()

    def validate(self) -> Float[Tensor, " 1"]:
        """Return minus the validation loss."""
        self._check_finite("training", float(self._last_loss))
        self._model.eval()
        with torch.no_grad():
            loss = float(self._validation_loss())
        self._check_finite("validation", loss)
        return torch.tensor([-loss], dtype=torch.float64)

    def keep(self, is_better: Bool[Tensor, " 1"]) -> None:
        """Keep the weights if they are the best so far."""
        if bool(is_better):
            self._best_weights = copy.deepcopy(self._model.state_dict())

    def stop(self, is_finished: Bool[Tensor, " 1"]) -> None:
        """Do nothing: the training ends when its only member is finished."""

    def restore(self) -> None:
        """Restore the best weights, and leave the network in evaluation mode."""
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
