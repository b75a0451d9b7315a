"""Which device to compute on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal, get_args

import torch
from lightning_fabric import Fabric
from torch import nn

from tdegnn.errors import InputError

DeviceName = Literal["auto", "cpu", "cuda"]


def choose_device(name: DeviceName) -> torch.device:
    """`auto` takes a CUDA device where there is one; a device that is asked for and missing is an error."""
    if name not in get_args(DeviceName):
        raise InputError(f"Expected device to be 'auto', 'cpu' or 'cuda', got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device, got a machine (or a torch build) without one. Use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


# Fabric knows shorter numbers too. They are left out: c sums to one only as far as its digits go, and a step spends its
# time in sparse products and in moving states, not in the dense products that short numbers make faster.
Precision = Literal["32-true", "64-true"]


def make_fabric(device: DeviceName = "auto", precision: Precision = "32-true") -> Fabric:
    """What a training computes with, on one device.

    Args:
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: Numbers of 32 or of 64 bits, `"32-true"` or `"64-true"`.
    """
    if precision not in get_args(Precision):
        raise InputError(f"Expected precision to be one of {', '.join(get_args(Precision))}, got {precision!r}.")
    # It tells of each precision it was asked for; warnings still come through.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    return Fabric(accelerator=choose_device(device).type, devices=1, precision=precision)


def weight_type(fabric: Fabric) -> torch.dtype:
    """In which numbers weights and inputs are kept."""
    with fabric.init_tensor():
        return torch.get_default_dtype()


def place(network: nn.Module, fabric: Fabric) -> nn.Module:
    """Bring a network, as it is, to the device and the numbers of a fabric; return it."""
    dtype = weight_type(fabric)
    # Not `to` for all: settings that are kept as buffers in 64 bits stay so.
    if any(parameter.dtype != dtype for parameter in network.parameters()):
        network.to(dtype)
    return network.to(fabric.device)


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one CPU thread meanwhile.

    For small problems: more threads gain nothing there, wait for each other for minutes where another program uses the
    machine too, and add in an order that depends on their number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# The C library of Linux gives blocks larger than a limit back to the system as soon as they are free. The limit follows
# the largest block that was freed, up to 32 MiB: a little less than that, once, and all smaller ones are kept.
LARGEST_KEPT = 31 * 2**20


@cache
def keep_freed_memory() -> None:
    """Let the process keep the memory it frees, for the next tensor. Done once; harmless where it does nothing."""
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)
