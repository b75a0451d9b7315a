"""Where to compute and in which numbers, how many CPU threads to use, and what to do with freed memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Literal, NamedTuple, get_args

import torch
from torch import nn

from tdegnn.errors import InputError

DeviceName = Literal["auto", "cpu", "cuda"]
# Shorter numbers are left out: c sums to one only as far as its digits go, and a step spends its time in sparse
# products and in moving states, not in the dense products that short numbers make faster.
Precision = Literal["32-true", "64-true"]
_TYPES: dict[str, torch.dtype] = {"32-true": torch.float32, "64-true": torch.float64}

# The C library of Linux gives blocks larger than a limit back to the system as soon as they are free. The limit follows
# the largest block that was freed, up to 32 MiB: a little less than that, once, and all smaller ones are kept.
LARGEST_KEPT = 31 * 2**20


class Placement(NamedTuple):
    """A device, and the type of weights and inputs on it. Made by `choose_placement`."""

    device: torch.device
    dtype: torch.dtype


def choose_device(name: DeviceName) -> torch.device:
    """Return the device. `"auto"` takes a CUDA device if there is one; a missing device is an error."""
    if name not in get_args(DeviceName):
        raise InputError(f"Expected device to be 'auto', 'cpu' or 'cuda', got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device, got a machine (or a torch build) without one. Use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def choose_placement(device: DeviceName = "auto", precision: Precision = "32-true") -> Placement:
    """Return where a training computes.

    Args:
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: Numbers of 32 or of 64 bits, `"32-true"` or `"64-true"`.
    """
    if precision not in _TYPES:
        raise InputError(f"Expected precision to be one of {', '.join(_TYPES)}, got {precision!r}.")
    return Placement(choose_device(device), _TYPES[precision])


def placement_of(network: nn.Module) -> Placement:
    """Return where a network already is."""
    parameter = next(network.parameters())
    return Placement(parameter.device, parameter.dtype)


def place(network: nn.Module, placement: Placement) -> nn.Module:
    """Move a network, in place, and return it."""
    # Not `to` for all: settings that are kept as buffers in 64 bits stay so.
    if any(parameter.dtype != placement.dtype for parameter in network.parameters()):
        network.to(placement.dtype)
    return network.to(placement.device)


class _ThreadGuard(local):
    """How deep this Python thread is inside `single_thread`; of all threads, how many are, and what was before."""

    lock, num_inside, before = Lock(), 0, 0
    depth = 0


_guard = _ThreadGuard()


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one CPU thread meanwhile.

    For small problems: more threads gain nothing there, wait for each other for minutes where another program uses the
    machine too, and add in an order that depends on their number. Several Python threads may be inside at once. The
    number before the first of them came is what all of them return to: a later one would find 1.
    """
    shared = _ThreadGuard
    with shared.lock:
        if shared.num_inside == 0:
            shared.before = torch.get_num_threads()
        shared.num_inside += 1
        _guard.depth += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with shared.lock:
            shared.num_inside -= 1
            _guard.depth -= 1
            if _guard.depth == 0:
                torch.set_num_threads(shared.before)


@cache
def keep_freed_memory() -> None:
    """Let the process keep the memory it frees, for the next tensor. Done once; harmless where it does nothing."""
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)
