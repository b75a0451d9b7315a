"""Start processes as `torchrun` does, on this machine, and find them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.forked import Forked

SOURCE = Path(__file__).parents[1] / "src"


def start_together(*command, num_processes=2, folder=None):
    """Start a script, or `-m` and a module, in several processes of one thread."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(SOURCE))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*launcher, *command], cwd=folder, env=environment, **pipes)


def run_together(code, *arguments, num_processes=2, longest=300):
    """Run code in several processes that see what `torchrun` tells them. Return what they printed.

    After `longest` seconds they are killed. They start without `torchrun` and its imports. Tests of what it does when
    one ends use `start_together`.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    known = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "none"}
    known |= {"WORLD_SIZE": str(num_processes), "LOCAL_WORLD_SIZE": str(num_processes)}
    started = [Forked(code, *arguments, **known, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(num_processes)]
    ended = [process.communicate(timeout=longest) for process in started]
    assert [process.returncode for process in started] == [0] * num_processes, ended
    return "".join(printed for printed, _ in ended)


def find_process(launcher, rank):
    """Return the id of the process of this rank. None if it is not there yet."""
    for folder in Path("/proc").iterdir():
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher.pid and f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
        except (OSError, IndexError, ValueError):  # no process, or one that has ended
            continue
    return None
