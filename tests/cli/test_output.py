"""How far a long work is: bars on a terminal, lines elsewhere."""

import io
import re
import time

import pytest
from rich.console import Console

from tdegnn.cli.output import compare_errors, progress_bar, progress_stages


@pytest.fixture
def quick_lines(monkeypatch):
    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 0.01)
    monkeypatch.setattr("tdegnn.cli.output.NEXT_LINE", 0.01)


def test_a_terminal_shows_a_bar_per_stage(monkeypatch):
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr("tdegnn.cli.output.Console", lambda **_: console)
    with progress_stages(is_quiet=False) as show:
        show("reading", 0, None)
        show("window search", 1, 5)
        show("training", 3, 4, "training: loss 1")
    last = terminal.getvalue().split("reading")[-1].splitlines()
    assert [line.split("%")[0].split()[-1] for line in last[:3]] == ["100", "100", "75"]
    assert last[1].startswith("window search")
    assert last[2].startswith("training: loss 1")


@pytest.mark.usefixtures("quick_lines")
@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (("reading", 0, None), r"reading \(\d+ s\)"),
        (("files", 2, None), r"files, step 2 \(\d+ s\)"),
        (("linear forecast", 0, 1), r"linear forecast \(\d+ s\)"),
        (("training", 3, 4, "training: loss 1"), r"training: loss 1, step 3 of 4 \(\d+ s\)"),
    ],
)
def test_lines_say_the_stage_and_its_steps(capsys, shown, line):
    printed = ""
    with progress_stages(is_quiet=False) as show:
        show(*shown)
        while printed.count("\n") < 2:
            time.sleep(0.01)
            printed += capsys.readouterr().err
    assert all(re.fullmatch(line, each) for each in printed.splitlines())


@pytest.mark.usefixtures("quick_lines")
def test_nothing_is_said_quietly_or_of_what_takes_no_time(capsys, monkeypatch):
    with progress_bar(3, "orders", is_quiet=True) as tick:
        tick("order 1")
        time.sleep(0.05)
    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 3.0)
    with progress_bar(3, "orders", is_quiet=False) as tick:
        tick()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("own", "naive", "words"),
    [
        (0.0, 0.0, "the forecaster is as good as the mean: MSE 0"),
        (2.0001, 2.0, "the forecaster is as good as the mean: MSE 2"),
        (3.0, 2.0, "the forecaster is no better than the mean: MSE 3, not 2"),
        (1.0, 2.0, "the forecaster is 50% better than the mean: MSE 1, not 2"),
    ],
)
def test_the_forecaster_is_compared_in_one_sentence(own, naive, words):
    assert compare_errors({"forecaster": {"mse": own}, "the mean": {"mse": naive}}) == words
