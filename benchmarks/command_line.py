"""Measure how long a user waits for the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import interleaved_medians

PROGRAM = Path(sys.executable).parent / "tdegnn"


def measure() -> Iterator[tuple[str, float, str, float]]:
    def run(*arguments: str) -> None:
        subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.DEVNULL)

    contestants = {"--help": lambda: run("--help"), "explain": lambda: run("explain", "1.4,0.2,-0.6")}
    seconds = interleaved_medians(contestants, repetitions=7, warm_up=1)
    yield "tdegnn --help", seconds["--help"], "s", 0.5
    yield "tdegnn explain", seconds["explain"], "s", 1.0
