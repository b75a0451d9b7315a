"""Processes that begin in milliseconds: a server imports the library once, and each process is forked from it.

For tests of what processes do together or after each other, not of how one starts: imports take seconds each time.
Shapes are not checked in them, as in a process of a user.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = ["tests.preloaded"]


class Forked:
    """A process that runs code, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, code, *arguments, folder=ROOT, **environment):
        self._written = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        known = dict(os.environ, OMP_NUM_THREADS="1", **environment)
        self._process = context.Process(
            target=_run, args=(code, [*map(str, arguments)], str(folder), known, self._written.name)
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def wait_for_a_line(self, timeout=120):
        """Wait until it has printed a line."""
        began = time.monotonic()
        while "\n" not in self._read("out"):
            assert self.poll() is None, self.communicate()
            assert time.monotonic() - began < timeout
            time.sleep(0.01)

    def communicate(self, timeout=None):
        """Wait for its end. Return what it printed, and what it complained about."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise subprocess.TimeoutExpired("a forked process", timeout)
        texts = self._read("out"), self._read("err")
        self._written.cleanup()
        return texts

    def _read(self, name):
        path = Path(self._written.name) / name
        return path.read_text() if path.exists() else ""


def _run(code, arguments, folder, environment, written):
    for number, name in enumerate(("out", "err"), start=1):
        with (Path(written) / name).open("w") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, str(ROOT))
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
