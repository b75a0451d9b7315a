"""Dropout whose masks are a function of seed, step and place, and of nothing else.

No hidden state of a random generator: a training that is resumed, run on another device, or trained as one of many in a
batch, sees the same masks. Random bits are drawn once for each size; a key of seed, step and place stirs them. (It is
also several times faster than drawing anew on a CPU.)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tdegnn.sparse import SparseMatrix

# Odd constants with well-spread bits: the golden ratio, and those of a known mixer of 32 bits.
GOLDEN = 0x9E3779B1
STIR = 0x7FEB352D
STIR_AGAIN = 0x846CA68B
ALL_BITS = 0xFFFFFFFF
KEYS_AT_ONCE = 16
# Numbers: for up to so many, masks of all keys are made at once, for calls cost more than what they compute.
SMALL_MASK = 2**14


class DropoutStream:
    """The masks of one forward pass, one after another.

    Args:
        seed: Seed of the training.
        step: Number of the step.
    """

    def __init__(self, seed: Int[Tensor, ""], step: Int[Tensor, ""]) -> None:
        self._start = _scramble(_scramble(seed) + step * GOLDEN)
        self._num_dropped = 0
        self._keys: tuple[Tensor, Tensor] | None = None
        self._masks: dict[tuple[torch.Size, torch.dtype, int], Tensor] = {}

    def drop(self, values: Float[Tensor, "*shape"], rate: Float[Tensor, ""]) -> Float[Tensor, "*shape"]:
        """Set a part `rate` of `values` to zero and scale the others, so that the mean stays."""
        block, place = divmod(self._num_dropped, KEYS_AT_ONCE)
        if self._keys is None or place == 0:
            self._keys, self._masks = self._draw_keys(block * KEYS_AT_ONCE), {}
        self._num_dropped += 1
        flips, factors = self._keys
        if values.numel() > SMALL_MASK:
            return values * _mask(values, rate, flips[place], factors[place])
        # A rate lives as long as the pass does, so that its identity tells it from others.
        key = (values.shape, values.dtype, id(rate))
        if key not in self._masks:
            by_key = (KEYS_AT_ONCE, *[1] * values.dim())
            self._masks[key] = _mask(values, rate, flips.view(by_key), factors.view(by_key))
        return values * self._masks[key][place]

    def _draw_keys(self, num_before: int) -> tuple[Int[Tensor, " keys"], Int[Tensor, " keys"]]:
        """What the bits are stirred with, for many masks at once: for one it costs as much."""
        numbers = torch.arange(1, KEYS_AT_ONCE + 1, device=self._start.device) + num_before
        keys = _scramble(self._start + numbers * GOLDEN)
        # Both by keys: with a factor that is always the same, masks of different keys are correlated.
        return _as_signed(keys), _as_signed(_scramble(keys + GOLDEN) | 1)


def _mask(
    values: Float[Tensor, "*shape"], rate: Float[Tensor, ""], flip: Int[Tensor, ...], factor: Int[Tensor, ...]
) -> Float[Tensor, ...]:
    """What `values` are multiplied with: zero, or what makes up for the zeros."""
    stirred = (_random_bits(values.numel(), values.device).view(values.shape) ^ flip) * factor
    # The shift copies the sign, so this is never negative: a uniform number below 2^31.
    uniform = stirred ^ (stirred >> 15)
    is_kept = uniform >= (rate * 2.0**31).to(torch.int64)
    return is_kept * (1.0 / (1.0 - rate)).to(values.dtype)


def _scramble(key: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
    """A number of 32 bits that looks random, from any number."""
    key = key & ALL_BITS
    key = ((key ^ (key >> 16)) * STIR) & ALL_BITS
    key = ((key ^ (key >> 15)) * STIR_AGAIN) & ALL_BITS
    return key ^ (key >> 16)


def _as_signed(key: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
    """The same bits as a signed number of 32 bits, which is what the large tensors hold."""
    return torch.where(key > ALL_BITS // 2, key - (ALL_BITS + 1), key).to(torch.int32)


@lru_cache(maxsize=16)
def _random_bits(count: int, device: torch.device) -> Int[Tensor, " count"]:
    """Random numbers of 32 bits, always the same for a size."""
    # NumPy draws them: `vmap`, under which this may be called first, knows no generators of torch.
    bits = np.random.default_rng(count).integers(-(2**31), 2**31, count, dtype=np.int32)
    return torch.from_numpy(bits).to(device)


class PassDropout:
    """The dropout of one forward pass; without a stream, in evaluation mode, it changes nothing.

    Args:
        stream: The masks of this pass.
        outer_rate: Part of the input, and of what a readout gets, that is dropped.
        hidden_rate: Part of what lies between that is dropped.
    """

    def __init__(
        self, stream: DropoutStream | None, outer_rate: Float[Tensor, ""], hidden_rate: Float[Tensor, ""]
    ) -> None:
        self._stream, self._outer_rate, self._hidden_rate = stream, outer_rate, hidden_rate

    def input(self, features: SparseMatrix | Tensor) -> SparseMatrix | Tensor:
        """Drop of the input. A zero that is dropped stays zero, so only the entries of a sparse matrix matter."""
        if isinstance(features, SparseMatrix):
            return features.with_values(self.outer(features.values)) if self._stream else features
        return self.outer(features)

    def outer(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop at the outer rate."""
        return self._stream.drop(values, self._outer_rate) if self._stream else values

    def hidden(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop at the hidden rate."""
        return self._stream.drop(values, self._hidden_rate) if self._stream else values
