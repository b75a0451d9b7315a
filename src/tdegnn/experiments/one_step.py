"""Train a predictor of the next state on physical states: the same loss for each optimizer, and for each experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn

from tdegnn.data.windows import OneStepWindows
from tdegnn.graph import Graph
from tdegnn.nets.projection import Projection, as_linear
from tdegnn.training.loop import ClosureTrainee
from tdegnn.training.optimizers import Descent, VariableProjection


@dataclass(frozen=True)
class OneStepTask:
    """What to predict, and in which unit errors are measured.

    Attributes:
        training: Windows to learn from.
        validation: Windows that choose the weights.
        graph: The graph on which states live.
        unit: The loss to descend is the mean squared error divided by this number, so that it has the size that
            optimizers expect. Variable projection has a unit of its own.
        nodes: The nodes whose errors count.
    """

    training: OneStepWindows
    validation: OneStepWindows
    graph: Graph
    unit: float
    nodes: slice = field(default_factory=partial(slice, None))

    def mean_squared_error(self, model: nn.Module, windows: OneStepWindows) -> Tensor:
        """Return the error of one-step predictions, differentiable."""
        errors = model(windows.history, self.graph) - windows.target
        mean: Tensor = errors[..., self.nodes, :].square().mean()
        return mean


def one_step_trainee(model: nn.Module, task: OneStepTask, descent: Descent, num_steps: int) -> ClosureTrainee:
    """Return a training of the model for the loop.

    Args:
        model: The predictor. For `VariableProjection` it must be a `LinearPredictor`.
        task: What to predict.
        descent: How to descend.
        num_steps: Number of steps of the training.
    """
    if isinstance(descent, VariableProjection):
        return _projected(model, task, descent, num_steps)
    optimizer, scheduler = descent.build(model.parameters(), num_steps)

    def training_loss() -> Tensor:
        return task.mean_squared_error(model, task.training) / task.unit

    return ClosureTrainee(model, training_loss, _validation_loss(model, task), optimizer, scheduler)


def _validation_loss(model: nn.Module, task: OneStepTask) -> Callable[[], Tensor]:
    return lambda: task.mean_squared_error(model, task.validation)


def _projected(model: nn.Module, task: OneStepTask, descent: VariableProjection, num_steps: int) -> ClosureTrainee:
    predictor = as_linear(model)
    training_loss = Projection(predictor, *task.training, task.graph, descent.ridge)
    validation_loss = _validation_loss(model, task)

    def solve_and_validate() -> Tensor:
        # The last point at which a line search looked need not be the one that it chose.
        training_loss()
        return validation_loss()

    optimizer, scheduler = descent.build(predictor.other_parameters(), num_steps)
    return ClosureTrainee(model, training_loss, solve_and_validate, optimizer, scheduler)
