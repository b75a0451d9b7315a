"""Dropout in one pass over memory: the mask is computed from random bits and a key, and never stored.

The formula is that of `nets/dropout.py`, where torch makes a pass for each of its seven operations.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

# A small tensor is cut into more blocks, so that all multiprocessors have work.
SMALL, SMALL_BLOCK, BLOCK = 2**21, 512, 2048


def drop(
    values: Float[Tensor, "*members_and_shape"],
    bits: Int32[Tensor, "*shape"],
    rate: Float[Tensor, "*members"],
    flip: Int32[Tensor, "*members"],
    factor: Int32[Tensor, "*members"],
) -> Float[Tensor, "*members_and_shape"]:
    """Set a fraction `rate` of `values` to zero and scale the others, with a key (`flip`, `factor`) per member."""
    values = values.contiguous()
    dropped = torch.empty_like(values)
    if values.numel() == 0:
        return dropped
    numbers = bits.numel()
    block = SMALL_BLOCK if values.numel() <= SMALL else BLOCK
    with torch.cuda.device_of(values):
        _drop[(triton.cdiv(numbers, block), values.numel() // numbers)](
            values, bits.contiguous(), rate.contiguous(), flip.contiguous(), factor.contiguous(), dropped, numbers,
            BLOCK=block,
        )  # fmt: skip
    return dropped


@triton.jit
def _drop(values, bits, rates, flips, factors, dropped, numbers, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    member = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    rate = tl.load(rates + member).to(tl.float64)
    stirred = (tl.load(bits + number, mask=is_here, other=0) ^ tl.load(flips + member)) * tl.load(factors + member)
    # The shift copies the sign, so this is never negative.
    uniform = stirred ^ (stirred >> 15)
    is_kept = uniform >= (rate * 2147483648.0).to(tl.int64)
    given = tl.load(values + member * numbers + number, mask=is_here, other=0.0)
    scale = (1.0 / (1.0 - rate)).to(given.dtype)
    tl.store(dropped + member * numbers + number, given * tl.where(is_kept, scale, 0.0).to(given.dtype), mask=is_here)
