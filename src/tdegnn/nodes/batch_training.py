"""Trainings on a part of the graph at a time: members that see one batch per step, and all nodes when they validate.

The loss of a batch is the sum over its inner training nodes, divided by what a batch has of them on average. So the
mean over an epoch is the loss of the whole graph, also if batches differ in size, and a batch that is the whole graph
has the loss and the gradient of a training without batches. Scores are computed from the outputs of all nodes, in
blocks (`nets/in_blocks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.batches.base import BatchPlan
from tdegnn.graph import Graph
from tdegnn.nets.in_blocks import cut_into_blocks, run_in_blocks
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.subgraph import Subgraph
from tdegnn.training.devices import Placement
from tdegnn.training.members import GroupedAdam
from tdegnn.training.node_rows import NodeRows
from tdegnn.training.node_training import NodeSubsets, NodeTask, SelectBy, TaskTraining


class BatchTraining(TaskTraining):
    """Members that work on one task at the nodes of one graph, one batch per step.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        rows: The features of the nodes.
        graph: The whole graph.
        plan: Chooses the nodes of each step.
        task: Computes losses and scores.
        subsets: Which nodes each member is trained, validated and tested on.
        placement: Where to compute.
        select_by: See `TaskTraining`.
        block_size: Nodes and edges per block of a validation. See `cut_into_blocks`.
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
    ) -> None:
        super().__init__(networks, descents, (), task, subsets, placement, select_by)
        self._rows, self._graph, self._plan = rows, graph, plan
        self._blocks = cut_into_blocks(graph, block_size)
        self._average_weights = self._task.weights(self._training) / plan.num_batches
        self._num_done = torch.zeros((), dtype=torch.int64)

    @property
    def num_batches(self) -> int:
        """Number of batches in an epoch."""
        return self._plan.num_batches

    def step(self) -> None:
        """Make one step for each active member, on the next batch."""
        batch = self._plan.choose(int(self._num_done))
        nodes = torch.as_tensor(batch.nodes, device=self._training.device)
        task = self._task.at(nodes)
        mask = self._training[:, nodes] & torch.as_tensor(batch.is_inner, device=nodes.device)

        def losses(outputs: Float[Tensor, "members nodes outputs"]) -> Float[Tensor, " members"]:
            return task.sums(outputs, mask) / self._average_weights

        inputs = self._rows.take(batch.nodes), Subgraph(self._graph, batch.nodes)
        self._losses.copy_(self.members.step(losses, *inputs))
        self._num_done += 1

    def measure(self) -> None:
        """Measure the scores of all members."""
        self._measure()

    def try_first_batch(self) -> None:
        """Compute the outputs of the first batch, to find parts that do not fit."""
        batch = self._plan.choose(0)
        self.members.evaluate(self._rows.take(batch.nodes), Subgraph(self._graph, batch.nodes))

    def _numbers_to_resume(self) -> dict[str, Tensor]:
        return {**super()._numbers_to_resume(), "num_batches_done": self._num_done}

    def _evaluate(self) -> Float[Tensor, "members nodes outputs"]:
        if len(self._blocks) == 1:
            return self.members.evaluate(self._rows.take(self._blocks[0]), self._graph)
        outputs = []
        for member in range(len(self.members)):
            network = self.members.averaged_network(member)
            assert isinstance(network, StationaryNetwork)
            outputs.append(run_in_blocks(network, self._rows.take, self._graph, self._blocks).outputs)
        return torch.stack(outputs).to(self._training.device)
