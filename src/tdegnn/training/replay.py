"""Steps replayed as CUDA graphs: recorded once, then launched as one piece.

A step of small networks is hundreds of operations, each of which takes longer to launch than to compute.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Steps that run plainly before one is recorded: libraries set themselves up in the first.
NUM_WARM_UP = 3


@contextmanager
def _nothing_deleted() -> Iterator[None]:
    """Collect no garbage meanwhile: an earlier record that is deleted while a new one is made spoils it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Replayed:
    """A function without arguments that reads and writes fixed tensors; on a CUDA device it is recorded and replayed.

    Args:
        run: The function. What it returns is ignored.
        device: Where its tensors are.
    """

    def __init__(self, run: Callable[[], object], device: torch.device) -> None:
        self._run, self._device = run, device
        self._num_calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run once."""
        if self._device.type != "cuda":
            self._run()
            return
        self._num_calls += 1
        if self._num_calls <= NUM_WARM_UP:
            self._warm_up()
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with _nothing_deleted(), torch.cuda.graph(self._graph):
                self._run()
        self._graph.replay()

    def _warm_up(self) -> None:
        # Recording needs another stream than the usual one, and so do the steps that prepare it.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._run()
        torch.cuda.current_stream().wait_stream(side)
