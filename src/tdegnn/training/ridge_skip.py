"""The linear skip of a network solved in closed form before training: a ridge regression on the training windows.

Gradient descent would take thousands of steps to the same place. First come the weights that all nodes share, then,
where the skip has such, what each node adds of its own. Both penalties are chosen on the validation windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.graph import Graph
from tdegnn.nets.series_network import SeriesSizes
from tdegnn.nets.temporal import LinearSkip
from tdegnn.training.series_frames import WindowSet

SHARED_PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)
# What a node has of its own is learned from few steps and needs more. The last leaves it nothing.
OWN_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, torch.inf)
ROWS_AT_ONCE = 100_000
# Numbers in the products of inputs, of all nodes: a gigabyte.
LARGEST_PRODUCTS = 2**27


class Penalties(NamedTuple):
    """How strongly the weights of a skip are held to zero: those of all nodes, and those of each."""

    shared: float
    own: float


class _Solution(NamedTuple):
    """Weights of a skip; those of own inputs first, the last of these being the offset, then those of others."""

    shared: Float[Tensor, "inputs outputs"]
    own: Float[Tensor, "nodes own outputs"]


class _Products(NamedTuple):
    """Sums over windows of products of inputs with inputs and with targets, of all nodes (one row) or of each."""

    inputs: Float[Tensor, "nodes inputs inputs"]
    targets: Float[Tensor, "nodes inputs outputs"]


def start_at_ridge(
    networks: Sequence[nn.Module],
    training: WindowSet,
    judged: WindowSet,
    graph: Graph,
    units: Float[np.ndarray, "nodes targets"],
    penalties: Penalties | None = None,
) -> Penalties | None:
    """Solve the linear skips of networks of one kind; return the penalties, or None where the networks have no skip.

    Args:
        networks: Networks that are trained together.
        training: Windows to solve on.
        judged: Windows by which the penalties are chosen.
        graph: The graph.
        units: What one means at each node; errors are judged in these.
        penalties: Those that were chosen before, to solve again on other windows.
    """
    skips = [skip for skip in (getattr(network, "skip", None) for network in networks) if isinstance(skip, LinearSkip)]
    if not skips:
        return None
    products = _multiply(skips[0], training, graph)
    if penalties is None:
        penalties = _choose(skips[0], products, judged, graph, torch.as_tensor(units))
    shared, own = _solve(skips[0], products, penalties)
    offset = skips[0].by_node.shape[1] - 1
    with torch.no_grad():
        for skip in skips:
            skip.shared.weight.copy_(torch.cat([shared[:offset], shared[offset + 1 :]]).T)
            skip.shared.bias.copy_(shared[offset])
            skip.by_node.copy_(own)
    return penalties


def fits_by_node(sizes: SeriesSizes) -> bool:
    """Whether weights of each node's own can be solved in memory."""
    num_inputs = LinearSkip(sizes._replace(num_nodes=1), is_by_node=True).shared.in_features + 1
    return sizes.num_nodes * num_inputs**2 <= LARGEST_PRODUCTS


def _choose(
    skip: LinearSkip, products: _Products, judged: WindowSet, graph: Graph, units: Float[Tensor, "nodes targets"]
) -> Penalties:
    """The penalties whose solution has the smallest error."""

    def error(penalties: Penalties) -> float:
        return _squared_error(skip, _solve(skip, products, penalties), judged, graph, units)

    shared = min(SHARED_PENALTIES, key=lambda penalty: error(Penalties(penalty, torch.inf)))
    if not len(skip.by_node):
        return Penalties(shared, torch.inf)
    return Penalties(shared, min(OWN_PENALTIES, key=lambda penalty: error(Penalties(shared, penalty))))


def _solve(skip: LinearSkip, products: _Products, penalties: Penalties) -> _Solution:
    pooled = _Products(*(part.sum(dim=0) for part in products))
    shared = _ridge(pooled, penalties.shared)
    num_nodes, num_own, num_outputs = skip.by_node.shape
    if not num_nodes or penalties.own == torch.inf:
        return _Solution(shared, shared.new_zeros(num_nodes, num_own, num_outputs))
    # What the shared weights leave, by the own inputs of each node.
    left = products.targets - products.inputs @ shared
    return _Solution(
        shared, _ridge(_Products(products.inputs[:, :num_own, :num_own], left[:, :num_own]), penalties.own)
    )


def _ridge(products: _Products, penalty: float) -> Float[Tensor, "*nodes inputs outputs"]:
    penalties = penalty * torch.eye(products.inputs.shape[-1]).to(products.inputs)
    solution: Tensor = torch.linalg.solve(products.inputs + penalties, products.targets)
    return solution


def _multiply(skip: LinearSkip, windows: WindowSet, graph: Graph) -> _Products:
    sums: _Products | None = None
    for inputs, targets in _rows(skip, windows, graph):
        is_known = ~targets.isnan().any(dim=-1, keepdim=True)
        known, wanted = inputs * is_known, targets.nan_to_num() * is_known
        if not len(skip.by_node):
            known, wanted = known.flatten(0, 1)[:, None], wanted.flatten(0, 1)[:, None]
        new = _Products(torch.einsum("bni,bnj->nij", known, known), torch.einsum("bni,bno->nio", known, wanted))
        sums = new if sums is None else _Products(*(a + b for a, b in zip(sums, new, strict=True)))
    if sums is None:
        raise InputError("Expected at least one window, got none. Take a longer series or a shorter window.")
    return sums


def _squared_error(
    skip: LinearSkip, solution: _Solution, windows: WindowSet, graph: Graph, units: Float[Tensor, "nodes targets"]
) -> float:
    total = 0.0
    num_own = skip.by_node.shape[1]
    for inputs, targets in _rows(skip, windows, graph):
        forecasts = inputs @ solution.shared
        if len(solution.own):
            forecasts = forecasts + torch.einsum("bni,nio->bno", inputs[..., :num_own], solution.own)
        in_units = (forecasts - targets) * units.to(targets).repeat(1, skip.sizes.horizon)
        total += float(in_units.square().nansum())
    return total


def _rows(
    skip: LinearSkip, windows: WindowSet, graph: Graph
) -> Iterator[tuple[Float[Tensor, "batch nodes inputs"], Float[Tensor, "batch nodes outputs"]]]:
    """Inputs and targets of some windows at a time, in float64."""
    at_once = max(1, ROWS_AT_ONCE // graph.num_nodes)
    for first in range(0, len(windows), at_once):
        frames, targets = windows.batch(slice(first, first + at_once))
        own, others = skip.inputs(frames, graph)
        yield torch.cat([own, others], dim=-1).double(), targets.movedim(1, 2).flatten(2).double()
