"""Trainings on a part of the graph at a time: members that see some batches per step, and all nodes when they validate.

The loss of a batch is the sum over its inner training nodes, divided by what a batch has of them on average. So the
mean over an epoch is the loss of the whole graph, also if batches differ in size, and a batch that is the whole graph
has the loss and the gradient of a training without batches. Scores are computed from the outputs of all nodes, in
blocks (`nets/in_blocks.py`).

A step descends the mean loss of some batches, each of which starts from the same weights and buffers. So it does not
matter which process computes a batch: several share those of each step, and the nodes of each validation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from tdegnn.batches.base import Batch, BatchPlan
from tdegnn.errors import InputError
from tdegnn.graph import Graph
from tdegnn.nets.in_blocks import BlockShare, Surroundings, cut_into_blocks, ends_of_shares, run_in_blocks
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.subgraph import Subgraph
from tdegnn.training.devices import Placement
from tdegnn.training.members import GroupedAdam
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import NodeSubsets, NodeTask, SelectBy, TaskTraining
from tdegnn.training.processes import ALONE, Processes
from tdegnn.training.shared_step import SharedSums


class BatchTraining(TaskTraining):
    """Members that work on one task at the nodes of one graph, some batches per step.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        rows: The features of the nodes.
        graph: The whole graph.
        plan: Chooses the nodes of each batch.
        task: Computes losses and scores.
        subsets: Which nodes each member is trained, validated and tested on.
        placement: Where to compute.
        select_by: See `TaskTraining`.
        block_size: Nodes and edges per block of a validation. See `cut_into_blocks`.
        batches_per_step: Number of batches per step.
        processes: Who trains. Default: this process alone.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        descents: Sequence[GroupedAdam],
        rows: NodeRows,
        graph: Graph,
        plan: BatchPlan,
        task: NodeTask,
        subsets: NodeSubsets,
        placement: Placement,
        select_by: SelectBy = "accuracy",
        block_size: int | None = None,
        batches_per_step: int = 1,
        processes: Processes = ALONE,
    ) -> None:
        if batches_per_step < processes.size:
            raise InputError(
                f"Expected at least one batch per process, got {batches_per_step} per step for {processes.size} "
                f"processes. Set batches_per_step of the batches to {processes.size} or more, or start fewer processes."
            )
        super().__init__(networks, descents, (), task, subsets, placement, select_by)
        self._rows, self._graph, self._plan = rows, graph, plan
        self._batches_per_step, self._processes = batches_per_step, processes
        # Processes share a graph of one block, too, unless they have GPUs: in blocks, states are in the memory of the
        # machine, and to move them there and to the others takes longer than to compute all of them in each process.
        is_shared = processes.are_several and placement.device.type == "cpu"
        self._is_seen_at_once = not is_shared and len(cut_into_blocks(graph, block_size)) == 1
        self._blocks = cut_into_blocks(graph, block_size, BlockShare(processes.rank, processes.size))
        self._ends = ends_of_shares(graph, processes.size)
        self._surroundings = Surroundings(graph)
        self._average_weights = self._task.weights(self._training) / plan.num_batches
        self._num_done = torch.zeros((), dtype=torch.int64)
        if processes.are_several:
            processes.check_same(hashlib.sha256(plan.choose(0).nodes.tobytes()).hexdigest(), "batches")
            # They may have been drawn or solved on machines that round differently.
            for tensor in self.state().values():
                processes.copy_from_first(tensor)

    @property
    def num_batches(self) -> int:
        """Number of batches in an epoch."""
        return self._plan.num_batches

    @property
    def steps_an_epoch(self) -> int:
        """Number of steps until each training node was an inner node once."""
        return -(-self.num_batches // self._batches_per_step)

    def step(self) -> None:
        """Make one step for each active member, on the next batches."""
        members, first = self.members, int(self._num_done)
        before = {name: members.buffers[name].clone() for name in self._moving}
        self._sums.clear()
        for place in range(self._batches_per_step)[self._processes.share_of(self._batches_per_step)]:
            for name, buffer in before.items():
                members.buffers[name].copy_(buffer)
            members.number_pass(first + place)
            self._sums.add(*self._differentiate(self._plan.choose(first + place)))
            self._sums.add_buffers(members)
        self._sums.exchange()
        self._sums.move_buffers(members)
        self._num_done += self._batches_per_step
        members.number_pass(int(self._num_done))
        losses, gradient = self._sums.means()
        self._losses.copy_(losses)
        members.descend(gradient)

    def measure(self) -> None:
        """Measure the scores of all members."""
        self._measure()
        # What is decided by them must be decided alike, also on machines that round differently.
        for measured in (self._scores, self._test_scores, self._negative_losses):
            if measured is not None:
                self._processes.copy_from_first(measured)

    def try_first_batch(self) -> None:
        """Compute the outputs of the first batch, to find parts that do not fit."""
        self.members.evaluate(*self._inputs_of(self._plan.choose(0)))

    @cached_property
    def _moving(self) -> list[str]:
        """The buffers that a pass moves. The only batch of a step may move them as it likes."""
        return [] if self._batches_per_step == 1 else self.members.find_moving(*self._inputs_of(self._plan.choose(0)))

    @cached_property
    def _sums(self) -> SharedSums:
        # Counters have the same value after each batch of a step.
        means = [name for name in self._moving if self.members.buffers[name].is_floating_point()]
        return SharedSums(self.members, self._processes, means)

    def forget_surroundings(self) -> None:
        """Forget what was kept of the graph for further validations."""
        self._surroundings = Surroundings(self._graph)

    def _inputs_of(self, batch: Batch) -> tuple[Any, Graph]:
        return self._rows.take(batch.nodes), Subgraph(self._graph, batch.nodes)

    def _differentiate(self, batch: Batch) -> tuple[Float[Tensor, " members"], Float[Tensor, "members weights"]]:
        """Return the losses of a batch, and their gradient."""
        nodes = torch.as_tensor(batch.nodes, device=self._training.device)
        task = self._task.at(nodes)
        mask = self._training[:, nodes] & torch.as_tensor(batch.is_inner, device=nodes.device)

        def losses(outputs: Float[Tensor, "members nodes outputs"]) -> Float[Tensor, " members"]:
            return task.sums(outputs, mask) / self._average_weights

        return self.members.differentiate(losses, [self._inputs_of(batch)])

    def _numbers_to_resume(self) -> dict[str, Tensor]:
        return {**super()._numbers_to_resume(), "num_batches_done": self._num_done}

    def _join_rows(self, rows: Shaped[Tensor, "nodes ..."]) -> None:
        self._processes.gather_rows(rows, self._ends)

    def _evaluate(self) -> Float[Tensor, "members nodes outputs"]:
        if self._is_seen_at_once:
            return self.members.evaluate(self._rows.take(np.arange(self._graph.num_nodes)), self._graph)
        outputs = []
        for member in range(len(self.members)):
            network = self.members.averaged_network(member)
            assert isinstance(network, StationaryNetwork)
            run = run_in_blocks(
                network,
                self._rows.take,
                self._graph,
                self._blocks,
                self._join_rows,
                self._surroundings,
            )
            outputs.append(run.outputs)
            del run  # its states, before scores are computed
        return torch.stack(outputs).to(self._training.device)
