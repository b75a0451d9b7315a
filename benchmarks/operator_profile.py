"""Where the time of a step goes on a CPU: the share of each operation, by torch's profiler.

Operations are those that `operator_work` counts, below autograd and `vmap`. What Python does between them is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.operator_work import ALLOCATIONS, DENSE, SPARSE, kind_of

MARK = "operation: "
OF_KIND = {DENSE: " (dense)", SPARSE: " (graph)"}


def time_shares(run: Callable[[], object], repetitions: int = 5) -> tuple[dict[str, float], dict[str, float]]:
    """Return the shares in the time of all operations inside a call: by kind, and by name from the largest on."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler, _Marked():
        for _ in range(repetitions):
            run()
    by_kind, by_name = Counter[str](), Counter[str]()
    for event in profiler.key_averages():
        if event.key.startswith(MARK):
            kind, _, name = event.key.removeprefix(MARK).partition(": ")
            by_kind[kind] += event.cpu_time_total
            by_name[name + OF_KIND.get(kind, "")] += event.cpu_time_total
    total = sum(by_kind.values())
    return (
        {kind: time / total for kind, time in by_kind.items()},
        {name: time / total for name, time in by_name.most_common()},
    )


class _Marked(TorchDispatchMode):
    """Names each operation for the profiler, with all that it calls."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = operation.overloadpacket.__name__
        if operation.is_view or name in ALLOCATIONS:
            return operation(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        with record_function(f"{MARK}{kind_of(name, given)}: {name}"):
            return operation(*args, **(kwargs or {}))


def in_one_thread(run: Callable[[], object]) -> tuple[dict[str, float], dict[str, float]]:
    """Return `time_shares` of a call with one thread."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run()  # what is kept for the graph does not count
        return time_shares(run)
    finally:
        torch.set_num_threads(num_threads)
