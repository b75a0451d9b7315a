"""Where to compute, and with which numbers: a Lightning Fabric made from our names, with errors for people.

A training asks it for the device, for the type of weights, for the context of a forward pass, and for the backward
pass; it knows of no device and no precision itself.
"""

from __future__ import annotations

import logging
from typing import Literal, get_args

import torch
from lightning_fabric import Fabric
from torch import nn

from tdegnn.errors import InputError
from tdegnn.training.device import DeviceName, choose_device

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
