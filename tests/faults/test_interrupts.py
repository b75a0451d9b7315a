"""Ctrl-C and other ends of a command, in real processes: one line, the right exit code, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tdegnn import cli

EXAMPLES = Path(__file__).parents[2] / "examples"
# A process of a background job ignores Ctrl-C, and so would its children.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import tdegnn.cli
print("ready", file=sys.stderr, flush=True)
tdegnn.cli.main()
"""


def start(*words):
    command = [sys.executable, "-c", PROGRAM, *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stderr.readline() == b"ready\n"
    return child


def interrupt(child, number=signal.SIGINT, gap=None):
    child.send_signal(number)
    if gap is not None:
        time.sleep(gap)
        child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert b"Traceback" not in out + err
    return child.returncode, err.decode()


def fit_words(folder):
    tables = [str(EXAMPLES / "cases.csv"), "--edges", str(EXAMPLES / "borders.csv")]
    # Quiet: on a busy machine, lines of progress would come before the one that is looked for.
    small = ["--steps", "100000", "--members", "1", "--hidden-channels", "4", "--quiet"]
    return ["fit", *tables, *small, "--out", str(folder)]


def wait_for(path, child):
    while not path.exists():
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [None, 0.0, 0.02])
def test_an_interruption_at_any_moment_is_one_line(tmp_path, gap):
    for delay in (0.02, 0.2, 0.5, 0.9, 1.4):
        child = start(*fit_words(tmp_path / f"run {delay}"))
        time.sleep(delay)
        code, said = interrupt(child, gap=gap)
        assert code == 130
        assert said.startswith("Interrupted.")
        assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "happened"), [("SIGINT", 130, "Interrupted"), ("SIGTERM", 143, "Terminated")]
)
def test_a_training_says_how_to_continue(tmp_path, number, code, happened):
    words = fit_words(tmp_path / "the run")
    child = start(*words)
    wait_for(tmp_path / "the run/config.json", child)
    start_of_command = " ".join(["tdegnn", *words[:-1]])
    expected = f"{happened}. Continue with: {start_of_command} '{tmp_path}/the run' --resume\n"
    assert interrupt(child, getattr(signal, number), gap=0.0) == (code, expected)


@pytest.mark.slow
def test_a_sweep_is_continued_by_the_same_command(tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_MIRROR", str(tmp_path))
    child = start("sweep", "cora", "--system", "TDE-GNN_D")
    time.sleep(0.1)
    assert interrupt(child) == (130, "Interrupted. Run the same command again to continue.\n")


@pytest.mark.slow
def test_an_ignored_interruption_stays_ignored(tmp_path):
    program = PROGRAM.replace("signal.default_int_handler", "signal.SIG_IGN")
    child = subprocess.Popen([sys.executable, "-c", program, "explain", "2,-1", "-q"], stderr=subprocess.PIPE)
    assert child.stderr.readline() == b"ready\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 0


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error():
    for words in (["data", "list"], ["explain", "2,-1"], ["--help"]):
        child = start(*words)
        child.stdout.close()
        with child.stderr:
            assert child.stderr.read() == b""
        assert child.wait(30) in (0, 1)


@pytest.mark.slow
def test_a_full_disk_behind_the_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", PROGRAM, "explain", "2,-1"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    message = b"Expected to use a file, got a system error (No space left on device). Check the path and the disk."
    assert done.stderr == b"ready\nError: " + message + b"\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to ..."
        ),
    ],
)
def test_too_little_memory_is_one_line(capsys, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("tdegnn.analysis.report.explain", fail)
    with pytest.raises(SystemExit) as end:
        cli.main(["explain", "2,-1"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("Error: Expected enough memory for this command, got too little. Close")


def test_other_errors_are_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("tdegnn.analysis.report.explain", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["explain", "2,-1"])


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["fit", "a b.csv"], "tdegnn fit 'a b.csv' --resume"),
        (["fit", "a.csv", "--resume"], "tdegnn fit a.csv --resume"),
        (["fit", "--", "-a.csv"], "tdegnn fit --resume -- -a.csv"),
        (["fit", os.fsdecode(b"caf\xe9's.csv")], r"tdegnn fit $'caf\xe9\x27s.csv' --resume"),
        (["fit", "caf\u00e9.csv"], "tdegnn fit 'caf\u00e9.csv' --resume"),
    ],
)
def test_the_command_to_continue_is_the_one_that_was_typed(words, command):
    assert cli._Stop(words)._continuation() == command


def test_main_leaves_signals_alone_if_it_is_called_by_a_program(capsys):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with pytest.raises(SystemExit):
        cli.main(["explain", "2,-1", "-q"])
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before
