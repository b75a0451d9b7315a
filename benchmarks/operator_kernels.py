"""Where the time of a step goes on a CUDA device: its kernels, by kind and by name, as the recorded step repeats them.

What is left of the time of a step is between kernels: a step of many small ones is bound by that, not by their work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.operator_work import DENSE, INDEXED, OTHER, SPARSE

# Parts of the names of kernels, in small letters. The first that is found counts: names may hold several.
PARTS = {
    INDEXED: ("sddmm", "sampled", "index", "scatter", "gather"),
    SPARSE: ("cusparse", "spmm", "csr", "_multiply_row"),
    DENSE: ("gemm", "gemv", "cutlass", "cublas", "xmma", "splitk"),
}
# What fills and copies without a kernel of its own begins so.
MEMORY = ("Memcpy", "Memset")
LONGEST_NAME = 40


@dataclass
class Kernels:
    """The kernels of a step.

    Attributes:
        microseconds: Their time, by kind.
        counts: Their number, by kind.
        by_name: Their time, by short name.
    """

    microseconds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    by_name: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, measured: Iterable[tuple[str, float]], repetitions: int) -> Kernels:
        """Add up kernels, given as names and microseconds, of a step that was repeated."""
        kernels = cls()
        for name, microseconds in measured:
            kind = kind_of_kernel(name)
            kernels.microseconds[kind] += microseconds / repetitions
            kernels.counts[kind] += 1 / repetitions
            kernels.by_name[short_name(name)] += microseconds / repetitions
        return kernels

    @property
    def total(self) -> float:
        """Microseconds of all kernels."""
        return sum(self.microseconds.values())


def profile_kernels(step: Callable[[], None], repetitions: int = 10) -> Kernels:
    """Return the kernels of a step on a CUDA device that waits for its end."""
    step()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(repetitions):
            step()
    on_device = [event for event in profiler.events() if event.device_type is DeviceType.CUDA]
    return Kernels.of([(event.name, event.time_range.elapsed_us()) for event in on_device], repetitions)


def kind_of_kernel(name: str) -> str:
    """Return the kind of work of a kernel."""
    lowered = name.lower()
    for kind, parts in PARTS.items():
        if any(part in lowered for part in parts):
            return kind
    return OTHER


def short_name(name: str) -> str:
    """Return the name of a kernel without namespaces, types and arguments. Kernels of torch keep what they compute."""
    if name.startswith(MEMORY):
        return name.partition(" ")[0]
    named = re.search(r"(\w*(?:Functor\w*|_kernel_cuda|_kernel_impl|Op))\b", name)
    plain = re.sub(r"<.*|\(.*", "", name.removeprefix("void ")).rpartition("::")[2]
    is_general = plain in ("vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "elementwise_kernel")
    return (named[1] if named and is_general else plain)[:LONGEST_NAME]
