import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from torch import distributed

from tdegnn import Forecaster, InputError, NodeClassifier, cli
from tdegnn.torchrun import Launch, read_launch, takes_the_word
from tdegnn.training import processes
from tdegnn.training.processes import ALONE, agree_on_backend, each_alone, join_processes
from tests.experiments.tiny_nodes import make_tiny_nodes
from tests.torchrun import SOURCE

STARTED = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def test_the_environment_says_who_this_process_is():
    assert read_launch({}) == Launch(0, 1, 0, 1)
    assert read_launch(STARTED) == Launch(3, 4, 0, 1)
    assert read_launch(STARTED | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}) == Launch(3, 4, 1, 2)
    assert not read_launch(STARTED).is_first
    # Variables of the same name that something else has set.
    assert not read_launch({"WORLD_SIZE": "4"}).are_several
    assert not read_launch(STARTED | {"RANK": "first"}).are_several


def test_one_process_of_a_machine_speaks(tmp_path):
    folders = [tmp_path / "attempt_0" / str(rank) for rank in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
    files = [STARTED | {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json")} for folder in folders]
    assert [takes_the_word(environment) for environment in files] == [True, False]
    assert takes_the_word({})
    assert takes_the_word(STARTED)
    assert takes_the_word(STARTED | {"TORCHELASTIC_ERROR_FILE": str(tmp_path / "none" / "0" / "error.json")})


def test_what_processes_cannot_share_is_refused_unless_each_is_alone(monkeypatch):
    monkeypatch.setattr(processes, "read_launch", lambda: Launch(0, 2))
    model = NodeClassifier(num_steps=2, device="cpu", network="diffusion", baselines=False)
    with pytest.raises(InputError, match="one process for a training on the whole graph, got 2. Start one, or give"):
        model.fit(make_tiny_nodes(), split=0)
    with each_alone():
        assert join_processes() == ALONE
        model.fit(make_tiny_nodes(), split=0)


@pytest.mark.parametrize(
    ("can", "backend"),
    [([True, True, True], "cpu:gloo,cuda:nccl"), ([True, False, True], "gloo"), ([False, False, False], "gloo")],
)
def test_all_processes_talk_by_nccl_or_none_does(can, backend):
    """As on machines with and without a GPU."""
    store = distributed.HashStore()
    store.set_timeout(timedelta(seconds=30))

    def agree(rank):
        return agree_on_backend(store, Launch(rank, len(can)), has_nccl=can[rank])

    with ThreadPoolExecutor(len(can)) as pool:
        assert list(pool.map(agree, range(len(can)))) == [backend] * len(can)


ON_A_MACHINE = """
import json, torch
from tdegnn.torchrun import read_launch
from tdegnn.training.processes import join_processes

processes, launch = join_processes(), read_launch()
number = torch.tensor([processes.rank + 1.0])
processes.sum_over_processes(number)
print(json.dumps([processes.rank, processes.size, launch.local_rank, launch.local_size, number.item()]))
"""


def run_agents(folders, *command):
    """Run an agent of `torchrun` with one process per folder, as on machines. Return what they printed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(folders)), "--nproc-per-node", "1"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-id", "1", "--rdzv-endpoint", endpoint]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(SOURCE), CUDA_VISIBLE_DEVICES="")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    agents = [subprocess.Popen([*launcher, *command], cwd=folder, env=environment, **pipes) for folder in folders]
    ended = [agent.communicate(timeout=300) for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), ended
    return [printed for printed, _ in ended]


@pytest.mark.slow
def test_processes_of_two_machines_find_each_other(tmp_path):
    (tmp_path / "one.py").write_text(ON_A_MACHINE)
    found = sorted(json.loads(printed) for printed in run_agents([tmp_path, tmp_path], "one.py"))
    assert found == [[0, 2, 0, 1, 3.0], [1, 2, 0, 1, 3.0]]


LENGTH, NODES = 60, ["a", "b", "c", "d"]
TINY_FIT = ("fit", "series.csv", "--edges", "edges.csv", "--horizon", "2", "--window", "4", "--network", "walks")
TINY_FIT += ("--steps", "6", "--members", "1", "--hidden-channels", "4", "--precision", "64-true", "--device", "cpu")


def make_machine(folder):
    """A folder with the tables, as on a machine of its own."""
    folder.mkdir()
    values = np.random.default_rng(0).normal(size=(LENGTH, len(NODES))).cumsum(axis=0)
    pd.DataFrame(values, pd.RangeIndex(LENGTH, name="time"), NODES).to_csv(folder / "series.csv")
    pd.DataFrame({"source": NODES, "target": np.roll(NODES, 1)}).to_csv(folder / "edges.csv", index=False)
    return folder


def forecast_of(machine):
    return Forecaster.load(machine / "run").predict().values


@pytest.mark.slow
def test_a_fit_on_two_machines_is_that_of_one_process_and_one_of_them_has_the_run_folder(tmp_path, monkeypatch):
    machines = [make_machine(tmp_path / name) for name in ("one", "other")]
    printed = run_agents(machines, "-m", "tdegnn", *TINY_FIT, "--out", "run", "--quiet")
    # `torchrun` decides which machine has the first process.
    (first,) = (place for place, text in enumerate(printed) if text.endswith("Run folder: run/\n"))
    assert printed[1 - first] == ""
    assert sorted(path.name for path in machines[1 - first].iterdir()) == ["edges.csv", "series.csv"]
    alone = make_machine(tmp_path / "alone")
    monkeypatch.chdir(alone)
    with pytest.raises(SystemExit):
        cli.main([*TINY_FIT, "--out", "run", "--quiet"])
    np.testing.assert_allclose(forecast_of(machines[first]), forecast_of(alone), rtol=1e-9)
