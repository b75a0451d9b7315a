"""The device and precision of a computation, its number of CPU threads, and what happens to freed memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, Thread
from typing import Literal, NamedTuple, get_args

import torch
from torch import nn

from tdegnn.core.operator import SpatialOperator
from tdegnn.errors import Argument, InputError
from tdegnn.torchrun import read_launch

DeviceName = Literal["auto", "cpu", "cuda"]
# States of 16 bits are left out: c sums to one only as far as its digits go. Messages may have 16 bits.
Precision = Literal["32-true", "64-true", "bf16-mixed"]


class _Numbers(NamedTuple):
    """The type of weights, states and c, and that of messages if it is shorter."""

    dtype: torch.dtype
    message_type: torch.dtype | None = None


_NUMBERS: dict[str, _Numbers] = {
    "32-true": _Numbers(torch.float32),
    "64-true": _Numbers(torch.float64),
    "bf16-mixed": _Numbers(torch.float32, torch.bfloat16),
}

# Maximum number of values of a small problem: the values of a panel, or those of a state at all nodes.
SMALL_PROBLEM = 2**16
# The C library of Linux gives blocks larger than a limit back to the system as soon as they are free. The limit follows
# the largest block that was freed, up to 32 MiB. Free a block of a little less once, and all smaller ones are kept.
LARGEST_KEPT = 31 * 2**20


class Placement(NamedTuple):
    """A device, and the type of weights and inputs on it. Made by `choose_placement`.

    Attributes:
        device: The device.
        dtype: The type of weights, inputs and states.
        message_type: The type of messages, if they have fewer digits than states.
    """

    device: torch.device
    dtype: torch.dtype
    message_type: torch.dtype | None = None


def choose_device(name: DeviceName) -> torch.device:
    """Return the device. `"auto"` takes a CUDA device if there is one; a missing device is an error.

    Processes that `torchrun` started on one machine take its GPUs in turn.
    """
    if name not in get_args(DeviceName):
        raise InputError(f"Expected device to be 'auto', 'cpu' or 'cuda', got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        text = "Expected a CUDA device, got a machine (or a torch build) without one. Use "
        raise InputError(text, Argument("device", "cpu"), ".")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    launch = read_launch()
    if name == "cuda" and launch.are_several:
        # The current device, because streams and recorded steps are made on it.
        torch.cuda.set_device(launch.local_rank % torch.cuda.device_count())
    return torch.device(name)


def choose_placement(device: DeviceName = "auto", precision: Precision = "32-true") -> Placement:
    """Return the device and the type of numbers of a training.

    Args:
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: `"32-true"` or `"64-true"`, for numbers of 32 or 64 bits, or `"bf16-mixed"`, for numbers of 32 bits
            and messages of 16.
    """
    if precision not in _NUMBERS:
        raise InputError(f"Expected precision to be one of {', '.join(_NUMBERS)}, got {precision!r}.")
    return Placement(choose_device(device), *_NUMBERS[precision])


def place(network: nn.Module, placement: Placement) -> nn.Module:
    """Move a network, in place, and return it."""
    # Only if needed: settings that are buffers of 64 bits keep them.
    if any(parameter.dtype != placement.dtype for parameter in network.parameters()):
        network.to(placement.dtype)
    for module in network.modules():
        if isinstance(module, SpatialOperator):
            module.message_type = placement.message_type
    return network.to(placement.device)


_changing_threads = Lock()


def threads_for(num_values: int) -> AbstractContextManager[None]:
    """Compute with one CPU thread inside the `with` block if a problem has no more than `SMALL_PROBLEM` numbers."""
    return single_thread() if num_values <= SMALL_PROBLEM else nullcontext()


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one CPU thread inside the `with` block, in this Python thread.

    Use it for small problems, where more threads gain nothing: they wait for each other for minutes if another program
    uses the machine, and add numbers in an order that depends on how many they are.
    """
    before = _use_threads(1)
    try:
        yield
    finally:
        _use_threads(before)


def _use_threads(number: int) -> int:
    """Compute with this number of CPU threads in this Python thread. Return the number before."""
    with _changing_threads:
        before = torch.get_num_threads()
        if before != number:
            torch.set_num_threads(number)
            # torch keeps the number per Python thread, and lets new Python threads begin with the last one that was
            # set anywhere. They are to begin with the larger one: what they compute has nothing to do with this.
            beginner = Thread(target=torch.set_num_threads, args=(max(before, number),))
            beginner.start()
            beginner.join()
    return before


@cache
def keep_freed_memory() -> None:
    """Let the process keep freed memory for the next tensor. Only the first call does anything, and only on Linux."""
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)
