"""A training step whose loss is a mean over the data of all processes.

Each process differentiates the sum of its own losses. Sums of gradients, losses and counts travel together, in one
tensor, and are divided by the count of all: the gradient of the mean, as one process computes it.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from tdegnn.training.members import Members
from tdegnn.training.processes import Processes


class SharedSums:
    """Sums over what this process sees, and after `exchange` over what all of them see.

    Args:
        members: The networks.
        processes: Who trains.
    """

    def __init__(self, members: Members, processes: Processes) -> None:
        self._processes = processes
        num_members, num_weights = members.weights.shape
        # One tensor, because a message costs more than what it carries.
        self._all = members.weights.new_zeros(num_members * (num_weights + 1) + 1)
        sizes = [num_members * num_weights, num_members, 1]
        gradient, self._losses, self._count = self._all.split(sizes)
        self._gradient = gradient.view(num_members, num_weights)

    def put(
        self, losses: Float[Tensor, " members"], gradient: Float[Tensor, "members weights"], count: Float[Tensor, ""]
    ) -> None:
        """Keep the sums of this process, and the number of losses that they are sums of."""
        self._losses.copy_(losses)
        self._gradient.copy_(gradient)
        self._count.copy_(count)

    def exchange(self) -> None:
        """Add the sums of the other processes."""
        self._processes.sum_over_processes(self._all)

    def means(self) -> tuple[Float[Tensor, " members"], Float[Tensor, "members weights"]]:
        """Return the mean losses and their gradient. Zero if nothing was counted."""
        count = self._count.clamp(min=1)
        return self._losses / count, self._gradient / count
