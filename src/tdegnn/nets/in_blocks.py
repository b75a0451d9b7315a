"""A network on a graph that is larger than a device: layer by layer, and each layer block by block.

The states of all nodes are in the memory of the machine. For the rate of a block of nodes, only these nodes, their
neighbors as far as the operator looks, and the edges among them are on the device. Everything else is done per node, or
by the rule for c, which sees the states of all nodes: attention over the history has its mean over all nodes, not over
those of a block. So the result is that of the network on the whole graph, to rounding. Processes may each compute some
of the blocks, and join their rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tdegnn.core.integrator import Integration, call_operator, integrate
from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import InputError
from tdegnn.graph import Graph, State
from tdegnn.nets.node_network import Features
from tdegnn.nets.node_parts import keep_all
from tdegnn.nets.stationary import StationaryNetwork
from tdegnn.subgraph import NodeNumbers, Subgraph, nodes_around

# From numbers of nodes to their features, on the device of the network.
TakeRows: TypeAlias = Callable[[NodeNumbers], Features]
# Given a tensor of which each process has computed the rows of its share, fills in the rows of the others.
JoinRows: TypeAlias = Callable[[Tensor], None]
# Nodes of a block, and edges that end at them. A device of some gigabytes holds a network on so many.
BLOCK_SIZE = 2**21
# Nodes and edges of all surroundings that are kept from layer to layer, about a gigabyte.
KEPT_SIZE = 2**24


class BlockRun(NamedTuple):
    """What a network returns for all nodes, in the memory of the machine.

    Attributes:
        outputs: The outputs of each node.
        integration: The last state, the history and the coefficients. If processes share the blocks, each of them may
            know the last state of its own nodes only.
    """

    outputs: Float[Tensor, "nodes outputs"]
    integration: Integration


class BlockShare(NamedTuple):
    """Which part of the nodes a process computes, if several share them.

    Attributes:
        number: The number of the part, from 0 on.
        total: How many parts there are.
    """

    number: int = 0
    total: int = 1


ALL_NODES = BlockShare()


def cut_into_blocks(graph: Graph, block_size: int | None = None, share: BlockShare = ALL_NODES) -> list[NodeNumbers]:
    """Return consecutive nodes, block by block.

    Args:
        graph: The graph.
        block_size: Most nodes and edges that end at them, per block. A block has at least one node. If None,
            `BLOCK_SIZE`.
        share: Which part of the nodes to cut. Parts have about the same number of nodes and edges. Default: all nodes.
    """
    most = BLOCK_SIZE if block_size is None else block_size
    sizes = _sizes_up_to(graph)
    first, end = _first_node(sizes, share), _first_node(sizes, share._replace(number=share.number + 1))
    blocks = []
    while first < end:
        last = int(np.searchsorted(sizes, sizes[first] + most, side="right")) - 1
        last = min(max(last, first + 1), end)
        blocks.append(np.arange(first, last))
        first = last
    return blocks


def ends_of_shares(graph: Graph, total: int) -> list[int]:
    """Return the number of the node after the last one of each share."""
    sizes = _sizes_up_to(graph)
    return [_first_node(sizes, BlockShare(number, total)) for number in range(1, total + 1)]


def _sizes_up_to(graph: Graph) -> Int64[np.ndarray, " bounds"]:
    """Return the number of nodes, and edges that end at them, before each node, and of all."""
    sizes = np.arange(graph.num_nodes + 1)
    for lists in graph.neighbor_lists:
        sizes = sizes + lists.starts
    return sizes


def _first_node(sizes: Int64[np.ndarray, " bounds"], share: BlockShare) -> int:
    return int(np.searchsorted(sizes, sizes[-1] * share.number // share.total))


def has_all_rows(rows: Tensor) -> None:
    """Leave rows as they are: one process has computed all of them."""


class Surroundings:
    """The nodes that are needed for the rates of a block, and the edges among them.

    Those of the first blocks are kept, as many as `KEPT_SIZE` allows: every layer needs all of them again. To keep the
    last ones instead would not help, since layers begin with the first ones.

    Args:
        graph: The whole graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._kept: dict[tuple[int, int, int], tuple[NodeNumbers, Subgraph]] = {}
        self._size = 0

    def of(self, block: NodeNumbers, reach: int) -> tuple[NodeNumbers, Subgraph]:
        """Return the nodes in reach of a block, and their subgraph.

        Args:
            block: Consecutive nodes, at least one.
            reach: Number of hops.
        """
        key = (int(block[0]), int(block[-1]), reach)
        if key in self._kept:
            return self._kept[key]
        nodes = nodes_around(self._graph, block, reach)
        found = nodes, Subgraph(self._graph, nodes)
        size = len(nodes) + found[1].num_edges
        if self._size + size <= KEPT_SIZE:
            self._kept[key] = found
            self._size += size
        return found


def check_has_blocks(operator: SpatialOperator) -> None:
    """Raise an `InputError` for an operator that needs all nodes at once."""
    if operator.reach is None:
        name = type(operator).__name__
        raise InputError(
            f"Expected an operator that looks at neighbors, for batches, got {name}, which looks at all nodes at once. "
            "Train without batches, or take another operator."
        )


