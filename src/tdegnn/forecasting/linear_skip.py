"""Skips, forecasts that are added to those of the layers: none, naive ones, a linear one, one with weights per node.

A linear skip is solved in closed form before training: a ridge regression on the training windows. Gradient descent
would take thousands of steps to the same place. The weights that all nodes share are solved first, then those of each
node. Both penalties are chosen on the validation windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.forecasting.frames import WindowSet
from tdegnn.graph import Graph
from tdegnn.nets.naive_skips import LastValueSkip, SeasonSkip
from tdegnn.nets.series_network import Frames, SeriesSizes, as_frames
from tdegnn.parts import Family, Part, PartLike
from tdegnn.ridge import solve_ridge


class LinearSkip(nn.Module):
    """A linear forecast of each node from its window, its neighbors' windows, the mean of all nodes, and the future.

    It sees what a ridge regression on lags sees, and starts as its solution (`start_at_ridge`). The layers
    learn what is not linear.

    Args:
        sizes: The sizes of the task.
        is_by_node: Whether each node also has weights of its own for its own window.
    """

    # Weight decay pulls to where the skip starts: the solution of a ridge regression.
    anchored: ClassVar[tuple[str, ...]] = ("shared.weight", "shared.bias", "by_node")

    def __init__(self, sizes: SeriesSizes, *, is_by_node: bool = False) -> None:
        super().__init__()
        self.sizes = sizes
        num_own, num_others = _num_inputs(sizes)
        num_outputs = sizes.horizon * sizes.num_targets
        self.shared = nn.Linear(num_own + num_others, num_outputs)
        self.by_node = nn.Parameter(torch.empty(sizes.num_nodes if is_by_node else 0, num_own + 1, num_outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start with a forecast of zero."""
        for weight in (self.shared.weight, self.shared.bias, self.by_node):
            nn.init.zeros_(weight)

    def inputs(
        self, frames: Frames, graph: Graph
    ) -> tuple[Float[Tensor, "batch nodes own"], Float[Tensor, "batch nodes others"]]:
        """Return the inputs from the node itself and the future, with a one for the offset, and those from others."""
        targets = frames.window[..., : self.sizes.num_targets]
        # Waves of the past add nothing to waves of the future.
        without_waves = frames.window[..., : self.sizes.num_channels - self.sizes.num_waves]
        of_all = targets.mean(dim=-2, keepdim=True).expand_as(targets)
        own, future, neighbors, mean = (
            part.movedim(1, 2).flatten(2) for part in (without_waves, frames.future, graph.propagate(targets), of_all)
        )
        return torch.cat([own, future, torch.ones_like(own[..., :1])], dim=-1), torch.cat([neighbors, mean], dim=-1)

    def forward(self, frames: Frames, graph: Graph) -> Float[Tensor, "batch horizon nodes targets"]:
        """Return the linear forecasts."""
        own, others = self.inputs(frames, graph)
        flat: Tensor = self.shared(torch.cat([own[..., :-1], others], dim=-1))
        if len(self.by_node):
            flat = flat + torch.einsum("bni,nio->bno", own, self.by_node)
        return as_frames(flat, self.sizes)


class NoSkip(nn.Module):
    """Stands for no skip. `make_skip` returns None for it."""


SKIPS = Family(
    "skip",
    nn.Module,
    {
        "none": NoSkip,
        "last": LastValueSkip,
        "season": SeasonSkip,
        "linear": LinearSkip,
        "by-node": Part(LinearSkip, is_by_node=True),
    },
)


def make_skip(given: PartLike, sizes: SeriesSizes, **others: Any) -> nn.Module | None:
    """Make a skip to the sizes of a task: a module `skip(frames, graph) -> forecast`, or None.

    Args:
        given: A name of `SKIPS`, or the user's own class or object.
        sizes: The sizes of the task.
        others: Other sizes of the network, such as `hidden_channels`.
    """
    made: nn.Module = SKIPS.make(given, sizes=sizes, **others)
    return None if isinstance(made, NoSkip) else made


