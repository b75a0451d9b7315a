"""The product of a sparse matrix in compressed rows with dense states, one program per row and block of channels.

A program reads a few entries of its row and the states that they name at a time, and keeps the sum in registers. Unlike
cuSPARSE it reads the states of each member where they are, writes no partial sums, and always adds in the same order.
One program walks a whole row, so the kernel is for matrices without very long rows (`LONGEST_ROW` in `sparse.py`).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

# Values that a program holds at a time: entries of the row times channels.
TILE = 2048
MOST_CHANNELS = 128


def multiply_rows(
    row_pointers: Int32[Tensor, " rows_plus_one"],
    columns: Int32[Tensor, " entries"],
    values: Float[Tensor, " entries"],
    dense: Float[Tensor, "batch columns channels"],
) -> Float[Tensor, "batch rows channels"]:
    """Return `A @ dense[b]` for each b, in the precision of `values`. `dense` may have fewer digits."""
    if dense.stride(2) != 1:
        dense = dense.contiguous()
    batch, _, channels = dense.shape
    num_rows = row_pointers.numel() - 1
    product = values.new_empty(batch, num_rows, channels)
    if product.numel() == 0:
        return product
    width = min(MOST_CHANNELS, triton.next_power_of_2(channels))
    grid = (num_rows, triton.cdiv(channels, width), batch)
    with torch.cuda.device_of(dense):
        _multiply_row[grid](
            row_pointers,
            columns,
            values,
            dense,
            product,
            channels,
            dense.stride(0),
            dense.stride(1),
            product.stride(0),
            WIDTH=width,
            ENTRIES=min(32, TILE // width),
            num_warps=1,
        )
    return product


@triton.jit
def _multiply_row(  # type: ignore[no-untyped-def]
    row_pointers,
    columns,
    values,
    dense,
    product,
    channels,
    member_stride,
    node_stride,
    product_stride,
    WIDTH: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    member = tl.program_id(2).to(tl.int64)
    is_channel = channel < channels
    start, end = tl.load(row_pointers + row), tl.load(row_pointers + row + 1)
    kind = tl.float64 if values.dtype.element_ty == tl.float64 else tl.float32
    total = tl.zeros((WIDTH,), kind)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        is_entry = entry < end
        column = tl.load(columns + entry, mask=is_entry, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=is_entry, other=0.0).to(kind)
        places = member * member_stride + column[:, None] * node_stride + channel[None, :]
        states = tl.load(dense + places, mask=is_entry[:, None] & is_channel[None, :], other=0.0).to(kind)
        total += tl.sum(value[:, None] * states, axis=0)
    tl.store(product + member * product_stride + row * channels + channel, total, mask=is_channel)
