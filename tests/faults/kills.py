"""Processes killed or interrupted at random moments, and killed at random file operations.

What is begun again must end as if undisturbed.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.faults.nursery import Fault, Outcome, nursery
from tests.faults.works import WORKS, Work, compare, describe_end, run_well, undisturbed, with_fault

KINDS = tuple(WORKS)
INTERRUPTED = ("fit", "classify", "reproduce", "sweep, journal")
# How often what was killed and begun again is killed once more.
KILLED_TWICE = 0.3
MOST_TRIES = 8
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
    work, draw, known = WORKS[kind], random.Random(f"{kind} {seed}"), undisturbed(kind)
    at_operation = seed % 2 == 1 and kind not in IN_DATABASES

    def fault_at(share: float) -> Fault:
        if at_operation:
            return Fault(kill_at=1 + int(share * known.num_operations))
        return Fault(kill_after=share * known.seconds)

    place, outcome = _begin_until_hit(work, folder, draw.random(), fault_at)
    assert outcome.was_killed, f"ended with {outcome.code}: {describe_end(outcome)}"
    work.check(place)
    if draw.random() < KILLED_TWICE:
        (second,) = nursery().run(with_fault(work.finish(place), fault_at(draw.random())))
        assert second.was_killed or second.code == 0, f"ended with {second.code}: {describe_end(second)}"
        work.check(place)
    return _finish(kind, place)


def interrupt_and_compare(kind: str, seed: int, folder: Path) -> str:
    """Interrupt a command as Ctrl-C does, finish it, and compare its result with that of an undisturbed one.

    Args:
        kind: A name in `INTERRUPTED`.
        seed: Chooses the moment.
        folder: An empty folder.

    Returns:
        "same".
    """
    work, draw, known = WORKS[kind], random.Random(f"{kind} {seed}"), undisturbed(kind)

    def fault_at(share: float) -> Fault:
        return Fault(kill_after=share * known.seconds, signal=signal.SIGINT)

    # Not in the first moments, before the command line has begun.
    place, outcome = _begin_until_hit(work, folder, draw.uniform(0.1, 1), fault_at)
    assert outcome.code == 130, f"ended with {outcome.code}: {describe_end(outcome)}"
    is_one_line = outcome.err.startswith("Interrupted.") and outcome.err.count("\n") == 1
    assert is_one_line, f"complained in another way than in one line: {describe_end(outcome)}"
    return _finish(kind, place)


def _begin_until_hit(
    work: Work, folder: Path, share: float, fault_at: Callable[[float], Fault]
) -> tuple[Path, Outcome]:
    """Begin a work with a fault. If it ends before that, begin it elsewhere, with an earlier fault.

    Args:
        work: The work.
        folder: An empty folder.
        share: When the fault comes, as a share of what an undisturbed work does.
        fault_at: Returns the fault for a share.

    Returns:
        Where the work was begun, and how it ended.
    """
    for number in count():
        place = folder / str(number)
        place.mkdir()
        work.prepare(place)
        (outcome,) = nursery().run(with_fault(work.begin(place), fault_at(share)))
        if outcome.code or number == MOST_TRIES:
            break
        share *= 0.7
    return place, outcome


def _finish(kind: str, place: Path) -> str:
    run_well(WORKS[kind].finish(place))
    compare(WORKS[kind].result(place), undisturbed(kind).result)
    return "same"
