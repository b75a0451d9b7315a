"""Whether kernels can be used: on a CUDA device, with Triton, which comes with torch for CUDA, and a C compiler.

Every computation that has a kernel also has a plain way in torch, which is taken everywhere else.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

# Kernels of sums over the history have this many arguments for states.
MOST_STATES = 8


def runs_kernels(tensor: Tensor) -> bool:
    """Return whether kernels can compute with this tensor."""
    return tensor.is_cuda and not torch.compiler.is_compiling() and _compiles(tensor.device)


@cache
def _compiles(device: torch.device) -> bool:
    """Compile and run a small kernel. Return whether it gave the right numbers."""
    try:
        from tdegnn.kernels.row_product import multiply_rows

        pointers, columns = (torch.tensor(each, dtype=torch.int32, device=device) for each in ([0, 2, 2], [0, 1]))
        product = multiply_rows(pointers, columns, torch.ones(2, device=device), torch.eye(2, device=device)[None])
        return product.tolist() == [[[1.0, 1.0], [0.0, 0.0]]]
    except Exception:  # without Triton or a compiler, or on a device that it does not know; it has no common base class
        return False
