"""Processes killed or interrupted at random moments, and killed at random file operations.

What is begun again must end as if undisturbed.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

from tests.faults.nursery import Attempt, Fault, nursery
from tests.faults.works import WORKS, Work, compare, describe_end, run_well, undisturbed, with_fault

KINDS = tuple(WORKS)
INTERRUPTED = ("fit", "classify", "reproduce", "sweep, journal")
IN_DATABASES = ("sweep, sqlite", "sweep, PostgreSQL")


def kill_and_compare(kind: str, seed: int, folder: Path) -> str:
    """Kill a work once or twice, finish it, and compare its result with that of an undisturbed one.

    Args:
        kind: A name in `KINDS`.
        seed: Even seeds kill at a random moment, odd ones in a random file operation. What a database does is not
            counted, so it is always killed at a random moment.
        folder: An empty folder.

    Returns:
        "same". What is lost, different or said in a traceback raises an AssertionError.
    """
    work, draw = WORKS[kind], random.Random(f"{kind} {seed}")
    undisturbed(kind)
    work.prepare(folder)
    begin = work.begin
    for _ in range(draw.choice((1, 1, 2))):
        _kill(kind, work, begin, folder, draw, at_operation=seed % 2 == 1 and kind not in IN_DATABASES)
        work.check(folder)
        begin = work.finish
    run_well(work.finish(folder))
    compare(work.result(folder), undisturbed(kind).result)
    return "same"


def interrupt_and_compare(kind: str, seed: int, folder: Path) -> str:
    """Interrupt a command as Ctrl-C does, finish it, and compare its result with that of an undisturbed one.

    Args:
        kind: A name in `INTERRUPTED`.
        seed: Chooses the moment.
        folder: An empty folder.

    Returns:
        "same".
    """
    work, draw = WORKS[kind], random.Random(f"{kind} {seed}")
    # Not in the first moments, before the command line has begun.
    moment = undisturbed(kind).seconds * draw.uniform(0.05, 1)
    fault = Fault(kill_after=moment, signal=signal.SIGINT)
    (outcome,) = nursery().run(with_fault(work.begin(folder), fault))
    if outcome.code:
        assert outcome.code == 130, f"ended with {outcome.code}: {describe_end(outcome)}"
        is_one_line = outcome.err.startswith("Interrupted.") and outcome.err.count("\n") == 1
        assert is_one_line, f"complained in another way than in one line: {describe_end(outcome)}"
    run_well(work.finish(folder))
    compare(work.result(folder), undisturbed(kind).result)
    return "same"


def _kill(
    kind: str,
    work: Work,
    begin: Callable[[Path], Attempt],
    folder: Path,
    draw: random.Random,
    *,
    at_operation: bool,
) -> None:
    """Kill a process. One that was resumed may end sooner than expected."""
    known = undisturbed(kind)
    share = draw.random()
    for _ in range(8):
        if at_operation:
            fault = Fault(kill_at=1 + int(share * known.num_operations))
        else:
            fault = Fault(kill_after=share * known.seconds)
        (outcome,) = nursery().run(with_fault(begin(folder), fault))
        if outcome.was_killed:
            return
        assert outcome.code == 0, f"ended with {outcome.code}: {outcome.err[-300:]}"
        share /= 2
        begin = work.finish
