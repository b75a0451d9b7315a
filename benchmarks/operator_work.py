"""Count what a step does: operations by kind, and the bytes of the tensors that they read and write.

Operations are counted below autograd and `vmap`, as a recorded step repeats them, on a CPU. On a CUDA device, kernels
do some of them together. Views take no time and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DENSE, SPARSE = "dense products", "products with the graph"
INDEXED, OTHER = "operations by index", "other operations"
KINDS = (DENSE, SPARSE, INDEXED, OTHER)
# They only find memory.
ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
# Of the tensor that they get, they read only what it is like.
FILLS = ("new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
# They read or write what indices name: inner products for each entry, copies to entries, sums and maxima by row.
BY_INDEX = ("sparse_sampled_addmm", "index", "index_select", "gather", "index_add", "index_put", "_index_put_impl_")


@dataclass
class Work:
    """Operations of a kind, the bytes that they read and write, and the multiplications and additions of products."""

    operations: int = 0
    num_bytes: int = 0
    arithmetic: int = 0


def count_work(run: Callable[[], object]) -> dict[str, Work]:
    """Return what the operations inside a call do, by kind."""
    with _Counter() as counter:
        run()
    return counter.work


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.work = {kind: Work() for kind in KINDS}

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = operation(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        results = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        name = operation.overloadpacket.__name__
        kind = kind_of(name, given)
        # A sparse matrix that is made of tensors is a view of them. Inner products for each entry are not.
        is_made_of_others = kind == OTHER and all(leaf.layout is not torch.strided for leaf in results)
        is_view = operation.is_view or is_made_of_others
        if results and not is_view and name not in ALLOCATIONS:
            work = self.work[kind]
            work.operations += 1
            if kind == DENSE:
                # The last two tensors are the factors.
                work.arithmetic += 2 * results[0].numel() * given[-2].shape[-1]
            work.num_bytes += sum(map(_bytes_of, [*(() if name in FILLS else given), *results]))
        return made


def kind_of(name: str, given: Sequence[Tensor]) -> str:
    """Return the kind of an operation on these tensors."""
    if name in BY_INDEX or name.startswith("scatter"):
        return INDEXED
    if name not in PRODUCTS:
        return OTHER
    return DENSE if all(leaf.layout is torch.strided for leaf in given) else SPARSE


def _bytes_of(tensor: Tensor) -> int:
    if tensor.layout is torch.sparse_csr:
        return sum(map(_bytes_of, (tensor.crow_indices(), tensor.col_indices(), tensor.values())))
    # An expanded tensor is read from fewer bytes than it has numbers.
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
