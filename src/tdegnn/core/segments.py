"""Layers in segments, for a backward pass in less memory: activation checkpointing.

Without segments, the backward pass needs what every layer computed. With them, only the history at the border of each
segment is kept, and the layers of a segment are computed again when the backward pass reaches it. With segments of
about `sqrt(L)` layers, memory grows as `sqrt(L)` instead of L, for one more forward pass. The numbers are the same.
`integrate` has the loop over layers; here is where it is cut, and what a second computation must see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar

from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from tdegnn.errors import InputError
from tdegnn.torch_internals import TRANSFORMS, transform_level

# Layers per segment: a number, about the root of the number of layers, or all layers in one.
SegmentLength: TypeAlias = int | Literal["auto"] | None

Result = TypeVar("Result")


def cut_into_segments(num_layers: int, segment_length: int | Literal["auto"]) -> Iterator[range]:
    """Yield the numbers of the layers of each segment. The last one may be shorter."""
    length = round(math.sqrt(num_layers)) if segment_length == "auto" else segment_length
    for first in range(0, num_layers, length):
        yield range(first, min(first + length, num_layers))


class Recomputation:
    """Calls functions whose intermediate results are not kept, but computed again in the backward pass.

    Args:
        parts: The modules that the functions use. In the backward pass they get the parameters that they have now
            again: `torch.func.functional_call` gives them others, but for the forward pass only.
    """

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        if TRANSFORMS.opens() and transform_level() is not None:
            raise InputError(
                "Expected segments of layers outside of torch.func.vmap and grad, got some inside. Leave out "
                "segment_length, or compute one network after another."
            )
        self._parts = _Parts(parts)
        self._parameters = dict(self._parts.named_parameters())

    def __call__(self, run: Callable[..., Result], *inputs: Any) -> Result:
        """Return `run(*inputs)`. It must compute the same if it is called again."""
        buffers = {name: buffer.clone() for name, buffer in self._parts.named_buffers()}
        is_again = False

        def compute(*inputs: Any) -> Result:
            nonlocal is_again
            if not is_again:
                is_again = True
                return run(*inputs)
            # Copies, which may move: those of batch norm have moved already, and a graph that is retained may be
            # computed again more than once.
            before = {name: buffer.clone() for name, buffer in buffers.items()}
            again: Result = functional_call(self._parts, self._parameters | before, (run, *inputs))
            return again

        result: Result = checkpoint(compute, *inputs, use_reentrant=False)
        return result


class _Parts(nn.Module):
    """The modules that functions use. Functions are called by it, since `functional_call` calls modules only."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(dict.fromkeys(parts))

    def forward(self, run: Callable[..., Result], *inputs: Any) -> Result:
        """Return `run(*inputs)`."""
        return run(*inputs)
