"""Scores divided by their sum, and the way back: `guard`, `coefficients_of` and `pull_back` of `core/combination.py`.

There they are 25 operations on a handful of numbers, each of which costs a GPU as much as a pass over a small state.
Here each way is one kernel, which holds all scores of some members at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

MEMBERS = 32


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


def divide(scores: Float[Tensor, "order *batch"], smallest_scale: float, relative_floor: float) -> Divided:
    """Divide scores by their sum along the first axis.

    Args:
        scores: In 32 bits.
        smallest_scale: The scale is at least this.
        relative_floor: The size of the sum is at least this share of the sum of sizes.
    """
    scores = scores.contiguous()
    raw, coefficients, quotient = (torch.empty_like(scores) for _ in range(3))
    scale, divisor = (torch.empty_like(scores[:1]) for _ in range(2))
    is_free = torch.empty_like(scale, dtype=torch.bool)
    num_members = scale.numel()
    with torch.cuda.device_of(scores):
        _divide[(triton.cdiv(num_members, MEMBERS),)](
            scores, raw, coefficients, quotient, scale, divisor, is_free, len(scores), num_members,
            smallest_scale, relative_floor, ORDER=triton.next_power_of_2(len(scores)), MEMBERS=MEMBERS, num_warps=1,
        )  # fmt: skip
    return Divided(raw, coefficients, quotient, scale, divisor, is_free)


def pull_back_division(
    divided: tuple[Tensor, Tensor, Tensor, Tensor], gradient: Float[Tensor, "order *batch"], relative_floor: float
) -> Float[Tensor, "order *batch"]:
    """Return the gradient with respect to `raw`, given the one with respect to c.

    Args:
        divided: `quotient`, `scale`, `divisor` and `is_free` of `divide`.
        gradient: In 32 bits.
        relative_floor: As in `divide`.
    """
    quotient, scale, divisor, is_free = (each.contiguous() for each in divided)
    gradient = gradient.contiguous()
    to_raw = torch.empty_like(gradient)
    with torch.cuda.device_of(gradient):
        _pull_back[(triton.cdiv(scale.numel(), MEMBERS),)](
            quotient, scale, divisor, is_free, gradient, to_raw, len(gradient), scale.numel(),
            relative_floor, ORDER=triton.next_power_of_2(len(gradient)), MEMBERS=MEMBERS, num_warps=1,
        )  # fmt: skip
    return to_raw


@triton.jit
def _divide(  # type: ignore[no-untyped-def]
    scores, raw, coefficients, quotient, scale, divisor, is_free, order, members,
    smallest_scale, relative_floor, ORDER: tl.constexpr, MEMBERS: tl.constexpr,
):  # fmt: skip
    row = tl.arange(0, ORDER)[:, None]
    member = tl.program_id(0) * MEMBERS + tl.arange(0, MEMBERS)
    is_member = member < members
    place = row * members + member[None, :]
    is_here = (row < order) & is_member[None, :]
    given = tl.load(scores + place, mask=is_here, other=0.0)
    # As `nan_to_num`: a number that is not equal to itself becomes 0, infinite ones the largest of their sign.
    largest = 3.4028234663852886e38
    finite = tl.where(given == given, tl.minimum(tl.maximum(given, -largest), largest), 0.0)  # noqa: PLR0124
    size = tl.maximum(tl.max(tl.abs(finite), axis=0), smallest_scale)
    scaled = tl.math.div_rn(finite, tl.broadcast_to(size[None, :], (ORDER, MEMBERS)))
    total = tl.sum(scaled, axis=0)
    floor = relative_floor * tl.maximum(tl.sum(tl.abs(scaled), axis=0), 1.0)
    free = tl.abs(total) >= floor
    # A sum of minus zero divides as plus zero does: both are held by the floor.
    held = tl.where(free, total, tl.where(total < 0, -floor, floor))
    share = tl.math.div_rn(scaled, tl.broadcast_to(held[None, :], (ORDER, MEMBERS)))
    others = tl.sum(tl.where(row > 0, share, 0.0), axis=0)
    tl.store(raw + place, finite, mask=is_here)
    tl.store(quotient + place, share, mask=is_here)
    tl.store(coefficients + place, tl.where(row > 0, share, 1.0 - others[None, :]), mask=is_here)
    tl.store(scale + member, size, mask=is_member)
    tl.store(divisor + member, held, mask=is_member)
    tl.store(is_free + member, free, mask=is_member)


@triton.jit
def _pull_back(  # type: ignore[no-untyped-def]
    quotient, scale, divisor, is_free, gradient, to_raw, order, members,
    relative_floor, ORDER: tl.constexpr, MEMBERS: tl.constexpr,
):  # fmt: skip
    row = tl.arange(0, ORDER)[:, None]
    member = tl.program_id(0) * MEMBERS + tl.arange(0, MEMBERS)
    is_member = member < members
    place = row * members + member[None, :]
    is_here = (row < order) & is_member[None, :]
    share = tl.load(quotient + place, mask=is_here, other=0.0)
    given = tl.load(gradient + place, mask=is_here, other=0.0)
    size = tl.load(scale + member, mask=is_member, other=1.0)
    held = tl.load(divisor + member, mask=is_member, other=1.0)
    free = tl.load(is_free + member, mask=is_member, other=1) != 0
    # The first coefficient is one minus the others.
    first = tl.sum(tl.where(row == 0, given, 0.0), axis=0)
    to_quotient = given - first[None, :]
    to_divisor = tl.sum(tl.where(is_here, to_quotient * share, 0.0), axis=0)
    sign = tl.where(share > 0, 1.0, tl.where(share < 0, -1.0, 0.0))
    slope = tl.where(free[None, :], 1.0, relative_floor * sign)
    result = (to_quotient - to_divisor[None, :] * slope) / held[None, :] / size[None, :]
    tl.store(to_raw + place, result, mask=is_here)
