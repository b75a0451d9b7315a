"""Processes that train one network together, on `torch.distributed`: gloo on CPUs, NCCL where each has its own GPU.

`torchrun` starts them. Each process computes a share of every sum, and `sum_over_processes` adds the shares. So all
processes have the same numbers at all times, those of one process to rounding. What is decided by a measured time or a
file is decided by the first process (`agree`), which is also the only one that writes. `each_alone` lets the processes
of a search work without each other.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, distributed

from tdegnn.errors import Argument, InputError, TrainingError
from tdegnn.torchrun import Launch, read_launch

# Seconds that a process waits for the others before it gives up. Writing a large checkpoint takes less.
LONGEST_WAIT = 600.0
# Seconds until the threads of a process have freed what they sent last.
SECONDS_TO_LEAVE = 0.1

Value = TypeVar("Value")
_is_alone: ContextVar[bool] = ContextVar("is_alone", default=False)


@dataclass(frozen=True)
class Processes:
    """The processes of a training, as one of them sees them.

    Attributes:
        rank: The number of this process, from 0 on.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes, prints and decides."""
        return self.rank == 0

    @property
    def are_several(self) -> bool:
        """Whether there are other processes."""
        return self.size > 1

    def share_of(self, count: int) -> slice:
        """Return which of `count` things this process does. Shares differ by one at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum_over_processes(self, tensor: Tensor) -> None:
        """Add up the tensors of all processes, in place. All of them end with the same bits."""
        if self.are_several:
            with self._explained():
                distributed.all_reduce(tensor)

    def gather_rows(self, tensor: Tensor, ends: Sequence[int]) -> None:
        """Give all processes the rows that each of them has computed, in place.

        Args:
            tensor: Its rows belong to the processes in turn: first those of the first one.
            ends: The number of the row after the last one of each process.
        """
        if self.are_several:
            with self._explained():
                # All at once: a process sends while it receives.
                parts = enumerate(pairwise((0, *ends)))
                sent = [
                    distributed.broadcast(tensor[first:end], src=rank, async_op=True)
                    for rank, (first, end) in parts
                    if end > first
                ]
                for part in sent:
                    part.wait()

    def copy_from_first(self, tensor: Tensor) -> None:
        """Give all processes the values of the first one, in place."""
        if self.are_several:
            with self._explained():
                # As bytes: not every backend knows every type.
                sent = tensor.detach().clone().reshape(-1).view(torch.uint8)
                distributed.broadcast(sent, src=0)
                tensor.copy_(sent.view(tensor.dtype).view(tensor.shape))

    def agree(self, value: Value) -> Value:
        """Return the value of the first process, whatever this one has."""
        if not self.are_several:
            return value
        values = [value if self.is_first else None]
        with self._explained():
            distributed.broadcast_object_list(values, src=0)
        agreed: Value = values[0]  # type: ignore[assignment]
        return agreed

    def check_same(self, value: object, what: str) -> None:
        """Raise an `InputError` in a process whose value is not that of the first."""
        if self.agree(value) != value:
            raise InputError(
                f"Expected the same {what} in all {self.size} processes, got others in process {self.rank}. Start all "
                "of them with the same command and the same files."
            )

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.are_several:
            with self._explained():
                distributed.barrier()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the error of a lost or silent process into a `TrainingError`."""
        try:
            yield
        except RuntimeError as error:
            raise _lost(self.size) from error


ALONE = Processes()


def join_processes(longest_wait: float = LONGEST_WAIT) -> Processes:
    """Return the processes to train with: those of `torch.distributed`, or of `torchrun`, else this one alone.

    Args:
        longest_wait: Seconds to wait for other processes, if `torchrun` started this one and nothing has joined it to
            the others yet.
    """
    if _is_alone.get() or not distributed.is_available():
        return ALONE
    if not distributed.is_initialized():
        launch = read_launch()
        if not launch.are_several:
            return ALONE
        _connect(launch, longest_wait)
    return Processes(distributed.get_rank(), distributed.get_world_size())


@contextmanager
def each_alone() -> Iterator[None]:
    """Train without other processes inside the `with` block, as workers of a search do: each has its own trainings."""
    before = _is_alone.set(True)
    try:
        yield
    finally:
        _is_alone.reset(before)


def check_alone(what: str) -> None:
    """Raise an `InputError` if several processes want to share what they cannot."""
    if _is_alone.get() or not distributed.is_available():
        return
    size = distributed.get_world_size() if distributed.is_initialized() else read_launch().size
    if size > 1:
        raise InputError(
            f"Expected one process for {what}, got {size}. Start one, or give each process its own training inside "
            "`with each_alone():` of tdegnn.training.processes."
        )


def _connect(launch: Launch, longest_wait: float) -> None:
    from torch.distributed.rendezvous import rendezvous

    wait = timedelta(seconds=longest_wait)
    # Processes that share a GPU cannot talk by NCCL.
    has_nccl = torch.cuda.device_count() >= launch.local_size and distributed.is_nccl_available()
    try:
        store, rank, size = next(rendezvous("env://", timeout=wait))
        store.set_timeout(wait)
        backend = agree_on_backend(store, launch, has_nccl=has_nccl)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=wait)
    except (RuntimeError, ValueError) as error:
        raise _lost(launch.size) from error
    atexit.register(_leave)


@runtime_checkable
class SharedWords(Protocol):
    """What all processes can read and write: a store of `torch.distributed`."""

    def set(self, key: str, value: str, /) -> Any:
        """Write a word."""

    def get(self, key: str, /) -> bytes:
        """Return a word, once a process has written it."""


def agree_on_backend(store: SharedWords, launch: Launch, *, has_nccl: bool) -> str:
    """Return how the processes talk: by NCCL if all of them can, also those of other machines, else by gloo.

    Args:
        store: A store of all processes.
        launch: The place of this process.
        has_nccl: Whether this one can.
    """
    store.set(f"has_nccl_{launch.rank}", str(has_nccl))
    answers = [store.get(f"has_nccl_{rank}").decode() for rank in range(launch.size)]
    return "cpu:gloo,cuda:nccl" if set(answers) == {str(True)} else "gloo"


def _leave() -> None:
    """End the connections before Python ends: the threads of gloo would crash it."""
    if distributed.is_initialized():
        # Such a thread may still have to free the tensor of the last message, and needs Python for that.
        time.sleep(SECONDS_TO_LEAVE)
        distributed.destroy_process_group()


def _lost(size: int) -> TrainingError:
    return TrainingError(
        f"Expected {size} processes that train together to the end, got one that ended or does not answer. Start all "
        "of them again, with ",
        Argument("resume", value=True),
        " to continue.",
    )
