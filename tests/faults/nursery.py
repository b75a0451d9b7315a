"""Processes that begin in milliseconds, so that hundreds of them can be killed.

A nursery is a process that has imported everything once and then forks a child per attempt. A child does a task of
`tests/faults/tasks.py` with the faults that it is given. Children of one call begin at the same moment.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
LIMIT = 120.0
# The file that the server of the tests has.
SAMPLE = "numbers.bin"
CRASHED = 70
STREAMS = ("out", "err", "report")
# Read by tasks that say what they are doing while they do it.
REPORT = 3


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a process.

    Attributes:
        kill_after: Seconds after which it is killed, or gets the signal.
        signal: The signal. Default: SIGKILL.
        kill_at: Number of the file operation in the middle of which it is killed.
        full_from: Number of the growing file operation from which the disk is full.
        largest_file: The most bytes that a file may have.
        delay: Seconds after which it begins.
    """

    kill_after: float | None = None
    signal: int = signal.SIGKILL
    kill_at: int | None = None
    full_from: int | None = None
    largest_file: int | None = None
    delay: float = 0.0


@dataclass(frozen=True)
class Attempt:
    """A task for a process: the name of a function in `tasks.py`, its arguments, and a fault."""

    task: str
    arguments: dict[str, Any]
    fault: Fault = Fault()


@dataclass(frozen=True)
class Outcome:
    """How a process ended.

    Attributes:
        code: Its exit code; the negative number of a signal that killed it.
        out: What it printed.
        err: What it complained about.
        report: What its task reported, line by line.
        seconds: How long it took.
        is_stuck: Whether it was killed because it took too long.
    """

    code: int
    out: str
    err: str
    report: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    is_stuck: bool = False

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.is_stuck

    @property
    def counts(self) -> dict[str, int]:
        """The file operations of a process that came to its end."""
        return {name: count for line in self.report if isinstance(line, dict) for name, count in line.items()}


class Nursery:
    """The side of the nursery that asks."""

    def __init__(self) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            # No bars and no colors, whatever the terminal.
            "NO_COLOR": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            text=True,
        )

    def run(self, *attempts: Attempt, limit: float = LIMIT) -> list[Outcome]:
        """Let the attempts begin at the same moment, and wait for all of them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"attempts": [asdict(attempt) for attempt in attempts], "limit": limit}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery ended"
        return [Outcome(**outcome) for outcome in json.loads(answer)]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@cache
def nursery() -> Nursery:
    """Return the nursery of this process. It ends with it."""
    started = Nursery()
    atexit.register(started.close)
    return started


def report(line: Any) -> None:
    """Tell the nursery something, from a child. It arrives even if the child is killed afterwards."""
    os.write(REPORT, (json.dumps(line) + "\n").encode())


# The side of the nursery that forks.


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        attempts = [(each["task"], each["arguments"], Fault(**each["fault"])) for each in request["attempts"]]
        outcomes = _run(attempts, request["limit"])
        answers.write(json.dumps(outcomes) + "\n")
        answers.flush()


def _warm_up() -> None:
    """Import everything. Nothing is computed: threads of torch would not survive a fork."""
    import matplotlib.pyplot  # noqa: F401
    import optuna.storages.journal  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.sparse.linalg  # noqa: F401
    import sqlalchemy.dialects.sqlite  # noqa: F401
    import torch

    from tests.everything import import_everything

    import_everything()
    importlib.import_module("tests.faults.tasks")
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def _run(attempts: list[tuple[str, dict[str, Any], Fault]], limit: float) -> list[dict[str, Any]]:
    gate_out, gate_in = os.pipe()
    children = [_start(*attempt, gate_out, gate_in) for attempt in attempts]
    os.close(gate_out)
    os.close(gate_in)  # the children wait for this
    begun = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for child in children:
            for name, descriptor in child.pipes.items():
                selector.register(descriptor, selectors.EVENT_READ, (child, name))
        while selector.get_map():
            now = time.monotonic() - begun
            for child in children:
                child.kill_if_due(now, limit)
            waits = [child.next_kill(limit) - now for child in children if child.is_open]
            for key, _ in selector.select(max(min(waits), 0.0)):
                child, name = key.data
                data = os.read(key.fd, 1 << 16)
                child.received[name] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del child.pipes[name]
                    child.seconds = time.monotonic() - begun
    return [child.outcome() for child in children]


class _Child:
    """A child, seen from the nursery."""

    def __init__(self, process: int, pipes: dict[str, int], fault: Fault) -> None:
        self.process, self.pipes = process, pipes
        self._kill_after, self._signal = fault.kill_after, fault.signal
        self.received = dict.fromkeys(pipes, b"")
        self.seconds = 0.0
        self._is_stuck = False

    @property
    def is_open(self) -> bool:
        return bool(self.pipes)

    def next_kill(self, limit: float) -> float:
        return limit if self._kill_after is None else self._kill_after

    def kill_if_due(self, now: float, limit: float) -> None:
        if self.is_open and now >= self.next_kill(limit):
            self._is_stuck = self._kill_after is None
            os.kill(self.process, signal.SIGKILL if self._is_stuck else self._signal)
            self._kill_after = None

    def outcome(self) -> dict[str, Any]:
        _, status = os.waitpid(self.process, 0)
        out, err, report = (self.received[name].decode("utf-8", "replace") for name in STREAMS)
        # A killed child may leave an incomplete last line.
        lines = [json.loads(line) for line in report.split("\n")[:-1]]
        code = os.waitstatus_to_exitcode(status)
        return asdict(Outcome(code, out, err, lines, self.seconds, self._is_stuck))


def _start(task: str, arguments: dict[str, Any], fault: Fault, gate_out: int, gate_in: int) -> _Child:
    pipes = {name: os.pipe() for name in STREAMS}
    process = os.fork()
    if process == 0:
        os.close(gate_in)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Above all numbers that are in use, so that none is overwritten before it is copied.
        ends = [os.dup(pipes[name][1]) for name in STREAMS]
        gate = os.dup(gate_out)
        for number, end in enumerate(ends, start=1):
            os.dup2(end, number)
        os.read(gate, 1)
        os.closerange(REPORT + 1, 1024)
        _be_child(task, arguments, fault)
    for _, end in pipes.values():
        os.close(end)
    return _Child(process, {name: end for name, (end, _) in pipes.items()}, fault)


def _be_child(task: str, arguments: dict[str, Any], fault: Fault) -> NoReturn:
    from tdegnn.errors import TdegnnError
    from tests.faults import tasks
    from tests.faults.injected import FileOperations

    code = 0
    operations = FileOperations(fault.kill_at, fault.full_from)
    try:
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in background jobs of a shell
        time.sleep(fault.delay)
        write = os.write
        if fault.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.largest_file, fault.largest_file))
        operations.install()
        try:
            getattr(tasks, task)(**arguments)
        finally:
            counts = {"operations": operations.count, "growing": operations.num_growing}
            write(REPORT, (json.dumps(counts) + "\n").encode())
    except TdegnnError as error:  # as the command line does
        print(f"Error: {error}", file=sys.stderr)
        code = 2
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = CRASHED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
