"""Many trainings as one batch: networks of one shape, their weights stacked, one step for all of them.

Splits, seeds and configurations of a sweep are members of one tensor program. Each member has its own weights, learning
rates, decays and (as buffers of its network) dropout and step size, and gets the result it would get alone: members
share nothing but the time. The networks know nothing about it: `torch.func.vmap` adds the axis.
`MembersTraining` is what the trainings on nodes and on series share.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from tdegnn.errors import InputError
from tdegnn.training.devices import Placement, choose_placement, keep_freed_memory, place
from tdegnn.training.loop import Trainee

BETAS = (0.9, 0.999)
EPSILON = 1e-8
# A part may say which of its own parameters weight decay pulls back to where they start, by a class attribute of this
# name: a tuple of their names. All others are pulled to zero.
ANCHORED = "anchored"
# The buffer in which a network counts its passes in training mode. The masks of its dropout depend on it.
PASSES = "step"
# The attribute by which a network says that it computes its layers in segments, unless it is None.
SEGMENTS = "segment_length"


@dataclass(frozen=True)
class GroupDescent:
    """How fast a group of parameters learns, and how strongly it is pulled to zero, or to its start if anchored."""

    learning_rate: float = 0.01
    weight_decay: float = 0.0


@dataclass(frozen=True)
class GroupedAdam:
    """Adam with the paper's three groups: embeddings and readout, temporal coefficients, spatial term; and the skip.

    Attributes:
        embedding: How embeddings and readout learn.
        temporal: How the coefficients learn.
        spatial: How the spatial term learns.
        averaging: Weight of the past in the running mean of the weights, which is used for predictions. If 0, there is
            no mean.
        skip: How a linear skip learns, if the network has one. By default it stays as it was solved.
        is_decoupled: Whether weight decay moves the weights by itself, as in AdamW, or is a part of the gradient.
    """

    is_decoupled: ClassVar[bool] = False

    embedding: GroupDescent = field(default_factory=GroupDescent)
    temporal: GroupDescent = field(default_factory=GroupDescent)
    spatial: GroupDescent = field(default_factory=GroupDescent)
    averaging: float = 0.0
    skip: GroupDescent = field(default_factory=lambda: GroupDescent(0.0))

    def __post_init__(self) -> None:
        if not 0.0 <= self.averaging < 1.0:
            raise InputError(f"Expected averaging to be at least 0 and below 1, got {self.averaging}.")

    def group_of(self, parameter_name: str) -> GroupDescent:
        """Return the group that a parameter of a network belongs to, by its name."""
        prefix = parameter_name.split(".", maxsplit=1)[0]
        groups = {"coefficients": self.temporal, "operator": self.spatial, "skip": self.skip}
        return groups.get(prefix, self.embedding)


@dataclass(frozen=True)
class GroupedAdamW(GroupedAdam):
    """Adam whose weight decay is decoupled: it moves the weights by itself, and does not enter the moments of Adam."""

    is_decoupled: ClassVar[bool] = True


OptimizerName = Literal["adam", "adamw"]
OPTIMIZERS: dict[OptimizerName, type[GroupedAdam]] = {"adam": GroupedAdam, "adamw": GroupedAdamW}


class Members:
    """Networks of one shape that are trained together.

    Args:
        networks: The members, as they start. They are copied. They may differ in parameters and buffers only.
        descents: How each of them learns.
        placement: Where to compute. Default: on the CPU, in the precision of the networks.
    """

    def __init__(
        self, networks: Sequence[nn.Module], descents: Sequence[GroupedAdam], placement: Placement | None = None
    ) -> None:
        if len(networks) != len(descents) or not networks:
            raise InputError(f"Expected one descent per network, got {len(descents)} for {len(networks)}.")
        _check_alike(networks)
        if len({type(descent) for descent in descents}) > 1:
            raise InputError("Expected one kind of optimizer for networks that are trained together, got several.")
        self._is_decoupled = descents[0].is_decoupled
        is_double = next(networks[0].parameters()).dtype is torch.float64
        self._placement = placement or choose_placement("cpu", "64-true" if is_double else "32-true")
        device = self._placement.device
        keep_freed_memory()
        placed = [place(copy.deepcopy(network), self._placement) for network in networks]
        self._template = placed[0]
        parameters, buffers = stack_module_state(placed)
        self._shapes = {name: stacked.shape[1:] for name, stacked in parameters.items()}
        # One row per member. Parameters are views of it, so that Adam needs few and large operations.
        self.weights = torch.cat([_as_rows(stacked.detach()) for stacked in parameters.values()], dim=1)
        self.buffers = {name: stacked.detach().clone() for name, stacked in buffers.items()}
        anchored = _anchored_names(self._template)
        starts = (kept if name in anchored else torch.zeros_like(kept) for name, kept in parameters.items())
        self._anchors = torch.cat([_as_rows(start.detach()) for start in starts], dim=1)
        self._learning_rates = self._spread(descents, "learning_rate")
        self._weight_decays = self._spread(descents, "weight_decay")
        self._mean, self._square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self._num_steps = torch.zeros((), device=device, dtype=self.weights.dtype)
        # A factor of all learning rates, for schedules. A tensor, because a recorded step reads fixed tensors.
        self._rate_factor = torch.ones((), device=device, dtype=self.weights.dtype)
        self._averaging = torch.tensor([descent.averaging for descent in descents], dtype=torch.float32).to(
            self.weights
        )
        # Used for predictions: the running mean of the weights and of the statistics of batch norm, or the last ones.
        is_averaging = bool(self._averaging.any())
        self.averaged_weights = self.weights.clone() if is_averaging else self.weights
        self.averaged_buffers = (
            {name: buffer.clone() for name, buffer in self.buffers.items()} if is_averaging else self.buffers
        )
        self.is_active = torch.ones(len(networks), dtype=torch.bool, device=device)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def num_parameters(self) -> int:
        """Number of parameters per member."""
        return int(self.weights.shape[1])

    @property
    def has_segments(self) -> bool:
        """Whether the networks compute their layers in segments: again in the backward pass, to need less memory."""
        return getattr(self._template, SEGMENTS, None) is not None

    def parameters(self, weights: Tensor | None = None) -> dict[str, Tensor]:
        """Return parameters by name, one row per member: views of `weights`, by default of the present ones."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        columns = (self.weights if weights is None else weights).split(sizes, dim=1)
        return {
            name: column.unflatten(1, shape) if shape else column[:, 0]
            for (name, shape), column in zip(self._shapes.items(), columns, strict=True)
        }

    def evaluate(self, *inputs: Any) -> Tensor:
        """Return the outputs of the networks in evaluation mode, one row per member."""
        self._template.eval()
        with torch.no_grad():
            return self._answer(self.parameters(self.averaged_weights), self.averaged_buffers, inputs)

    def step(self, losses: Callable[[Tensor], Float[Tensor, " members"]], *inputs: Any) -> Float[Tensor, " members"]:
        """Make one step of Adam for every active member; return the losses before it.

        Args:
            losses: Computes one loss per member from the outputs of the networks.
            inputs: The inputs of the networks.
        """
        return self.step_in_parts(losses, [inputs])

    def step_in_parts(
        self, losses: Callable[[Tensor], Float[Tensor, " members"]], parts: Sequence[tuple[Any, ...]]
    ) -> Float[Tensor, " members"]:
        """Make one step on inputs of which the networks see one part at a time, such as windows on different graphs.

        Args:
            losses: Computes one loss per member from the outputs of all parts, one after another.
            parts: The inputs of the networks, part by part.
        """
        by_member, gradient = self.differentiate(losses, parts)
        self.descend(gradient)
        return by_member

    def differentiate(
        self, losses: Callable[[Tensor], Float[Tensor, " members"]], parts: Sequence[tuple[Any, ...]]
    ) -> tuple[Float[Tensor, " members"], Float[Tensor, "members weights"]]:
        """Return the losses of a step, and their gradient. The arguments are those of `step_in_parts`."""
        self._template.train()
        leaves = {name: view.detach().requires_grad_() for name, view in self.parameters().items()}
        with torch.enable_grad():
            answers = [self._answer(leaves, self.buffers, inputs) for inputs in parts]
            by_member = losses(answers[0] if len(answers) == 1 else torch.cat(answers, dim=1))
            # Members do not meet in the sum, so its gradient is that of each of them.
            gradients = torch.autograd.grad(by_member.sum(), list(leaves.values()), materialize_grads=True)
        return by_member.detach(), torch.cat([_as_rows(gradient) for gradient in gradients], dim=1)

    def number_pass(self, number: int) -> None:
        """Give the next pass in training mode, or part of a step, the dropout masks of this number, from 0 on."""
        self.buffers[PASSES].fill_(number)

    def find_moving(self, *inputs: Any) -> list[str]:
        """Return the names of the buffers that a pass in training mode moves, such as running means. Change nothing.

        Args:
            inputs: The inputs of the networks.
        """
        before = {name: buffer.clone() for name, buffer in self.buffers.items()}
        self._template.train()
        with torch.no_grad():
            self._answer(self.parameters(), self.buffers, inputs)
        moving = [name for name, buffer in self.buffers.items() if not torch.equal(buffer, before[name])]
        for name in moving:
            self.buffers[name].copy_(before[name])
        return moving

    def descend(self, gradient: Float[Tensor, "members weights"]) -> None:
        """Make one step of Adam for every active member. It changes `gradient`."""
        self._descend(gradient)
        if self.averaged_weights is not self.weights:
            self._average()

    def scale_rates(self, factor: float) -> None:
        """Multiply all learning rates by a factor, from the next step on."""
        self._rate_factor.fill_(factor)

    def state(self) -> dict[str, Tensor]:
        """Return weights, buffers and moments of Adam: the tensors themselves, not copies."""
        averages = {f"averaged.{name}": buffer for name, buffer in self.averaged_buffers.items()}
        return {
            "weights": self.weights,
            "mean": self._mean,
            "square": self._square,
            "num_steps": self._num_steps,
            "is_active": self.is_active,
            **{f"buffers.{name}": buffer for name, buffer in self.buffers.items()},
            **({} if self.averaged_weights is self.weights else averages | {"averaged": self.averaged_weights}),
        }

    def restore(self, weights: Float[Tensor, "members weights"], buffers: Mapping[str, Tensor]) -> None:
        """Use these weights and buffers, for predictions and for further steps."""
        for own in (self.weights, self.averaged_weights):
            own.copy_(weights)
        for name, buffer in buffers.items():
            for own in (self.buffers[name], self.averaged_buffers[name]):
                own.copy_(buffer)

    def network(self, member: int) -> nn.Module:
        """Return a network with the weights of one member."""
        return self._network(member, self.weights, self.buffers)

    def averaged_network(self, member: int) -> nn.Module:
        """Return a network with the weights of one member that predictions are made with."""
        return self._network(member, self.averaged_weights, self.averaged_buffers)

    def _network(self, member: int, weights: Tensor, stacked_buffers: Mapping[str, Tensor]) -> nn.Module:
        chosen = copy.deepcopy(self._template)
        state = {name: view[member] for name, view in self.parameters(weights).items()}
        buffers = {name: stacked[member] for name, stacked in stacked_buffers.items()}
        with torch.no_grad():
            for name, tensor in [*chosen.named_parameters(), *chosen.named_buffers()]:
                tensor.copy_((state | buffers)[name])
        return chosen.eval()

    def _answer(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: tuple[Any, ...]) -> Tensor:
        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            answer: Tensor = functional_call(self._template, (parameters, buffers), inputs)
            return answer

        if len(self) == 1:
            # Alone, the axis of members costs as much as the network on a CPU.
            # Not `stacked[0]`: its gradient would be written into zeros.
            alone = [{name: stacked.squeeze(0) for name, stacked in group.items()} for group in (parameters, buffers)]
            return one(*alone)[None]
        if self.has_segments:
            # One after another: `vmap` cannot compute segments again.
            unbound = {name: stacked.unbind(0) for name, stacked in parameters.items()}
            return torch.stack(
                [
                    one(
                        {name: rows[member] for name, rows in unbound.items()},
                        {name: stacked[member] for name, stacked in buffers.items()},
                    )
                    for member in range(len(self))
                ]
            )
        answers: Tensor = vmap(one)(parameters, buffers)
        return answers

    def _descend(self, gradient: Float[Tensor, "members weights"]) -> None:
        """Adam with weight decay in the gradient, or apart from it, by the formulas of `torch.optim.Adam` and `AdamW`.

        In place, `gradient` too: with many members this reads and writes more memory than the networks do.
        """
        pull = self.weights - self._anchors
        if not self._is_decoupled:
            gradient.addcmul_(self._weight_decays, pull)
        self._num_steps += 1
        self._mean.lerp_(gradient, 1 - BETAS[0])
        self._square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        correction = 1 - torch.pow(BETAS[0], self._num_steps)
        root_correction = (1 - torch.pow(BETAS[1], self._num_steps)).sqrt()
        divisor = self._square.sqrt().div_(root_correction).add_(EPSILON).mul_(correction)
        change = (self._mean * self._learning_rates).div_(divisor)
        if self._is_decoupled:
            change.addcmul_(self._weight_decays * self._learning_rates, pull)
        change.mul_(self._rate_factor)
        # Not a product: a member whose gradient is NaN has stopped, and must not become NaN after all.
        self.weights -= change.masked_fill_(~self.is_active[:, None], 0.0)

    def _average(self) -> None:
        """Move the running means toward the present, fast in the first steps, whose weights are far from good."""
        kept = torch.minimum(self._averaging, (1 + self._num_steps) / (10 + self._num_steps))
        moved = torch.where(self.is_active, 1 - kept, 0.0).to(self.weights.dtype)
        self.averaged_weights.lerp_(self.weights, moved[:, None])
        for name, buffer in self.buffers.items():
            average = self.averaged_buffers[name]
            if buffer.is_floating_point():
                average.lerp_(buffer, moved.to(buffer.dtype).view(-1, *[1] * (buffer.dim() - 1)))
            else:
                average.copy_(buffer)

    def _spread(self, descents: Sequence[GroupedAdam], setting: str) -> Float[Tensor, "members weights"]:
        # Spread on the device: there are as many numbers as weights.
        names, sizes = [*self._shapes], [shape.numel() for shape in self._shapes.values()]
        settings = [[getattr(descent.group_of(name), setting) for name in names] for descent in descents]
        by_name, counts = torch.tensor(settings, dtype=torch.float64), torch.tensor(sizes)
        own = by_name.to(self.weights)
        return own.repeat_interleave(counts.to(own.device), dim=1, output_size=sum(sizes))


