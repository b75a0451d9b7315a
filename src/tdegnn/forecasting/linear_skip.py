"""Skips, forecasts that are added to those of the layers: none, naive ones, a linear one, one with weights per node.

A linear skip is solved in closed form before training: a ridge regression on the training windows. Gradient descent
would take thousands of steps to the same place. The weights that all nodes share are solved first, then those of each
node. Both penalties are chosen on the validation windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
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
from tdegnn.ridge import multiply_rows, solve_ridge


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
        of_all = targets.mean(dim=-2, keepdim=True).expand_as(targets)
        others = (part.movedim(1, 2).flatten(2) for part in (graph.propagate(targets), of_all))
        return self.own_inputs(frames), torch.cat([*others], dim=-1)

    def own_inputs(self, frames: Frames) -> Float[Tensor, "batch nodes own"]:
        """Return the inputs from the node itself and the future, with a one for the offset, of any nodes."""
        # Waves of the past add nothing to waves of the future.
        without_waves = frames.window[..., : self.sizes.num_channels - self.sizes.num_waves]
        own, future = (part.movedim(1, 2).flatten(2) for part in (without_waves, frames.future))
        return torch.cat([own, future, torch.ones_like(own[..., :1])], dim=-1)

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
# Maximum number of values in a block of rows: 16 MB.
NUMBERS_AT_ONCE = 2**21
# Maximum number of values in the products of inputs, over all nodes, if each node is to have weights of its own.
LARGEST_PRODUCTS = 2**27
# Maximum number of values in the products of some nodes, which are solved together: 128 MB.
PRODUCTS_AT_ONCE = 2**24
# Maximum number of multiplications for the products of inputs, about ten seconds on one core. If all windows would take
# more, every second one is taken, or every third one: neighboring windows are nearly the same.
LARGEST_WORK = 2**38
# Multiplications that a busy core makes in a second.
MULTIPLIED_IN_A_SECOND = 1.5e9
# Maximum number of rows by which penalties are chosen.
MOST_JUDGED_ROWS = 2**18


class Penalties(NamedTuple):
    """How strongly the weights of a skip are pulled to zero: shared ones, and those of each node."""

    shared: float
    own: float


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
    task = _RidgeTask.of(skips[0], training, judged, graph, units)
    shared, shared_penalty = task.solve_shared(SHARED_PENALTIES if penalties is None else [penalties.shared])
    own, own_penalty = task.solve_own(shared, OWN_PENALTIES if penalties is None else [penalties.own])
    offset = skips[0].by_node.shape[1] - 1
    with torch.no_grad():
        for skip in skips:
            skip.shared.weight.copy_(torch.cat([shared[:offset], shared[offset + 1 :]]).T)
            skip.shared.bias.copy_(shared[offset])
            skip.by_node.copy_(own)
    return Penalties(shared_penalty, own_penalty)


def seconds_to_solve(given: PartLike, sizes: SeriesSizes, num_windows: int) -> float:
    """Return about how long a skip takes to solve, before the training. 0 if it is not solved.

    Args:
        given: The skip.
        sizes: The sizes of the task.
        num_windows: Number of windows to solve on.
    """
    if not is_solved(given):
        return 0.0
    num_own, num_others = _num_inputs(sizes)
    num_rows, own = num_windows * sizes.num_nodes, num_own + 1
    work = float(min(num_rows * (own + num_others) ** 2, LARGEST_WORK))
    if fits_by_node(sizes):
        work += min(num_rows * own**2, LARGEST_WORK) + len(OWN_PENALTIES) * sizes.num_nodes * own**3 / 3
    return work / MULTIPLIED_IN_A_SECOND


def fits_by_node(sizes: SeriesSizes) -> bool:
    """Return whether the weights of each node can be solved in memory."""
    num_inputs = sum(_num_inputs(sizes)) + 1  # and the offset
    return sizes.num_nodes * num_inputs**2 <= LARGEST_PRODUCTS


def _num_inputs(sizes: SeriesSizes) -> tuple[int, int]:
    """Inputs of a linear skip: from the node itself and the future, and from others."""
    num_own = sizes.window * (sizes.num_channels - sizes.num_waves) + sizes.horizon * sizes.num_known
    return num_own, 2 * sizes.window * sizes.num_targets


@dataclass(frozen=True, eq=False)
class _RidgeTask:
    """A linear skip and the windows on which it is solved. The sums of a ridge are in float64.

    Attributes:
        skip: The skip. Only its sizes and its inputs are used.
        training: Windows to solve on.
        judged: Windows by which the penalties are chosen.
        graph: The graph.
        units: A scaled value of one, in original units, for each output.
    """

    skip: LinearSkip
    training: WindowSet
    judged: WindowSet
    graph: Graph
    units: Float[Tensor, "nodes outputs"]

    @classmethod
    def of(
        cls,
        skip: LinearSkip,
        training: WindowSet,
        judged: WindowSet,
        graph: Graph,
        units: Float[np.ndarray, "nodes targets"],
    ) -> _RidgeTask:
        if not len(training):
            raise InputError("Expected at least one window, got none. Take a longer series or a shorter window.")
        judged = judged.every(ceil(len(judged) * graph.num_nodes / MOST_JUDGED_ROWS))
        everywhere = torch.as_tensor(units, dtype=torch.float64).repeat(1, skip.sizes.horizon)
        return cls(skip, training, judged, graph, everywhere.to(training.targets.device))

    def solve_shared(self, penalties: Sequence[float]) -> tuple[Float[Tensor, "inputs outputs"], float]:
        """Return the weights that all nodes share, and the penalty with the smallest error on the judged windows."""
        windows, stride = self._thin_out(sum(_num_inputs(self.skip.sizes)) + 1)
        rows = ((inputs.flatten(0, 1), targets.flatten(0, 1)) for inputs, targets in self._rows(windows))
        gram, products = _sum_products(rows, stride)
        weights = torch.stack([solve_ridge(gram, products, penalty) for penalty in penalties])
        if len(penalties) == 1:
            return weights[0], penalties[0]
        errors = torch.zeros(len(penalties), dtype=weights.dtype)
        for inputs, targets in self._rows(self.judged):
            errors += self._errors(inputs, weights, targets, self.units)
        best = int(errors.argmin())
        return weights[best], penalties[best]

    def solve_own(
        self, shared: Float[Tensor, "inputs outputs"], penalties: Sequence[float]
    ) -> tuple[Float[Tensor, "nodes own outputs"], float]:
        """Return the weights of each node, which explain what the shared weights leave, and the best penalty.

        The weights of some nodes are solved at a time, with all penalties.
        """
        num_nodes, num_own, num_outputs = self.skip.by_node.shape
        solved = self.skip.by_node.new_zeros(len(penalties), num_nodes, num_own, num_outputs)
        if not num_nodes or min(penalties) == torch.inf:
            return solved[0], torch.inf
        windows, stride = self._thin_out(num_own)
        left, judged_left = self._left(windows, shared), self._left(self.judged, shared)
        errors = torch.zeros(len(penalties), dtype=shared.dtype)
        at_once = max(1, min(NUMBERS_AT_ONCE // (len(windows) * num_own), PRODUCTS_AT_ONCE // num_own**2))
        for first in range(0, num_nodes, at_once):
            nodes = slice(first, first + at_once)
            gram, products = _sum_products(self._own_rows(windows, left, nodes), stride)
            for place, penalty in enumerate(penalties):
                if penalty < torch.inf:
                    solved[place, nodes] = solve_ridge(gram, products, penalty).to(solved.dtype)
            if len(penalties) == 1:
                continue
            for inputs, wanted in self._own_rows(self.judged, judged_left, nodes):
                errors += self._errors(inputs, solved[:, nodes].to(inputs), wanted, self.units[nodes, None])
        best = int(errors.argmin())
        return solved[best], penalties[best]

    def _errors(
        self,
        inputs: Float[Tensor, "*rows inputs"],
        weights: Float[Tensor, "penalties *groups inputs outputs"],
        targets: Float[Tensor, "*rows outputs"],
        units: Float[Tensor, "*units outputs"],
    ) -> Float[Tensor, " penalties"]:
        """Return the squared errors of the weights of each penalty. One product takes less time than several."""
        side_by_side = torch.cat([*weights], dim=-1)
        forecasts = (inputs @ side_by_side).unflatten(-1, (len(weights), -1))
        errors = (forecasts - targets[..., None, :]) * units[..., None, :]
        summed: Tensor = errors.square().nansum(dim=-1).flatten(0, -2).sum(dim=0)
        return summed.cpu()

    def _thin_out(self, num_inputs: int) -> tuple[WindowSet, int]:
        """Return as many training windows as can be multiplied in time, and the number of windows each stands for."""
        work = len(self.training) * self.graph.num_nodes * num_inputs**2
        stride = max(1, ceil(work / LARGEST_WORK))
        return self.training.every(stride), stride

    def _rows(
        self, windows: WindowSet
    ) -> Iterator[tuple[Float[Tensor, "batch nodes inputs"], Float[Tensor, "batch nodes outputs"]]]:
        """Yield inputs and targets of some windows at a time."""
        for numbers in windows.blocks(NUMBERS_AT_ONCE):
            frames, targets = windows.batch(numbers)
            graph = windows.graph_at(numbers, self.graph)
            inputs = torch.cat(self.skip.inputs(frames, graph), dim=-1).double()
            yield inputs, targets.movedim(1, 2).flatten(2).double()

    def _left(
        self, windows: WindowSet, shared: Float[Tensor, "inputs outputs"]
    ) -> Float[Tensor, "windows nodes outputs"]:
        """Return targets minus the forecasts of the shared weights, in the precision of the windows."""
        return torch.cat([(wanted - inputs @ shared).to(windows.targets) for inputs, wanted in self._rows(windows)])

    def _own_rows(
        self, windows: WindowSet, left: Float[Tensor, "windows nodes outputs"], nodes: slice
    ) -> Iterator[tuple[Float[Tensor, "nodes batch own"], Float[Tensor, "nodes batch outputs"]]]:
        """Yield own inputs, and what is left to explain, of some windows at a time, for some nodes."""
        part = windows.at_nodes(nodes)
        for numbers in part.blocks(NUMBERS_AT_ONCE):
            own = self.skip.own_inputs(part.batch(numbers)[0])
            yield own.transpose(0, 1).double(), left[numbers, nodes].transpose(0, 1).double()


def _sum_products(
    rows: Iterable[tuple[Float[Tensor, "*groups rows inputs"], Float[Tensor, "*groups rows outputs"]]], stride: int
) -> tuple[Float[Tensor, "*groups inputs inputs"], Float[Tensor, "*groups inputs outputs"]]:
    """Return the products of inputs with inputs and with targets, summed over rows. Each row counts `stride` times."""
    sums: list[Tensor] = []
    for inputs, targets in rows:
        # Rows in which a target is missing do not count.
        is_missing = targets.isnan().any(dim=-1, keepdim=True)
        parts = (inputs, targets)
        known, wanted = (part.masked_fill(is_missing, 0.0) for part in parts) if is_missing.any() else parts
        new = [multiply_rows(known), known.mT @ wanted]
        sums = [total.add_(each) for total, each in zip(sums, new, strict=True)] if sums else new
    gram, products = (total.mul_(stride) for total in sums)
    return gram, products
