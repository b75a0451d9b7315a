"""Sums over the history, each in one pass over memory, for states in 32 bits that are contiguous.

torch makes a pass per state, each of which reads and writes the sum so far. A kernel has a fixed number of arguments,
so there are at most `MOST_STATES` states.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from tdegnn.kernels.usable import MOST_STATES

BLOCK = 2048


def add_weighted(
    weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"],
    states: Sequence[Float[Tensor, "*batch nodes channels"]],
) -> Float[Tensor, "*batch nodes channels"]:
    """Return `sum_p w_p F_p`."""
    total = torch.empty_like(states[0])
    by_member = weights.reshape(len(states), -1)
    num_members = by_member.shape[1]
    numbers = total.numel() // num_members
    with torch.cuda.device_of(total):
        _add_weighted[(triton.cdiv(numbers, BLOCK), num_members)](
            by_member, *_filled(states), total, numbers, *by_member.stride(), ORDER=len(states), BLOCK=BLOCK
        )
    return total


def inner_products(
    states: Sequence[Float[Tensor, "*batch nodes channels"]], state: Float[Tensor, "*batch nodes channels"]
) -> Float[Tensor, "order *batch"]:
    """Return the inner product of each state with `state`, over nodes and channels."""
    batch = state.shape[:-2]
    num_members = batch.numel()
    numbers = state.numel() // num_members
    num_blocks = triton.cdiv(numbers, BLOCK)
    # torch adds the sums of blocks, always in the same order.
    of_blocks = state.new_empty(len(states), *batch, num_blocks)
    with torch.cuda.device_of(state):
        _inner_products[(num_blocks, num_members)](
            *_filled(states), state, of_blocks, numbers, num_members, num_blocks, ORDER=len(states), BLOCK=BLOCK
        )
    return of_blocks.sum(dim=-1)


def products(
    weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"], state: Float[Tensor, "*batch nodes channels"]
) -> list[Float[Tensor, "*batch nodes channels"]]:
    """Return `w_p F` for each p."""
    return sums_of_two(weights, state, weights, None)


def sums_of_two(
    weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"],
    first: Float[Tensor, "*batch nodes channels"],
    more_weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"],
    second: Float[Tensor, "*batch nodes channels"] | None,
) -> list[Float[Tensor, "*batch nodes channels"]]:
    """Return `w_p first + v_p second` for each p, or the first summand alone if `second` is None."""
    order = len(weights)
    many, more = (each.reshape(order, -1) for each in (weights, more_weights))
    num_members = many.shape[1]
    numbers = first.numel() // num_members
    sums = [torch.empty_like(first) for _ in range(order)]
    with torch.cuda.device_of(first):
        _sums_of_two[(triton.cdiv(numbers, BLOCK), num_members)](
            many, more, first, first if second is None else second, *_filled(sums), numbers,
            *many.stride(), *more.stride(), HAS_SECOND=second is not None, ORDER=order, BLOCK=BLOCK,
        )  # fmt: skip
    return sums


def _filled(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return as many tensors as the kernels have arguments. They do not use those beyond the order."""
    return [*tensors, *[tensors[0]] * (MOST_STATES - len(tensors))]


@triton.jit
def _add_weighted(  # type: ignore[no-untyped-def]
    weights, f0, f1, f2, f3, f4, f5, f6, f7, total, numbers, order_stride, member_stride,
    ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    weights += member * member_stride
    states = (f0, f1, f2, f3, f4, f5, f6, f7)
    added = tl.zeros((BLOCK,), tl.float32)
    for position in tl.static_range(ORDER):
        weight = tl.load(weights + position * order_stride)
        added += weight * tl.load(states[position] + place, mask=is_here, other=0.0)
    tl.store(total + place, added, mask=is_here)


@triton.jit
def _inner_products(  # type: ignore[no-untyped-def]
    f0, f1, f2, f3, f4, f5, f6, f7, state, of_blocks, numbers, members, num_blocks,
    ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    number = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    states = (f0, f1, f2, f3, f4, f5, f6, f7)
    factor = tl.load(state + place, mask=is_here, other=0.0)
    for position in tl.static_range(ORDER):
        values = tl.load(states[position] + place, mask=is_here, other=0.0)
        tl.store(of_blocks + (position * members + member) * num_blocks + block, tl.sum(values * factor, axis=0))


@triton.jit
def _sums_of_two(  # type: ignore[no-untyped-def]
    weights, more_weights, first, second, s0, s1, s2, s3, s4, s5, s6, s7, numbers,
    order_stride, member_stride, more_order_stride, more_member_stride,
    HAS_SECOND: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    weights += member * member_stride
    more_weights += member * more_member_stride
    sums = (s0, s1, s2, s3, s4, s5, s6, s7)
    one = tl.load(first + place, mask=is_here, other=0.0)
    if HAS_SECOND:
        other = tl.load(second + place, mask=is_here, other=0.0)
    for position in tl.static_range(ORDER):
        added = tl.load(weights + position * order_stride) * one
        if HAS_SECOND:
            added += tl.load(more_weights + position * more_order_stride) * other
        tl.store(sums[position] + place, added, mask=is_here)
