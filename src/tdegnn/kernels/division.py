"""Scores divided by their sum, and the way back: `guard`, `coefficients_of` and `pull_back` of `core/combination.py`.

There they are 25 operations on a handful of numbers, each of which costs a GPU as much as a pass over a small state.
Here each way is one kernel, with a program per member. It also adds up what the blocks of `history.py` have summed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

# Sums of blocks that a program reads at a time.
MOST_BLOCKS = 1024


class Divided(NamedTuple):
    """What the division of a vector by its sum gives, as in `core/combination.py`.

    Attributes:
        raw: The vector, made finite.
        coefficients: The quotient, its first entry being one minus the others.
        quotient: The vector divided by its sum, which is held away from zero.
        scale: The largest entry by size.
        divisor: The sum of `raw / scale`, held away from zero.
        is_free: Whether the divisor is that sum, not held.
    """

    raw: Float[Tensor, "order *batch"]
    coefficients: Float[Tensor, "order *batch"]
    quotient: Float[Tensor, "order *batch"]
    scale: Float[Tensor, "1 *batch"]
    divisor: Float[Tensor, "1 *batch"]
    is_free: Bool[Tensor, "1 *batch"]


def divide(sums: Float[Tensor, "order *batch blocks"], smallest_scale: float, relative_floor: float) -> Divided:
    """Add up scores, and divide them by their sum along the first axis.

    Args:
        sums: The scores, in 32 bits, as sums over blocks.
        smallest_scale: The scale is at least this.
        relative_floor: The size of the sum is at least this share of the sum of sizes.
    """
    sums = sums.contiguous()
    raw, coefficients, quotient = (sums.new_empty(sums.shape[:-1]) for _ in range(3))
    scale, divisor = (torch.empty_like(raw[:1]) for _ in range(2))
    is_free = torch.empty_like(scale, dtype=torch.bool)
    with torch.cuda.device_of(sums):
        _divide[(scale.numel(),)](
            sums, raw, coefficients, quotient, scale, divisor, is_free, len(raw), scale.numel(), sums.shape[-1],
            smallest_scale, relative_floor, **_sizes(sums),
        )  # fmt: skip
    return Divided(raw, coefficients, quotient, scale, divisor, is_free)


def pull_back_division(
    divided: tuple[Tensor, Tensor, Tensor, Tensor],
    sums: Float[Tensor, "order *batch blocks"],
    relative_floor: float,
) -> Float[Tensor, "order *batch"]:
    """Return the gradient with respect to `raw`, given the one with respect to c.

    Args:
        divided: `quotient`, `scale`, `divisor` and `is_free` of `divide`.
        sums: The gradient with respect to c, in 32 bits, as sums over blocks.
        relative_floor: As in `divide`.
    """
    quotient, scale, divisor, is_free = (each.contiguous() for each in divided)
    sums = sums.contiguous()
    to_raw = torch.empty_like(quotient)
    with torch.cuda.device_of(sums):
        _pull_back[(scale.numel(),)](
            quotient, scale, divisor, is_free, sums, to_raw, len(to_raw), scale.numel(), sums.shape[-1],
            relative_floor, **_sizes(sums),
        )  # fmt: skip
    return to_raw


def _sizes(sums: Tensor) -> dict[str, int]:
    """Return the sizes that a kernel is compiled for."""
    blocks = min(MOST_BLOCKS, triton.next_power_of_2(sums.shape[-1]))
    return {"ORDER": triton.next_power_of_2(len(sums)), "BLOCKS": blocks, "num_warps": 1 if blocks < 128 else 4}


@triton.jit
def _add_up(  # type: ignore[no-untyped-def]
    sums, is_here, place, num_blocks, ORDER: tl.constexpr, BLOCKS: tl.constexpr
):
    total = tl.zeros((ORDER, BLOCKS), tl.float32)
    for first in range(0, num_blocks, BLOCKS):
        block = first + tl.arange(0, BLOCKS)
        is_block = is_here[:, None] & (block < num_blocks)[None, :]
        places = place.to(tl.int64)[:, None] * num_blocks + block[None, :]
        total += tl.load(sums + places, mask=is_block, other=0.0)
    return tl.sum(total, axis=1)


@triton.jit
def _divide(  # type: ignore[no-untyped-def]
    sums, raw, coefficients, quotient, scale, divisor, is_free, order, members, num_blocks,
    smallest_scale, relative_floor, ORDER: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0)
    row = tl.arange(0, ORDER)
    is_here = row < order
    place = row * members + member
    given = _add_up(sums, is_here, place, num_blocks, ORDER, BLOCKS)
    # As `nan_to_num`: a number that is not equal to itself becomes 0, infinite ones the largest of their sign.
    largest = 3.4028234663852886e38
    finite = tl.where(given == given, tl.minimum(tl.maximum(given, -largest), largest), 0.0)  # noqa: PLR0124
    size = tl.maximum(tl.max(tl.abs(finite), axis=0), smallest_scale)
    scaled = tl.math.div_rn(finite, tl.zeros_like(finite) + size)
    total = tl.sum(scaled, axis=0)
    floor = relative_floor * tl.maximum(tl.sum(tl.abs(scaled), axis=0), 1.0)
    free = tl.abs(total) >= floor
    # A sum of minus zero divides as plus zero does: both are held by the floor.
    held = tl.where(free, total, tl.where(total < 0, -floor, floor))
    share = tl.math.div_rn(scaled, tl.zeros_like(scaled) + held)
    others = tl.sum(tl.where(row > 0, share, 0.0), axis=0)
    tl.store(raw + place, finite, mask=is_here)
    tl.store(quotient + place, share, mask=is_here)
    tl.store(coefficients + place, tl.where(row > 0, share, 1.0 - others), mask=is_here)
    tl.store(scale + member, size)
    tl.store(divisor + member, held)
    tl.store(is_free + member, free)


@triton.jit
def _pull_back(  # type: ignore[no-untyped-def]
    quotient, scale, divisor, is_free, sums, to_raw, order, members, num_blocks,
    relative_floor, ORDER: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0)
    row = tl.arange(0, ORDER)
    is_here = row < order
    place = row * members + member
    given = _add_up(sums, is_here, place, num_blocks, ORDER, BLOCKS)
    share = tl.load(quotient + place, mask=is_here, other=0.0)
    size, held = tl.load(scale + member), tl.load(divisor + member)
    free = tl.load(is_free + member) != 0
    # The first coefficient is one minus the others.
    to_quotient = given - tl.sum(tl.where(row == 0, given, 0.0), axis=0)
    to_divisor = tl.sum(tl.where(is_here, to_quotient * share, 0.0), axis=0)
    sign = tl.where(share > 0, 1.0, tl.where(share < 0, -1.0, 0.0))
    slope = tl.where(free, 1.0, relative_floor * sign)
    tl.store(to_raw + place, (to_quotient - to_divisor * slope) / held / size, mask=is_here)
