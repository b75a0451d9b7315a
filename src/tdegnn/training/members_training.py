"""What trainings of members share, on nodes or on series: the best weights of each, stopping, and the checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tdegnn.errors import InputError
from tdegnn.training.devices import Placement
from tdegnn.training.loop import Trainee
from tdegnn.training.members import GroupedAdam, Members, keep_where


class MembersTraining(Trainee):
    """Members, and the best weights that each of them had.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        placement: What to compute with.
    """

    def __init__(self, networks: Sequence[nn.Module], descents: Sequence[GroupedAdam], placement: Placement) -> None:
        self.members = Members(networks, descents, placement)
        self._best_weights = self.members.averaged_weights.clone()
        self._best_buffers = {name: buffer.clone() for name, buffer in self.members.averaged_buffers.items()}
        self._losses = torch.full((len(networks),), torch.nan, dtype=placement.dtype, device=placement.device)

    @abstractmethod
    def _numbers_to_resume(self) -> dict[str, Tensor]:
        """What else decides how the training goes on, or is reported at its end: the very tensors, not copies."""

    def last_losses(self) -> Float[Tensor, " members"]:
        """The training losses that the last step saw."""
        return self._losses

    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Keep the weights of these members as the best they had."""
        self._best_weights = keep_where(is_better, self.members.averaged_weights, self._best_weights)
        self._best_buffers = {
            name: keep_where(is_better, buffer, self._best_buffers[name])
            for name, buffer in self.members.averaged_buffers.items()
        }

    def stop(self, is_finished: Bool[Tensor, " members"]) -> None:
        """Leave these members as they are."""
        # In place: recorded steps read this very tensor.
        self.members.is_active.copy_(~is_finished)

    def restore(self) -> None:
        """Give each member the weights that were kept."""
        self.members.restore(self._best_weights, self._best_buffers)

    def best_weights(self) -> dict[str, Tensor]:
        """Parameters and buffers that were kept, by name, one row a member."""
        return self.members.parameters(self._best_weights) | self._best_buffers

    def state(self) -> dict[str, Tensor]:
        """Everything that decides how the training goes on: the very tensors, not copies."""
        return {
            **self.members.state(),
            "best_weights": self._best_weights,
            "losses": self._losses,
            **{f"best_buffers.{name}": buffer for name, buffer in self._best_buffers.items()},
            **self._numbers_to_resume(),
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state` was taken."""
        own = self.state()
        if {name: tensor.shape for name, tensor in own.items()} != {name: part.shape for name, part in state.items()}:
            raise InputError("Expected the checkpoint of this training, got that of another. Choose another folder.")
        # In place: recorded steps read these very tensors.
        for name, tensor in own.items():
            tensor.copy_(state[name])