def is_solved(given: PartLike) -> bool:
    """Whether a skip is linear, and so is solved before the training. Others learn in the training."""
    if isinstance(given, nn.Module):
        return isinstance(given, LinearSkip)
    kind = SKIPS.resolve(given).kind
    return isinstance(kind, type) and issubclass(kind, LinearSkip)


SHARED_PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)
# Weights of one node are learned from few steps and need more. The last penalty leaves them at zero.
OWN_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, torch.inf)
ROWS_AT_ONCE = 100_000
# Maximum number of values in the products of inputs, over all nodes: a gigabyte.
LARGEST_PRODUCTS = 2**27


class Penalties(NamedTuple):
    """How strongly the weights of a skip are pulled to zero: shared ones, and those of each node."""

    shared: float
    own: float


class _Solution(NamedTuple):
    """Weights of a skip, for own inputs, the offset, and inputs from others, in this order."""

    shared: Float[Tensor, "inputs outputs"]
    own: Float[Tensor, "nodes own outputs"]


class _Products(NamedTuple):
    """Products of inputs with inputs and with targets, summed over windows, per node or over all nodes (one row)."""

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
    """Solve the linear skips of networks of one kind. Return the penalties, or None if no network has a linear skip.

    Args:
        networks: Networks that are trained together.
        training: Windows to solve on.
        judged: Windows by which the penalties are chosen.
        graph: The graph.
        units: A scaled value of one at each node, in original units. Errors are measured in these units.
        penalties: Penalties that were chosen before, to solve again on other windows. If None, they are chosen.
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
    """Return whether the weights of each node can be solved in memory."""
    num_inputs = sum(_num_inputs(sizes)) + 1  # and the offset
    return sizes.num_nodes * num_inputs**2 <= LARGEST_PRODUCTS


def _num_inputs(sizes: SeriesSizes) -> tuple[int, int]:
    """Inputs of a linear skip: from the node itself and the future, and from others."""
    num_own = sizes.window * (sizes.num_channels - sizes.num_waves) + sizes.horizon * sizes.num_known
    return num_own, 2 * sizes.window * sizes.num_targets


def _choose(
    skip: LinearSkip, products: _Products, judged: WindowSet, graph: Graph, units: Float[Tensor, "nodes targets"]
) -> Penalties:
    """Return the penalties whose solution has the smallest error."""

    def error(penalties: Penalties) -> float:
        return _squared_error(skip, _solve(skip, products, penalties), judged, graph, units)

    shared = min(SHARED_PENALTIES, key=lambda penalty: error(Penalties(penalty, torch.inf)))
    if not len(skip.by_node):
        return Penalties(shared, torch.inf)
    return Penalties(shared, min(OWN_PENALTIES, key=lambda penalty: error(Penalties(shared, penalty))))


def _solve(skip: LinearSkip, products: _Products, penalties: Penalties) -> _Solution:
    pooled = _Products(*(part.sum(dim=0) for part in products))
    shared = solve_ridge(*pooled, penalties.shared)
    num_nodes, num_own, num_outputs = skip.by_node.shape
    if not num_nodes or penalties.own == torch.inf:
        return _Solution(shared, shared.new_zeros(num_nodes, num_own, num_outputs))
    # Each node explains what the shared weights leave, by its own inputs.
    left = products.targets - products.inputs @ shared
    return _Solution(shared, solve_ridge(products.inputs[:, :num_own, :num_own], left[:, :num_own], penalties.own))


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
    """Yield inputs and targets of some windows at a time, in float64."""
    at_once = max(1, ROWS_AT_ONCE // graph.num_nodes)
    for first in range(0, len(windows), at_once):
        frames, targets = windows.batch(slice(first, first + at_once))
        own, others = skip.inputs(frames, graph)
        yield torch.cat([own, others], dim=-1).double(), targets.movedim(1, 2).flatten(2).double()
