"""Steps recorded once and then repeated: as a CUDA graph, launched as one piece, or on a CPU as a list of operations.

A step of small networks is hundreds of operations, each of which takes longer to launch than to compute.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakMethod

import torch

from tdegnn.training.tape import Tape

# Steps that run plainly before one is recorded: libraries set themselves up in the first.
NUM_WARM_UP = 3


class Replayed:
    """A method without arguments that reads and writes fixed tensors; it is recorded and replayed.

    Args:
        run: The method. What it returns is ignored. Its object is not kept alive by this.
        device: Where its tensors are.
    """

    def __init__(self, run: Callable[[], None], device: torch.device) -> None:
        # Else it, and all that is recorded, would stay until garbage is collected, which does not see how large it is.
        self._method = WeakMethod(run)
        self._record = _CudaRecord() if device.type == "cuda" else _CpuRecord()
        self._num_calls = 0

    def __call__(self) -> None:
        """Run once."""
        run = self._method()
        assert run is not None  # its object has this one
        self._num_calls += 1
        if self._num_calls <= NUM_WARM_UP:
            self._record.warm_up(run)
        else:
            self._record.repeat(run)


class _CpuRecord:
    """A tape, if what is on it was found to do what the function does."""

    def __init__(self) -> None:
        self._tape: Tape | None = None
        self._is_recorded = self._is_checked = False

    def warm_up(self, run: Callable[[], object]) -> None:
        run()

    def repeat(self, run: Callable[[], object]) -> None:
        if not self._is_recorded:
            self._tape, self._is_recorded = Tape.record(run), True
        elif self._tape is None:
            run()
        elif not self._is_checked:
            self._is_checked = True
            if not self._tape.agrees_with(run):
                self._tape = None
        else:
            self._tape.play()


class _CudaRecord:
    """A CUDA graph."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None

    def warm_up(self, run: Callable[[], object]) -> None:
        # Recording needs another stream than the usual one, and so do the steps that prepare it.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)

    def repeat(self, run: Callable[[], object]) -> None:
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with _nothing_deleted(), torch.cuda.graph(self._graph):
                run()
        self._graph.replay()


@contextmanager
def _nothing_deleted() -> Iterator[None]:
    """Collect no garbage meanwhile: an earlier record that is deleted while a new one is made spoils it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
