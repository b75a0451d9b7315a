"""A process of several that is killed ends all of them with one line, and a resume goes on."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest

from tests.pages import ROOT
from tests.torchrun import find_process, start_together

pytestmark = pytest.mark.slow
FIT = ("-m", "tdegnn", "fit", "cases.csv", "--edges", "borders.csv", "--network", "walks", "--device", "cpu")
LONG = ("--steps", "200", "--patience", "200")
CLASSIFY = ("-m", "tdegnn", "classify", "--features", "features.csv", "--labels", "labels.csv", "--edges", "edges.csv")
BATCHES = ("--batches", "partitions", "--batches-set", "num_parts=8", "--batches-set", "parts_per_batch=1")
SHARED = (
    *BATCHES,
    "--batches-set",
    "batches_per_step=4",
    "--network",
    "diffusion",
    "--no-baselines",
    "--device",
    "cpu",
)
LONG_TOO = ("--steps", "400", "--patience", "400")


@pytest.fixture
def folder(tmp_path):
    for name in ("cases.csv", "borders.csv"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def wait_for(is_there, launcher):
    began = time.monotonic()
    while not (found := is_there()):
        assert launcher.poll() is None, launcher.communicate()
        assert time.monotonic() - began < 120
        time.sleep(0.05)
    return found


def own_lines(complaints):
    """What our processes said: neither progress nor the words of torchrun."""
    return [line for line in complaints.splitlines() if line.startswith(("Error:", "Terminated", "Interrupted"))]


def check_killed(launcher, folder, rank):
    """Kill a process of two that are training. All of them end, with one line."""
    wait_for((folder / "run" / "checkpoint.safetensors").exists, launcher)
    others = [find_process(launcher, other) for other in (0, 1)]
    os.kill(others[rank], signal.SIGKILL)
    killed_at = time.monotonic()
    printed, complaints = launcher.communicate(timeout=60)
    assert time.monotonic() - killed_at < 30
    assert launcher.returncode != 0
    assert printed == ""
    (line,) = own_lines(complaints)
    assert "--resume" in line
    assert "Fatal" not in complaints
    assert not any(os.path.exists(f"/proc/{process}") for process in others)  # noqa: PTH110
    assert not (folder / "run" / "summary.json").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_all_with_one_line_and_a_resume_goes_on(folder, rank):
    check_killed(start_together(*FIT, *LONG, "--out", "run", folder=folder), folder, rank)
    before = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    # One process or two continue what two began. `test_what_some_processes_began_any_number_resumes` compares numbers.
    resumed = start_together(*FIT, *LONG, "--out", "run", "--resume", "--quiet", num_processes=1 + rank, folder=folder)
    printed, complaints = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, complaints
    assert printed.count("\n") == 1
    assert printed.endswith("Run folder: run/\n")
    after = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert after[0] == before[0]
    assert json.loads(after[-1])["step"] == 200
    assert (folder / "run" / "summary.json").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Files of a ring of nodes with two classes, what two processes print that classify them, and their run."""
    tmp_path = tmp_path_factory.mktemp("whole")
    draw, numbers = np.random.default_rng(0), np.arange(200)
    columns = draw.normal(0, 1, (200, 3)) + (numbers[:, None] >= 100)
    lines = (f"{node},{','.join(f'{value:.4f}' for value in row)}" for node, row in zip(numbers, columns, strict=True))
    (tmp_path / "features.csv").write_text("\n".join(["node,a,b,c", *lines]))
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *(f"{node},{node // 100}" for node in numbers)]))
    edges = (f"{node},{(node + hop) % 200}" for node in numbers for hop in (1, 2))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]))
    launcher = start_together(*CLASSIFY, *SHARED, *LONG_TOO, "--out", "whole", "--quiet", folder=tmp_path)
    return tmp_path, launcher.communicate(timeout=120)[0]


@pytest.fixture
def nodes(whole, tmp_path):
    """The same files, in a folder of its own."""
    for path in whole[0].glob("*.csv"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_of_a_classifier_ends_all_with_one_line_and_a_resume_goes_on(nodes, whole, rank):
    command = (*CLASSIFY, *SHARED, *LONG_TOO)
    check_killed(start_together(*command, "--out", "run", folder=nodes), nodes, rank)
    before = (nodes / "run" / "metrics.jsonl").read_text().splitlines()
    # Two processes, or one, continue what two began.
    resumed = start_together(*command, "--out", "run", "--resume", "--quiet", num_processes=2 - rank, folder=nodes)
    printed, complaints = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, complaints
    assert printed.count("\n") == 1
    assert printed.endswith("Run folder: run/\n")
    undisturbed, said = whole
    assert said == printed.replace("run/", "whole/")
    runs = (nodes / "run", undisturbed / "whole")
    found, expected = ((run / "metrics.jsonl").read_text().splitlines() for run in runs)
    assert found[: len(before)] == before
    if rank == 0:
        assert found == expected
    assert [json.loads(line)["step"] for line in found] == [json.loads(line)["step"] for line in expected]


def test_a_mistake_is_one_line(folder):
    launcher = start_together(*FIT, "--horizon", "9999", folder=folder)
    printed, complaints = launcher.communicate(timeout=60)
    assert (launcher.returncode != 0, printed) == (True, "")
    (line,) = own_lines(complaints)
    assert line.startswith("Error: Expected")


def test_commands_that_processes_cannot_share_say_so(folder):
    lines = {
        ("explain", "run"): "Error: Expected one process for tdegnn explain, got 2 of torchrun. Start it without "
        "torchrun, which is for fit, classify and sweep.",
        ("classify", "cora"): "Error: Expected one process for tdegnn classify on the whole graph, got 2 of torchrun. "
        "Start it without torchrun, or add --batches, which processes share.",
    }
    for command, line in lines.items():
        launcher = start_together("-m", "tdegnn", *command, folder=folder)
        _, complaints = launcher.communicate(timeout=60)
        assert own_lines(complaints) == [line]


def test_fewer_batches_than_processes_are_one_line(nodes):
    launcher = start_together(*CLASSIFY, *BATCHES, "--network", "diffusion", "--device", "cpu", folder=nodes)
    printed, complaints = launcher.communicate(timeout=60)
    assert (launcher.returncode != 0, printed) == (True, "")
    (line,) = own_lines(complaints)
    assert line.startswith(
        "Error: Expected at least one batch per process, got 1 per step for 2 processes. Set batches_"
    )


SILENT = """
import sys, time
from tdegnn import TrainingError
from tdegnn.training.processes import join_processes

processes = join_processes(longest_wait=2.0)
processes.barrier()
if processes.is_first:
    try:
        processes.agree(1)
        processes.barrier()
    except TrainingError as error:
        print(error, flush=True)
else:
    processes.agree(0)
    time.sleep(20)
"""


def test_nobody_waits_forever_for_a_silent_process(folder):
    (folder / "silent.py").write_text(SILENT)
    began = time.monotonic()
    launcher = start_together("silent.py", folder=folder)
    line = launcher.stdout.readline()
    assert time.monotonic() - began < 15
    launcher.terminate()
    launcher.communicate(timeout=60)
    assert line.startswith("Expected 2 processes that train together to the end, got one that ended or does not answer")
