"""The memory that a step takes at its peak, beside what is there before it.

On a CUDA device the allocator knows. On a CPU, tensors are counted as operations make them and as they are freed, which
gives the same number on every machine, however busy. What a library allocates for itself inside an operation is not
seen there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Return how many bytes of tensors a call needs at its peak, beside those that exist before it."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with TensorCount() as count:
        run()
    return count.peak


class TensorCount(TorchDispatchMode):
    """Counts the bytes of tensors that operations make inside the `with` block.

    Attributes:
        now: Bytes of tensors made inside the block that still exist.
        peak: The most that this was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and count what it makes."""
        given = {_storage(leaf)[0] for leaf in tree_leaves((args, kwargs)) if _is_dense(leaf)}
        made = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            # A view, or the result of writing in place, is in memory that was there before.
            if _is_dense(leaf) and (key := _storage(leaf)[0]) not in given | self._seen:
                storage = leaf.untyped_storage()
                self._seen.add(key)
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._forget, key, storage.nbytes())
        return made

    def _forget(self, key: int, num_bytes: int) -> None:
        self._seen.discard(key)
        self.now -= num_bytes


def saved_bytes(run: Callable[[], Tensor], kept: Sequence[Tensor] = ()) -> int:
    """Return the bytes of all tensors that autograd saves in a forward pass, each counted once.

    Args:
        run: The forward pass. What it returns is kept until the count is over.
        kept: Tensors that do not count, such as weights and the graph.
    """
    known = dict(map(_storage, kept))
    found: dict[int, int] = {}
    alive = []  # an address may be used again only after its tensor is freed

    def pack(tensor: Tensor) -> Tensor:
        if _is_dense(tensor) and _storage(tensor)[0] not in known:
            alive.append(tensor)
            found.update([_storage(tensor)])
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive.append(run())
    return sum(found.values())


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided


def _storage(tensor: Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage._cdata, storage.nbytes()
