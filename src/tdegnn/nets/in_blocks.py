"""A network on a graph that is larger than a device: layer by layer, and each layer block by block.

The states of all nodes are in the memory of the machine. For the rate of a block of nodes, only these nodes, their
neighbors as far as the operator looks, and the edges among them are on the device. Everything else is done per node, or
by the rule for c, which sees the states of all nodes: attention over the history has its mean over all nodes, not over
those of a block. So the result is that of the network on the whole graph, to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
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
# Nodes of a block, and edges that end at them. A device of some gigabytes holds a network on so many.
BLOCK_SIZE = 2**21


class BlockRun(NamedTuple):
    """What a network returns for all nodes, in the memory of the machine.

    Attributes:
        outputs: The outputs of each node.
        integration: The last state, the history and the coefficients.
    """

    outputs: Float[Tensor, "nodes outputs"]
    integration: Integration


def cut_into_blocks(graph: Graph, block_size: int | None = None) -> list[NodeNumbers]:
    """Return consecutive nodes, block by block.

    Args:
        graph: The graph.
        block_size: Most nodes and edges that end at them, per block. A block has at least one node. If None,
            `BLOCK_SIZE`.
    """
    most = BLOCK_SIZE if block_size is None else block_size
    sizes = np.arange(graph.num_nodes + 1)
    for lists in graph.neighbor_lists:
        sizes = sizes + lists.starts
    blocks = []
    first = 0
    while first < graph.num_nodes:
        last = int(np.searchsorted(sizes, sizes[first] + most, side="right")) - 1
        last = max(last, first + 1)
        blocks.append(np.arange(first, last))
        first = last
    return blocks


def check_has_blocks(operator: SpatialOperator) -> None:
    """Raise an `InputError` for an operator that needs all nodes at once."""
    if operator.reach is None:
        name = type(operator).__name__
        raise InputError(
            f"Expected an operator that looks at neighbors, for batches, got {name}, which looks at all nodes at once. "
            "Train without batches, or take another operator."
        )


@torch.no_grad()
def run_in_blocks(network: StationaryNetwork, take: TakeRows, graph: Graph, blocks: Sequence[NodeNumbers]) -> BlockRun:
    """Return what a network in evaluation mode returns for all nodes of a graph.

    Args:
        network: The network, on the device on which blocks are computed.
        take: Returns the features of some nodes, on that device.
        graph: The whole graph.
        blocks: All nodes, block by block.
    """
    check_has_blocks(network.operator)
    device = next(network.parameters()).device
    # Copies: what works on the states of all nodes works where they are.
    coefficients, readout = copy.deepcopy(network.coefficients).cpu(), network.readout
    state_norm = None if network.state_norm is None else copy.deepcopy(network.state_norm).cpu()
    kept: Any = None

    def keep(state: Tensor) -> None:
        nonlocal kept
        kept = readout.keep(kept, state)

    integration = integrate(
        _first_states(network, take, graph.num_nodes, blocks),
        graph,
        coefficients,
        _InBlocks(network.operator, blocks, device),
        num_layers=network.num_layers,
        step_size=network.step_size.cpu(),
        after_layer=state_norm,
        on_state=keep,
    )
    joined = readout.join(kept)
    outputs = torch.cat([readout.read(joined[block].to(device), keep_all).cpu() for block in blocks])
    if network.skip is not None:
        outputs = outputs + network.skip(graph).cpu()
    return BlockRun(outputs, integration)


def _first_states(
    network: StationaryNetwork, take: TakeRows, num_nodes: int, blocks: Sequence[NodeNumbers]
) -> tuple[State, ...]:
    """Return the initial states of all nodes."""
    states: tuple[Tensor, ...] = ()
    for block in blocks:
        rows = network.initial_states(network.embedding.embed(take(block), keep_all))
        states = states or tuple(torch.empty(num_nodes, each.shape[1], dtype=each.dtype) for each in rows)
        for state, each in zip(states, rows, strict=True):
            state[block] = each.cpu()
    return states


class _InBlocks(SpatialOperator):
    """An operator, computed block by block on a device, for states that are in the memory of the machine.

    Args:
        operator: The operator.
        blocks: All nodes, block by block.
        device: Where the operator is.
    """

    def __init__(self, operator: SpatialOperator, blocks: Sequence[NodeNumbers], device: torch.device) -> None:
        super().__init__()
        self._operator, self._blocks, self._device = operator, blocks, device

    def forward(
        self,
        state: State,
        graph: Graph,
        layer: int,
        context: list[Any] | None = None,
    ) -> tuple[State, list[Any]]:
        """Return the rate of all nodes, and the context of each block."""
        rate, contexts = torch.empty_like(state), []
        before = [None] * len(self._blocks) if context is None else context
        assert self._operator.reach is not None  # checked before
        for block, own in zip(self._blocks, before, strict=True):
            nodes = nodes_around(graph, block, self._operator.reach)
            seen = state[nodes].to(self._device)
            found, after = call_operator(self._operator, seen, Subgraph(graph, nodes), layer, _moved(own, self._device))
            rate[block] = found[np.searchsorted(nodes, block)].cpu()
            contexts.append(_moved(after, torch.device("cpu")))
        return rate, contexts


def _moved(context: Any, device: torch.device) -> Any:
    """Return a context with its tensors on a device."""
    if isinstance(context, Tensor):
        return context.to(device)
    if isinstance(context, tuple):
        moved = [_moved(each, device) for each in context]
        return type(context)(*moved) if hasattr(context, "_fields") else tuple(moved)
    return context
