"""A training step whose loss is a mean over the data of all processes.

Each process differentiates the sum of its own losses. Sums of gradients, losses and counts travel together, in one
tensor, and are divided by the count of all: the gradient of the mean, as one process computes it. Buffers that a pass
moves, such as the running means of batch norm, travel with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from tdegnn.training.members import Members
from tdegnn.training.processes import Processes


class SharedSums:
    """Sums over what this process sees, and after `exchange` over what all of them see.

    Args:
        members: The networks.
        processes: Who trains.
        moving: Names of buffers that are moved by each pass, and are to become the mean over all passes.
    """

    def __init__(self, members: Members, processes: Processes, moving: Sequence[str] = ()) -> None:
        self._processes = processes
        num_members, num_weights = members.weights.shape
        shapes = [members.buffers[name].shape for name in moving]
        sizes = [num_members * num_weights, num_members, 1, *(shape.numel() for shape in shapes)]
        # One tensor, because a message costs more than what it carries.
        self._all = members.weights.new_zeros(sum(sizes))
        gradient, self._losses, self._count, *buffers = self._all.split(sizes)
        self._gradient = gradient.view(num_members, num_weights)
        self._buffers = {name: buffer.view(shape) for name, buffer, shape in zip(moving, buffers, shapes, strict=True)}

    def put(
        self, losses: Float[Tensor, " members"], gradient: Float[Tensor, "members weights"], count: Float[Tensor, ""]
    ) -> None:
        """Keep the sums of this process, and the number of losses that they are sums of."""
        self._losses.copy_(losses)
        self._gradient.copy_(gradient)
        self._count.copy_(count)

    def clear(self) -> None:
        """Begin again with sums of nothing."""
        self._all.zero_()

    def add(self, losses: Float[Tensor, " members"], gradient: Float[Tensor, "members weights"]) -> None:
        """Add the losses of one pass and their gradient."""
        self._losses += losses
        self._gradient += gradient
        self._count += 1

    def add_buffers(self, members: Members) -> None:
        """Add the buffers that the pass has moved."""
        for name, total in self._buffers.items():
            total.add_(members.buffers[name])

    def exchange(self) -> None:
        """Add the sums of the other processes."""
        self._processes.sum_over_processes(self._all)

    def means(self) -> tuple[Float[Tensor, " members"], Float[Tensor, "members weights"]]:
        """Return the mean losses and their gradient. Zero if nothing was counted."""
        count = self._count.clamp(min=1)
        return self._losses / count, self._gradient / count

    def move_buffers(self, members: Members) -> None:
        """Give the buffers the mean of what all passes moved them to."""
        for name, total in self._buffers.items():
            members.buffers[name].copy_(total / self._count)
