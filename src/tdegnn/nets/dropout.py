"""Dropout whose masks are a function of seed, step and position in the network, and of nothing else.

There is no hidden state of a random generator. So a training that is resumed, run on another device, or trained as one
of many in a batch sees the same masks. Random bits are drawn once per size, and a key made of seed, step and position
mixes them. On a CPU this is also several times faster than drawing anew; on a CUDA device a kernel does it in one pass
(`kernels/masking.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.core.combination import members_first
from tdegnn.kernels.usable import runs_kernels
from tdegnn.sparse import SparseMatrix

# Odd constants with well-spread bits: the golden ratio, and those of a known mixer of 32 bits.
GOLDEN = 0x9E3779B1
STIR = 0x7FEB352D
STIR_AGAIN = 0x846CA68B
ALL_BITS = 0xFFFFFFFF
KEYS_AT_ONCE = 16
# For up to this many numbers, masks of all keys are made at once: a call costs more than its computation.
SMALL_MASK = 2**14


class BatchShare(NamedTuple):
    """Which part of a batch a pass sees, if several processes share the batch.

    Attributes:
        first: Number of the first element of the part.
        total: Number of elements of the whole batch.
    """

    first: int
    total: int


class DropoutStream:
    """The masks of one forward pass, one after another.

    Args:
        seed: Seed of the training.
        step: Number of the step.
        share: Which part of a batch the pass sees: values then have the batch as their first axis, and get the masks
            that they would get in the whole batch. If None, it sees everything.
    """

    def __init__(self, seed: Int[Tensor, ""], step: Int[Tensor, ""], share: BatchShare | None = None) -> None:
        self._share = share
        self._start = _scramble(_scramble(seed) + step * GOLDEN)
        self._num_dropped = 0
        # Of one block of numbers at a time.
        self._block = -1
        self._keys: tuple[Tensor, Tensor]
        self._masks: dict[tuple[torch.Size, torch.dtype, int], Tensor] = {}

    def drop(self, values: Float[Tensor, "*shape"], rate: Float[Tensor, ""]) -> Float[Tensor, "*shape"]:
        """Set a fraction `rate` of `values` to zero and scale the others, so that the mean stays."""
        return self.drop_by(self.take_numbers(1).start, values, rate)

    def take_numbers(self, count: int) -> range:
        """Return the numbers of the next masks, which are then taken."""
        self._num_dropped += count
        return range(self._num_dropped - count, self._num_dropped)

    def drop_by(self, number: int, values: Float[Tensor, "*shape"], rate: Float[Tensor, ""]) -> Float[Tensor, "*shape"]:
        """Drop by the mask of this number, from 0 on."""
        block, place = divmod(number, KEYS_AT_ONCE)
        if block != self._block:
            self._block, self._keys, self._masks = block, self._draw_keys(block * KEYS_AT_ONCE), {}
        flips, factors = self._keys
        if runs_kernels(values):
            dropped: Tensor = _Dropped.apply(  # type: ignore[no-untyped-call]
                values, _bits_of(values, self._share), rate, flips[place], factors[place]
            )
            return dropped
        if values.numel() > SMALL_MASK:
            return values * _mask(values, self._share, rate, flips[place], factors[place])
        # A rate lives as long as the pass, so that its id is unique.
        key = (values.shape, values.dtype, id(rate))
        if key not in self._masks:
            by_key = (KEYS_AT_ONCE, *[1] * values.dim())
            self._masks[key] = _mask(values, self._share, rate, flips.view(by_key), factors.view(by_key))
        return values * self._masks[key][place]

    def _draw_keys(self, num_before: int) -> tuple[Int[Tensor, " keys"], Int[Tensor, " keys"]]:
        """Draw what the bits are mixed with, for many masks at once: one mask would cost as much."""
        numbers = torch.arange(1, KEYS_AT_ONCE + 1, device=self._start.device) + num_before
        keys = _scramble(self._start + numbers * GOLDEN)
        # Both depend on the key: with a constant factor, masks of different keys are correlated.
        return _as_signed(keys), _as_signed(_scramble(keys + GOLDEN) | 1)


class _Dropped(torch.autograd.Function):
    """Dropout by a kernel, forward and backward: the gradient is dropped by the same mask, which is not kept."""

    @staticmethod
    def forward(values: Tensor, bits: Tensor, rate: Tensor, flip: Tensor, factor: Tensor) -> Tensor:
        from tdegnn.kernels.masking import drop

        return drop(values, bits, rate, flip, factor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        return _Dropped.apply(gradient, *ctx.saved_tensors), None, None, None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        """Treat members as one more axis in front. They share the random bits, which depend on the shape alone."""
        values, rate, flip, factor = members_first(info.batch_size, in_dims[:1] + in_dims[2:], inputs[:1] + inputs[2:])
        return _Dropped.apply(values, inputs[1], rate, flip, factor), 0  # type: ignore[no-untyped-call]


def _mask(
    values: Float[Tensor, "*shape"],
    share: BatchShare | None,
    rate: Float[Tensor, ""],
    flip: Int[Tensor, "..."],
    factor: Int[Tensor, "..."],
) -> Float[Tensor, "..."]:
    """Return the factors of `values`: zero, or the scale that keeps the mean."""
    stirred = (_bits_of(values, share) ^ flip) * factor
    # The shift copies the sign, so this is never negative: a uniform number below 2^31.
    uniform = stirred ^ (stirred >> 15)
    is_kept = uniform >= (rate * 2.0**31).to(torch.int64)
    return is_kept * (1.0 / (1.0 - rate)).to(values.dtype)


def _bits_of(values: Float[Tensor, "*shape"], share: BatchShare | None) -> Int[Tensor, "*shape"]:
    """Return the random bits of values, as those of a whole batch are numbered."""
    if share is None:
        return _random_bits(values.numel(), values.device).view(values.shape)
    shape = (share.total, *values.shape[1:])
    return _random_bits(math.prod(shape), values.device).view(shape)[share.first : share.first + len(values)]


def _scramble(key: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
    """Return a number of 32 bits that looks random, given any number."""
    key = key & ALL_BITS
    key = ((key ^ (key >> 16)) * STIR) & ALL_BITS
    key = ((key ^ (key >> 15)) * STIR_AGAIN) & ALL_BITS
    return key ^ (key >> 16)


def _as_signed(key: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
    """Return the same bits as a signed number of 32 bits, the type of the large tensors."""
    return torch.where(key > ALL_BITS // 2, key - (ALL_BITS + 1), key).to(torch.int32)


@lru_cache(maxsize=16)
def _random_bits(count: int, device: torch.device) -> Int[Tensor, " count"]:
    """Return random numbers of 32 bits, always the same ones for a size."""
    # NumPy draws them, since this may first be called under `vmap`, which does not allow generators of torch.
    bits = np.random.default_rng(count).integers(-(2**31), 2**31, count, dtype=np.int32)
    return torch.from_numpy(bits).to(device)


class PassDropout:
    """The dropout of one forward pass.

    Args:
        stream: The masks of this pass. If None, in evaluation mode, nothing is dropped.
        outer_rate: Fraction of the input, and of the input of a readout, that is dropped.
        hidden_rate: Fraction of the states in between that is dropped.
        readout_rate: Fraction of the input of a readout that is dropped. If None, `outer_rate`.
    """

    def __init__(
        self,
        stream: DropoutStream | None,
        outer_rate: Float[Tensor, ""],
        hidden_rate: Float[Tensor, ""],
        readout_rate: Float[Tensor, ""] | None = None,
    ) -> None:
        self._stream, self._outer_rate, self._hidden_rate = stream, outer_rate, hidden_rate
        self._readout_rate = outer_rate if readout_rate is None else readout_rate

    def input(self, features: SparseMatrix | Tensor) -> SparseMatrix | Tensor:
        """Drop from the input. Zeros stay zeros, so only the entries of a sparse matrix matter."""
        if isinstance(features, SparseMatrix):
            return features.with_values(self.outer(features.values)) if self._stream else features
        return self.outer(features)

    def outer(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop at the outer rate."""
        return self._stream.drop(values, self._outer_rate) if self._stream else values

    def hidden(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop at the hidden rate."""
        return self._stream.drop(values, self._hidden_rate) if self._stream else values

    def hidden_by_layer(self, num_layers: int) -> list[Callable[[Tensor], Tensor]] | None:
        """Return for each layer what drops at the hidden rate, by the same mask in every call. None if nothing is."""
        stream, rate = self._stream, self._hidden_rate
        if stream is None:
            return None
        return [partial(stream.drop_by, number, rate=rate) for number in stream.take_numbers(num_layers)]

    def readout(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop from the input of a readout."""
        return self._stream.drop(values, self._readout_rate) if self._stream else values
