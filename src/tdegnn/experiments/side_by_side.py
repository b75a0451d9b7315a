"""Cells of a table, computed by several processes that share a device. Each process adds whole cells to the same files.

One training of a small graph leaves most of a GPU idle. A dozen at once take a third of the time that they take one
after the other (on an H200, with NVIDIA's multi-process service running).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

import torch


def compute_cells(
    compute: Callable[..., None],
    cells: Sequence[tuple[Any, ...]],
    num_workers: int,
    on_cell: Callable[[tuple[Any, ...]], None] = lambda _: None,
) -> None:
    """Call `compute(*cell)` for each cell. The first error ends it, after the cells that are being computed.

    Args:
        compute: A function of a module, which a new process can import.
        cells: The arguments of each call.
        num_workers: Number of processes. With 1, all is computed in this process.
        on_cell: Called with each cell that is done, for a progress bar.
    """
    if num_workers == 1:
        for cell in cells:
            compute(*cell)
            on_cell(cell)
        return
    # Not forked: a process with a CUDA context cannot be.
    with ProcessPoolExecutor(num_workers, mp_context=get_context("spawn"), initializer=_use_one_thread) as pool:
        futures = {pool.submit(compute, *cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                future.result()
                on_cell(futures[future])
        finally:
            pool.shutdown(cancel_futures=True)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
