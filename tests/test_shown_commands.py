"""Commands that pages show and no test runs: their options are read by our parser, scripts and manifests by theirs."""

import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from torch.distributed.run import get_args_parser
from typer.main import get_command

from tdegnn import InputError
from tdegnn.cli.commands import app
from tests.pages import ROOT, blocks_of
from tests.test_pages import COMMANDS, is_run

PAGE = ROOT / "docs" / "several_machines.md"
PLAIN = [block for block in blocks_of(PAGE) if not block.language]
SCRIPTS = [block for block in PLAIN if block.text.startswith("#!/bin/bash")]
MANIFESTS = [block for block in PLAIN if block.text.startswith("apiVersion:")]
FILES = (".csv", ".npy", ".parquet")
EXAMPLES = ROOT / "examples"


def containers_of(block):
    return yaml.safe_load(block.text)["spec"]["template"]["spec"]["containers"]


def started_by(command):
    """The words of a command after `tdegnn`, and of `torchrun` before it. None for a command of another program."""
    words = shlex.split(command)
    if words[:1] == ["srun"]:
        words = words[1:]
    if words[:1] == ["torchrun"]:
        at = words.index("tdegnn")
        return words[1 : at + 1], words[at + 1 :]
    return ([], words[1:]) if words[:1] == ["tdegnn"] else None


def parse(shown):
    """Read a command as it is read when somebody types it, with tables of the names in it."""
    of_torchrun, words = started_by(shown)
    if of_torchrun:
        read = get_args_parser().parse_args(of_torchrun)
        assert (read.module, read.training_script) == (True, "tdegnn")
    for before, word in pairwise(words):
        if word.endswith(FILES) and before in ("fit", "sweep", "backtest", "store", "--edges"):
            assert not Path(word).is_absolute(), shown
            Path(word).parent.mkdir(exist_ok=True)
            shutil.copy(EXAMPLES / ("borders.csv" if before == "--edges" else "cases.csv"), word)
    command = get_command(app)
    while hasattr(command, "commands"):  # `reproduce` and `data` have commands of their own
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def is_ours(command):
    return started_by(command) is not None


SHOWN = [command for command in COMMANDS if is_ours(command) and not is_run(command)]
SHOWN += [command for block in SCRIPTS for command in block.commands if is_ours(command)]
SHOWN += [
    shlex.join(word.removeprefix("/data/") for word in container["args"])
    for block in MANIFESTS
    for container in containers_of(block)
]


@pytest.mark.parametrize("command", dict.fromkeys(SHOWN))
def test_a_command_that_is_shown_has_options_that_exist(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parse(command)


@pytest.mark.parametrize(
    "command",
    [
        "tdegnn sweep sales.csv --edges roads.csv --waits",
        "tdegnn swep sales.csv",
        "tdegnn fit sales.csv --edges none",
        "torchrun --nnodes two --procs-per-node 4 -m tdegnn fit sales.csv --edges roads.csv",
        "torchrun --nnodes 2 -m tdegnn fit sales.csv --edges roads.csv --nproc-per-node 4",
    ],
)
def test_a_wrong_command_is_found(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InputError, typer.TyperException, KeyError, SystemExit)):
        parse(command)


def test_the_page_shows_all_three_clusters():
    started = [started_by(command)[1][0] for block in SCRIPTS for command in block.commands if is_ours(command)]
    assert started == ["fit", "sweep"]
    assert len(MANIFESTS) == 1
    assert sum("first.local" in command for command in SHOWN) == 2


@pytest.mark.parametrize("block", SCRIPTS, ids=lambda block: f"line {block.line}")
def test_a_script_of_slurm_is_one_that_bash_reads(block):
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    assert block.text.splitlines()[1].startswith("#SBATCH --")


@pytest.mark.parametrize("block", MANIFESTS, ids=lambda block: f"line {block.line}")
def test_a_manifest_of_kubernetes_is_a_job_with_the_password_of_a_secret(block):
    job = yaml.safe_load(block.text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # others are refused for a job
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        folders = tuple(f"{mount['mountPath']}/" for mount in container["volumeMounts"])
        assert all(word.startswith(folders) for word in container["args"] if word.endswith(FILES))
        (password,) = (entry for entry in container["env"] if entry["name"] == "PGPASSWORD")
        assert password["valueFrom"]["secretKeyRef"].keys() == {"name", "key"}