@torch.no_grad()
def run_in_blocks(
    network: StationaryNetwork,
    take: TakeRows,
    graph: Graph,
    blocks: Sequence[NodeNumbers],
    join: JoinRows = has_all_rows,
    surroundings: Surroundings | None = None,
) -> BlockRun:
    """Return what a network in evaluation mode returns for all nodes of a graph.

    Args:
        network: The network, on the device on which blocks are computed.
        take: Returns the features of some nodes, on that device.
        graph: The whole graph.
        blocks: All nodes, block by block, or those of the share of this process. The nodes of a block are consecutive.
        join: Fills in the rows that other processes compute. By default there are none.
        surroundings: Those of the blocks in the graph. If None, they are made for this run.
    """
    check_has_blocks(network.operator)
    device = next(network.parameters()).device
    # Copies: what works on the states of all nodes works where they are.
    coefficients, readout = copy.deepcopy(network.coefficients).cpu(), network.readout
    state_norm = None if network.state_norm is None else copy.deepcopy(network.state_norm).cpu()
    kept: Any = None
    # Of the last state each process reads its own rows, unless a norm looks at all of them.
    num_joined = network.num_layers - 1 if state_norm is None else network.num_layers

    def keep(state: Tensor) -> None:
        nonlocal kept
        kept = readout.keep(kept, state)

    integration = integrate(
        _first_states(network, take, graph.num_nodes, blocks, join),
        graph,
        coefficients,
        _InBlocks(network.operator, blocks, join, num_joined, surroundings or Surroundings(graph), device),
        num_layers=network.num_layers,
        step_size=network.step_size.cpu(),
        after_layer=state_norm,
        on_state=keep,
    )
    joined = readout.join(kept)
    outputs = joined.new_zeros(graph.num_nodes, network.num_outputs, dtype=next(network.parameters()).dtype)
    for block in blocks:
        rows = _as_rows(block)
        outputs[rows] = readout.read(joined[rows].to(device), keep_all).cpu()
    join(outputs)
    if network.skip is not None:
        outputs = outputs + network.skip(graph).cpu()
    return BlockRun(outputs, integration)


def _first_states(
    network: StationaryNetwork, take: TakeRows, num_nodes: int, blocks: Sequence[NodeNumbers], join: JoinRows
) -> tuple[State, ...]:
    """Return the initial states of all nodes."""
    states: tuple[Tensor, ...] = ()
    # A process without a block sees none of the nodes, to know what states are like.
    for block in blocks or [np.arange(0)]:
        rows = network.initial_states(network.embedding.embed(take(block), keep_all))
        states = states or tuple(torch.zeros(num_nodes, each.shape[1], dtype=each.dtype) for each in rows)
        for state, each in zip(states, rows, strict=True):
            state[_as_rows(block)] = each.cpu()
    for state in states:
        join(state)
    return states


class _InBlocks(SpatialOperator):
    """An operator, computed block by block on a device, for states that are in the memory of the machine.

    Args:
        operator: The operator.
        blocks: The nodes that this process computes, block by block.
        join: Fills in the rows that other processes compute.
        num_joined: In how many layers others need the rates of this process, from the first one on.
        surroundings: What is seen of the graph for a block.
        device: Where the operator is.
    """

    rate_is_free = True

    def __init__(
        self,
        operator: SpatialOperator,
        blocks: Sequence[NodeNumbers],
        join: JoinRows,
        num_joined: int,
        surroundings: Surroundings,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._operator, self._blocks, self._join, self._device = operator, blocks, join, device
        self._num_joined, self._surroundings = num_joined, surroundings

    def forward(
        self,
        state: State,
        graph: Graph,  # noqa: ARG002 (the surroundings know it)
        layer: int,
        context: list[Any] | None = None,
    ) -> tuple[State, list[Any]]:
        """Return the rate of all nodes, and the context of each block."""
        rate, contexts = torch.zeros_like(state), []
        before = [None] * len(self._blocks) if context is None else context
        assert self._operator.reach is not None  # checked before
        for block, own in zip(self._blocks, before, strict=True):
            nodes, around = self._surroundings.of(block, self._operator.reach)
            seen = state[nodes].to(self._device)
            found, after = call_operator(self._operator, seen, around, layer, _moved(own, self._device))
            first = int(np.searchsorted(nodes, block[0]))
            rate[_as_rows(block)] = found[first : first + len(block)].cpu()
            contexts.append(_moved(after, torch.device("cpu")))
        if layer < self._num_joined:
            self._join(rate)
        return rate, contexts


def _as_rows(block: NodeNumbers) -> slice:
    """Return the rows of consecutive nodes: a slice is not copied."""
    return slice(int(block[0]), int(block[-1]) + 1) if len(block) else slice(0, 0)


def _moved(context: Any, device: torch.device) -> Any:
    """Return a context with its tensors on a device."""
    if isinstance(context, Tensor):
        return context.to(device)
    if isinstance(context, tuple):
        moved = [_moved(each, device) for each in context]
        return type(context)(*moved) if hasattr(context, "_fields") else tuple(moved)
    return context