class MembersTraining(Trainee):
    """Members, and the best weights that each of them had.

    Args:
        networks: The members, as they start.
        descents: How each of them learns.
        placement: Where to compute.
    """

    def __init__(self, networks: Sequence[nn.Module], descents: Sequence[GroupedAdam], placement: Placement) -> None:
        self.members = Members(networks, descents, placement)
        self._best_weights = self.members.averaged_weights.clone()
        self._best_buffers = {name: buffer.clone() for name, buffer in self.members.averaged_buffers.items()}
        self._losses = torch.full((len(networks),), torch.nan, dtype=placement.dtype, device=placement.device)

    @abstractmethod
    def _numbers_to_resume(self) -> dict[str, Tensor]:
        """Return other tensors, not copies, that are needed to continue the training or reported at its end."""

    def last_losses(self) -> Float[Tensor, " members"]:
        """Return the training losses of the last step."""
        return self._losses

    def keep(self, is_better: Bool[Tensor, " members"]) -> None:
        """Store the current weights of these members as their best ones."""
        self._best_weights = _keep_where(is_better, self.members.averaged_weights, self._best_weights)
        self._best_buffers = {
            name: _keep_where(is_better, buffer, self._best_buffers[name])
            for name, buffer in self.members.averaged_buffers.items()
        }

    def stop(self, is_finished: Bool[Tensor, " members"]) -> None:
        """Stop these members: later steps do not change them."""
        # In place: recorded steps read this very tensor.
        self.members.is_active.copy_(~is_finished)

    def restore(self) -> None:
        """Restore the best weights of each member."""
        self.members.restore(self._best_weights, self._best_buffers)

    def best_weights(self) -> dict[str, Tensor]:
        """Return the best parameters and buffers by name, one row per member."""
        return self.members.parameters(self._best_weights) | self._best_buffers

    def state(self) -> dict[str, Tensor]:
        """Return everything that is needed to continue the training: the tensors themselves, not copies."""
        return {
            **self.members.state(),
            "best_weights": self._best_weights,
            "losses": self._losses,
            **{f"best_buffers.{name}": buffer for name, buffer in self._best_buffers.items()},
            **self._numbers_to_resume(),
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from where `state` was taken."""
        own = self.state()
        if {name: tensor.shape for name, tensor in own.items()} != {name: kept.shape for name, kept in state.items()}:
            raise InputError("Expected the checkpoint of this training, got that of another. Choose another folder.")
        # In place: recorded steps read these very tensors.
        for name, tensor in own.items():
            tensor.copy_(state[name])


def _check_alike(networks: Sequence[nn.Module]) -> None:
    """Raise an `InputError` if networks differ in a plain number: one of them would decide for all."""
    first = _plain_numbers(networks[0])
    for network in networks[1:]:
        for name, number in _plain_numbers(network).items():
            if number != first.get(name):
                raise InputError(
                    f"Expected networks that differ in parameters and buffers only, got {name} = {first.get(name)} and "
                    f"{number}. Keep it as a buffer (register_buffer), or train them one by one."
                )


def _plain_numbers(network: nn.Module) -> dict[str, int | float]:
    return {
        f"{path}.{name}": number
        for path, module in network.named_modules()
        for name, number in vars(module).items()
        if isinstance(number, int | float) and name != "training"
    }


def _anchored_names(network: nn.Module) -> set[str]:
    """Return the parameters that decay to where they start, see `ANCHORED`."""
    modules = network.named_modules()
    return {f"{path}.{name}".lstrip(".") for path, module in modules for name in getattr(module, ANCHORED, ())}


def _as_rows(stacked: Float[Tensor, "members ..."]) -> Float[Tensor, "members weights"]:
    """Flatten to one row per member, also if there is one number per member."""
    return stacked.reshape(len(stacked), -1)


def _keep_where(is_better: Bool[Tensor, " members"], new: Tensor, old: Tensor) -> Tensor:
    """Return rows of `new` for the members that got better, of `old` for the others."""
    return torch.where(is_better.view(-1, *[1] * (new.dim() - 1)), new, old)
