"""Sums over the history, each in one pass over memory, for states in 32 bits that are contiguous.

torch makes a pass per state, each of which reads and writes the sum so far. A kernel has a fixed number of arguments,
so there are at most `MOST_STATES` states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from tdegnn.kernels.usable import MOST_STATES

# A small state is cut into more blocks, so that all multiprocessors have work.
SMALL, SMALL_BLOCK, BLOCK = 2**21, 512, 2048
# Rows of matrices that cuBLAS multiplies begin at multiples of this, in numbers of 32 bits.
ALIGNMENT = 4


def add_weighted(
    weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"],
    states: Sequence[Float[Tensor, "*batch nodes channels"]],
) -> Float[Tensor, "*batch nodes channels"]:
    """Return `sum_p w_p F_p`."""
    total = torch.empty_like(states[0])
    by_member = weights.reshape(len(states), -1)
    num_members = by_member.shape[1]
    numbers = total.numel() // num_members
    block = _block_of(total)
    with torch.cuda.device_of(total):
        _add_weighted[(triton.cdiv(numbers, block), num_members)](
            by_member, *_filled(states), total, numbers, *by_member.stride(), ORDER=len(states), BLOCK=block
        )
    return total


def inner_products(
    states: Sequence[Float[Tensor, "*batch nodes channels"]],
    state: Float[Tensor, "*batch nodes channels"],
    score: Float[Tensor, "*members channels_and_one channels_and_one"] | None = None,
) -> Float[Tensor, "order *batch blocks"]:
    """Return the inner product of each state with `state`, over nodes and channels, as sums over blocks.

    Args:
        states: The states.
        state: What each is multiplied with.
        score: If given, `[F_0, 1] . S[:, last]`, summed over nodes, is added to each: with the states extended by a
            channel of ones, it is what their last channel adds.
    """
    *batch, num_nodes, channels = state.shape
    num_members = torch.Size(batch).numel()
    numbers = num_nodes * channels
    block = _block_of(state)
    num_blocks = triton.cdiv(numbers, block)
    # They are added up later, always in the same order.
    of_blocks = state.new_empty(len(states), *batch, num_blocks)
    column = state if score is None else score[..., -1].reshape(-1, channels + 1)
    with torch.cuda.device_of(state):
        _inner_products[(num_blocks, num_members)](
            *_filled(states), state, column, of_blocks, numbers, num_members, num_blocks, channels,
            num_members if score is None else num_members // len(column), *(column.stride()[-2:]),
            HAS_COLUMN=score is not None, ORDER=len(states), BLOCK=block,
        )  # fmt: skip
    return of_blocks


def products(
    weights: Float[Tensor, " order"] | Float[Tensor, "order *batch"], state: Float[Tensor, "*batch nodes channels"]
) -> list[Float[Tensor, "*batch nodes channels"]]:
    """Return `w_p F` for each p."""
    by_member = weights.reshape(len(weights), -1)
    num_members = by_member.shape[1]
    numbers = state.numel() // num_members
    scaled = [torch.empty_like(state) for _ in range(len(weights))]
    block = _block_of(state)
    with torch.cuda.device_of(state):
        _products[(triton.cdiv(numbers, block), num_members)](
            by_member, state, *_filled(scaled), numbers, *by_member.stride(), ORDER=len(weights), BLOCK=block
        )
    return scaled


class PulledBack(NamedTuple):
    """What the backward pass of an attention needs of the history, computed in one pass.

    Attributes:
        sums: `w_p first + v_p second` for each p.
        through_scores: `sum_p v_p [F_p, 1]`.
        current: `[F_0, 1]`.
    """

    sums: list[Float[Tensor, "*batch nodes channels"]]
    through_scores: Float[Tensor, "*batch nodes channels_and_one"]
    current: Float[Tensor, "*batch nodes channels_and_one"]


def pull_back_attention(
    states: Sequence[Float[Tensor, "*batch nodes channels"]],
    weights: Float[Tensor, "order *batch"],
    first: Float[Tensor, "*batch nodes channels"],
    more_weights: Float[Tensor, "order *batch"],
    second: Float[Tensor, "*batch nodes channels"],
) -> PulledBack:
    """Return `w_p first + v_p second` for each p, `sum_p v_p [F_p, 1]`, and `[F_0, 1]`."""
    order = len(states)
    many, more = (each.reshape(order, -1) for each in (weights, more_weights))
    num_members, channels = many.shape[1], first.shape[-1]
    numbers = first.numel() // num_members
    sums = [torch.empty_like(first) for _ in range(order)]
    row = triton.cdiv(channels + 1, ALIGNMENT) * ALIGNMENT
    through_scores, current = (first.new_empty(*first.shape[:-1], row) for _ in range(2))
    block = _block_of(first)
    with torch.cuda.device_of(first):
        _pull_back_attention[(triton.cdiv(numbers, block), num_members)](
            many, more, first, second, *_filled(states), *_filled(sums), through_scores, current, numbers,
            channels, row, *many.stride(), *more.stride(), ORDER=order, BLOCK=block,
        )  # fmt: skip
    return PulledBack(sums, through_scores[..., : channels + 1], current[..., : channels + 1])


def _block_of(state: Tensor) -> int:
    return SMALL_BLOCK if state.numel() <= SMALL else BLOCK


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
    f0, f1, f2, f3, f4, f5, f6, f7, state, column, of_blocks, numbers, members, num_blocks, channels,
    per_column, column_stride, channel_stride,
    HAS_COLUMN: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    number = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    states = (f0, f1, f2, f3, f4, f5, f6, f7)
    factor = tl.load(state + place, mask=is_here, other=0.0)
    added = tl.zeros((BLOCK,), tl.float32)
    if HAS_COLUMN:
        column += (member // per_column) * column_stride
        channel = number % channels
        added += tl.load(f0 + place, mask=is_here, other=0.0) * tl.load(column + channel * channel_stride)
        # Once per node, what the channel of ones adds.
        added += tl.where(is_here & (channel == 0), tl.load(column + channels * channel_stride), 0.0)
    for position in tl.static_range(ORDER):
        values = tl.load(states[position] + place, mask=is_here, other=0.0)
        total = tl.sum(values * factor + added, axis=0)
        tl.store(of_blocks + (position * members + member) * num_blocks + block, total)


@triton.jit
def _products(  # type: ignore[no-untyped-def]
    weights, state, s0, s1, s2, s3, s4, s5, s6, s7, numbers, order_stride, member_stride,
    ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    weights += member * member_stride
    scaled = (s0, s1, s2, s3, s4, s5, s6, s7)
    values = tl.load(state + place, mask=is_here, other=0.0)
    for position in tl.static_range(ORDER):
        tl.store(scaled[position] + place, tl.load(weights + position * order_stride) * values, mask=is_here)


@triton.jit
def _pull_back_attention(  # type: ignore[no-untyped-def]
    weights, more_weights, first, second, f0, f1, f2, f3, f4, f5, f6, f7, s0, s1, s2, s3, s4, s5, s6, s7,
    through_scores, current, numbers, channels, row,
    order_stride, member_stride, more_order_stride, more_member_stride,
    ORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = number < numbers
    place = member * numbers + number
    weights += member * member_stride
    more_weights += member * more_member_stride
    states = (f0, f1, f2, f3, f4, f5, f6, f7)
    sums = (s0, s1, s2, s3, s4, s5, s6, s7)
    one = tl.load(first + place, mask=is_here, other=0.0)
    other = tl.load(second + place, mask=is_here, other=0.0)
    newest = tl.load(f0 + place, mask=is_here, other=0.0)
    through = tl.zeros((BLOCK,), tl.float32)
    of_ones = 0.0
    for position in tl.static_range(ORDER):
        many = tl.load(weights + position * order_stride)
        more = tl.load(more_weights + position * more_order_stride)
        tl.store(sums[position] + place, many * one + more * other, mask=is_here)
        through += more * tl.load(states[position] + place, mask=is_here, other=0.0)
        of_ones += more
    node, channel = number // channels, number % channels
    wide = (member * (numbers // channels) + node) * row
    tl.store(through_scores + wide + channel, through, mask=is_here)
    tl.store(current + wide + channel, newest, mask=is_here)
    is_first = is_here & (channel == 0)
    tl.store(through_scores + wide + channels, tl.zeros_like(through) + of_ones, mask=is_first)
    tl.store(current + wide + channels, tl.zeros_like(through) + 1.0, mask=is_first)
