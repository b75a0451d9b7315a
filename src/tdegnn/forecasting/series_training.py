"""Training of networks for series, many seeds at once: batches of windows, judged on the validation windows.

Members share the windows of each step, and nothing else. The paper trains with one window per step, in the order
of time; many windows per step are faster and mostly better. Steps are recorded and replayed. Several processes each
take a share of the windows of every step and of every validation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.errors import InputError, check_choice
from tdegnn.forecasting.frames import WindowSet
from tdegnn.forecasting.losses import Loss, SquaredLoss
from tdegnn.graph import Graph
from tdegnn.nets.dropout import BatchShare
from tdegnn.nets.series_network import Frames, SeriesNetwork
from tdegnn.training.devices import Placement, choose_placement
from tdegnn.training.members import GroupedAdam, MembersTraining
from tdegnn.training.processes import ALONE, Processes
from tdegnn.training.replay import Replayed
from tdegnn.training.schedules import SCHEDULES, ScheduleName
from tdegnn.training.shared_step import SharedSums

# Maximum number of rows (windows times nodes) that are forecast at once to measure errors. They fit into any memory.
ROWS_AT_ONCE = 2**17
# Maximum number of values of their windows: with long windows, fewer are forecast at once.
VALUES_AT_ONCE = 2**24
# Layers in which a window sees the other windows of its batch.
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SeriesTraining(MembersTraining):
    """Members that forecast one series.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        graph: The graph the nodes live on, unless the windows have graphs of their own.
        training: Windows to learn from, on the device of the placement.
        validation: Windows to choose the step by.
        test: Windows whose errors are recorded at every validation, but choose nothing.
        batch_size: Windows per step. If None, all. With 1 and `is_shuffled=False`, the paper's incremental training.
        is_shuffled: Whether windows come in another order in every epoch.
        units: A scaled value of one at each node, in original units. Errors are measured in these units. If None,
            errors are those of scaled values, as in training.
        placement: Device and precision. If None, the CPU in 32 bits.
        seed: Seed of the order of windows.
        loss: What forecasts pay in training. If None, squares.
        judged_by: What forecasts pay on validation and test windows. If None, squares.
        schedule: How learning rates change, over `num_steps` steps.
        num_steps: Number of steps that the schedule takes. If None, rates are constant.
        processes: Who trains. Each process passes the same networks and windows, and sees a share of the windows.
            Default: this process alone.
    """

    def __init__(
        self,
        networks: Sequence[SeriesNetwork],
        descents: Sequence[GroupedAdam],
        graph: Graph,
        training: WindowSet,
        validation: WindowSet,
        test: WindowSet | None = None,
        *,
        batch_size: int | None = None,
        is_shuffled: bool = True,
        units: Float[np.ndarray, "nodes targets"] | None = None,
        placement: Placement | None = None,
        seed: int = 0,
        loss: Loss | None = None,
        judged_by: Loss | None = None,
        schedule: ScheduleName = "constant",
        num_steps: int | None = None,
        processes: Processes = ALONE,
    ) -> None:
        for name, windows in dict(training=training, validation=validation, test=test).items():
            if windows is not None and not (len(windows) and (~windows.targets.isnan()).any()):
                raise InputError(
                    f"Expected at least one observed target in the {name} windows, got none. Take a longer series, a "
                    "shorter window or a shorter horizon."
                )
        placement = placement or choose_placement("cpu")
        self._processes, self._batch_size = processes, min(batch_size or len(training), len(training))
        if processes.are_several:
            _check_shareable(networks[0], training, self._batch_size, processes.size)
        self._share = processes.share_of(self._batch_size)
        super().__init__([self._with_share(network) for network in networks], descents, placement)
        self._graph = training.graph_at(slice(0, 1), graph)
        self._training, self._validation = training, _share_of(validation, processes)
        self._test = None if test is None else _share_of(test, processes)
        # Windows on several graphs are seen graph by graph, in parts that differ from step to step.
        self._by_graph = None if training.graphs is None or training.graphs.is_constant else training.graphs
        self._is_shuffled, self._seed = is_shuffled, seed
        self._loss, self._judged_by = loss or SquaredLoss(), judged_by or SquaredLoss()
        check_choice(tuple(SCHEDULES), schedule=schedule)
        self._schedule, self._schedule_steps = SCHEDULES[schedule], num_steps
        self._units = (torch.ones(()) if units is None else torch.as_tensor(units)).to(
            placement.device, placement.dtype
        )
        self._num_steps = 0
        frames, targets = training.batch(self._share)
        # Steps copy their windows into these tensors, because a recorded step reads fixed tensors.
        self._frames = Frames(*(each.clone() for each in frames))
        self._targets = targets.clone()
        num_members = len(networks)
        self._scores, self.test_errors = (
            torch.full((num_members,), torch.nan, device=placement.device, dtype=placement.dtype) for _ in range(2)
        )
        self.best_errors, self.best_test_errors, self.lowest_test_errors = (
            torch.full_like(self._losses, torch.inf) for _ in range(3)
        )
        self._step = Replayed(self._train, placement.device)
        if processes.are_several:
            self._sums = SharedSums(self.members, processes)
            self._halves = [Replayed(half, placement.device) for half in (self._differentiate, self._descend)]
            # They may have been solved on machines that round differently.
            for tensor in self.state().values():
                processes.copy_from_first(tensor)

    @property
    def steps_an_epoch(self) -> int:
        """Number of steps until every training window was used once, except windows that do not fill a batch."""
        return max(1, len(self._training) // self._batch_size)

    def step(self) -> None:
        """Make one step for each active member, on the next windows."""
        if self._schedule_steps is not None:
            self.members.scale_rates(self._schedule(min(1.0, self._num_steps / self._schedule_steps)))
        if self._by_graph is not None:
            self._train_by_graph(self._by_graph)
            self._num_steps += 1
            return
        if self._batch_size < len(self._training):
            frames, targets = self._training.batch(self._numbers())
            self._frames.window.copy_(frames.window)
            self._frames.future.copy_(frames.future)
            self._targets.copy_(targets)
        self._num_steps += 1
        if not self._processes.are_several:
            self._step()
            return
        differentiate, descend = self._halves
        differentiate()
        self._sums.exchange()
        descend()

    def validate(self) -> Float[Tensor, " members"]:
        """Return minus the mean losses on the validation windows. NaN if a forecast is not finite."""
        self._scores = -self.measure(self._validation)
        if self._test is not None:
            self.test_errors = self.measure(self._test)
            self.lowest_test_errors = torch.fmin(self.lowest_test_errors, self.test_errors)
        return self._scores.clone()

    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Keep the weights, and the errors that go with them."""
        super().keep(is_better)
        self.best_errors = torch.where(is_better, -self._scores, self.best_errors)
        self.best_test_errors = torch.where(is_better, self.test_errors, self.best_test_errors)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state` was taken."""
        super().load_state(state)
        self._num_steps = int(state["num_batches"])

    def forecast(self, windows: WindowSet) -> Float[Tensor, "members windows horizon nodes targets"]:
        """Return scaled forecasts of every member, for all windows."""
        return torch.cat([forecasts for forecasts, _ in self._forecasts(windows)], dim=1)

    def measure(self, windows: WindowSet) -> Float[Tensor, " members"]:
        """Return the mean loss of every member over the windows of all processes. NaN if a forecast is not finite.

        Losses are summed over some windows at a time, so that the forecasts of all windows are never kept.
        """
        total, count = (torch.zeros_like(self._losses, dtype=torch.float64) for _ in range(2))
        for forecasts, targets in self._forecasts(windows):
            losses = _mean_where(self._judged_by(_residuals(forecasts, targets) * self._units), targets)
            num_observed = (~targets.isnan()).sum()
            total += torch.where(forecasts.isfinite().flatten(1).all(dim=1), losses, torch.nan) * num_observed
            count += num_observed
        for summed in (total, count):
            self._processes.sum_over_processes(summed)
        return (total / count.clamp(min=1)).to(self._losses)

    def _forecasts(self, windows: WindowSet) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the forecasts of every member and the targets, of some windows at a time."""
        at_once = max(1, ROWS_AT_ONCE // (self._graph.num_nodes * len(self.members)))
        if not len(windows):  # there are more processes than windows
            return
        for block in windows.blocks(VALUES_AT_ONCE):
            for first in range(block.start, min(block.stop, len(windows)), at_once):
                frames, targets = windows.batch(slice(first, min(first + at_once, block.stop)))
                yield self.members.evaluate(frames, windows.graph_at(block, self._graph)), targets

    def _numbers_to_resume(self) -> dict[str, Tensor]:
        return {
            "best_errors": self.best_errors,
            "best_test_errors": self.best_test_errors,
            "lowest_test_errors": self.lowest_test_errors,
            "num_batches": torch.tensor(self._num_steps),
        }

    def _train(self) -> None:
        self._losses.copy_(self.members.step(self._training_losses, self._frames, self._graph))

    def _differentiate(self) -> None:
        """Compute the sums of this process: the first half of a step that processes share."""
        losses, gradient = self.members.differentiate(self._summed_losses, [(self._frames, self._graph)])
        self._sums.put(losses, gradient, (~self._targets.isnan()).sum().to(losses.dtype))

    def _descend(self) -> None:
        """Move along the gradient of all processes: the second half."""
        losses, gradient = self._sums.means()
        self._losses.copy_(losses)
        self.members.descend(gradient)

    def _train_by_graph(self, graphs: GraphSteps) -> None:
        """Make one step on windows of several graphs: the networks see those of one graph at a time."""
        numbers = self._numbers() if self._batch_size < len(self._training) else slice(None)
        frames, targets = self._training.batch(numbers)
        groups = [(graph, places.to(targets.device)) for graph, places in graphs.groups(numbers)]
        parts = [(Frames(*(part[places] for part in frames)), graph) for graph, places in groups]
        self._targets.copy_(targets[torch.cat([places for _, places in groups])])
        self._losses.copy_(self.members.step_in_parts(self._training_losses, parts))

    def _training_losses(self, forecasts: Float[Tensor, "members batch horizon nodes targets"]) -> Tensor:
        return _mean_where(self._loss(_residuals(forecasts, self._targets)), self._targets)

    def _summed_losses(self, forecasts: Float[Tensor, "members batch horizon nodes targets"]) -> Tensor:
        return _sum_where(self._loss(_residuals(forecasts, self._targets)), self._targets)

    def _with_share(self, network: SeriesNetwork) -> SeriesNetwork:
        """Return a network that knows which windows of a batch this process sees."""
        share = BatchShare(self._share.start, self._batch_size) if self._processes.are_several else None
        if network.share == share:
            return network
        network = copy.copy(network)
        network.share = share
        return network

    def _numbers(self) -> slice | Tensor:
        """Return which windows this process sees in the next step.

        They follow from seed and step, so that training can be resumed.
        """
        epoch, place = divmod(self._num_steps, self.steps_an_epoch)
        num_windows, first = len(self._training), place * self._batch_size
        if not self._is_shuffled:
            # Windows that fill no batch are left out. They are the oldest, because the newest matter most.
            first += num_windows - self.steps_an_epoch * self._batch_size
            return slice(first + self._share.start, first + self._share.stop)
        order = torch.from_numpy(np.random.default_rng([self._seed, epoch]).permutation(num_windows))
        return order[first : first + self._batch_size][self._share].to(self._targets.device)


def _residuals(forecasts: Tensor, targets: Tensor) -> Tensor:
    # Missing targets are masked later on. They must not be NaN then, because NaN times zero is NaN.
    return targets.nan_to_num() - forecasts


def _mean_where(losses: Tensor, targets: Tensor) -> Float[Tensor, " members"]:
    is_observed = (~targets.isnan()).to(losses.dtype)
    # If no target is observed, the loss is zero. Zero divided by zero would end all learning.
    return (losses * is_observed).flatten(1).sum(dim=1) / is_observed.sum().clamp(min=1)


def _sum_where(losses: Tensor, targets: Tensor) -> Float[Tensor, " members"]:
    return (losses * (~targets.isnan()).to(losses.dtype)).flatten(1).sum(dim=1)


def _share_of(windows: WindowSet, processes: Processes) -> WindowSet:
    return windows.some(processes.share_of(len(windows))) if processes.are_several else windows


def _check_shareable(network: SeriesNetwork, training: WindowSet, batch_size: int, num_processes: int) -> None:
    """Raise an `InputError` for a training whose windows several processes cannot share."""
    if batch_size < num_processes:
        raise InputError(
            f"Expected at least one window per process, got {batch_size} windows per step for {num_processes} "
            "processes. Start fewer processes."
        )
    if training.graphs is not None and not training.graphs.is_constant:
        raise InputError(
            f"Expected one graph to train on by {num_processes} processes, got edges that change. Start one process."
        )
    if any(isinstance(module, BATCH_NORMS) for module in network.modules()):
        raise InputError(
            f"Expected windows that do not depend on each other, to share them between {num_processes} processes, got "
            "a network with batch norm. Start one process, or take another operator."
        )
