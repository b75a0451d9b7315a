"""Start processes as `torchrun` does, on this machine, and find them."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def start_together(*command, num_processes=2, folder=None):
    """Start a script, or `-m` and a module, in several processes of one thread."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(SOURCE))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*launcher, *command], cwd=folder, env=environment, **pipes)


def run_together(*command, num_processes=2, folder=None):
    """Wait for the processes. Return what they printed."""
    started = start_together(*command, num_processes=num_processes, folder=folder)
    printed, complaints = started.communicate(timeout=300)
    assert started.returncode == 0, complaints
    return printed


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
