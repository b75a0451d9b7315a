"""Cells of a table, computed by several processes that share a device. Each process adds whole cells to the same files.

One training of a small graph leaves most of a GPU idle. A dozen at once take a third of the time that they take one
after the other (on an H200, with NVIDIA's multi-process service running).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
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
    with _new_pool(num_workers) as pool:
        futures = {pool.submit(compute, *cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                future.result()
                on_cell(futures[future])
        finally:
            pool.shutdown(cancel_futures=True)


def compute_open_cells(
    compute: Callable[..., None],
    find_open: Callable[[], Sequence[tuple[Any, ...]]],
    num_workers: int,
    on_cell: Callable[[tuple[Any, ...]], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Call `compute(*cell)` for cells that open one after the other, until no cell is open.

    No cell is begun twice. An error ends nothing else: the first one is raised when all others are done.

    Args:
        compute: A function of a module, which a new process can import.
        find_open: Returns the cells that can be computed now, the most urgent first, as soon as another cell is done.
            Those that are being computed may be among them.
        num_workers: Number of processes. With 1, all is computed in this process.
        on_cell: Called with each cell that is done, for a progress bar.
        is_over: Whether no more cells are to be begun.
    """
    begun: set[tuple[Any, ...]] = set()
    errors: list[BaseException] = []
    running: dict[Future[None], tuple[Any, ...]] = {}
    with _Here() if num_workers == 1 else _new_pool(num_workers) as pool:
        while True:
            cells = [] if is_over() else [cell for cell in find_open() if cell not in begun]
            for cell in cells[: num_workers - len(running)]:
                running[pool.submit(compute, *cell)] = cell
                begun.add(cell)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell, error = running.pop(future), future.exception()
                if error is None:
                    on_cell(cell)
                else:
                    errors.append(error)
    if errors:
        raise errors[0]


class _Here(Executor):
    """Computes in this process."""

    def submit(self, compute: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(compute(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


def _new_pool(num_workers: int) -> ProcessPoolExecutor:
    # Not forked: a process with a CUDA context cannot be.
    return ProcessPoolExecutor(num_workers, mp_context=get_context("spawn"), initializer=_use_one_thread)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
