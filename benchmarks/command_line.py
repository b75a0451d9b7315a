"""Measure how long a user waits for the command line, and for a prediction of a saved run, imports included.

Each time is that of a fresh process, from its start to its end. The processor time of a process, beside it, is steadier
on a busy machine. The runs are small: what is measured is the start of Python, imports, loading, and one prediction.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAM = (sys.executable, "-m", "tdegnn")
NUM_STEPS, NUM_NODES = 20, 200
REPETITIONS, WARM_UP = 7, 1
GOAL_HELP, GOAL_EXPLAIN, GOAL_PREDICTION = 0.3, 1.0, 3.0

LOAD_FORECASTER = """
import sys
from tdegnn import Forecaster
Forecaster.load(sys.argv[1]).predict()
"""
LOAD_CLASSIFIER = """
import sys
import numpy as np
from tdegnn import NodeClassifier
features, edges = (np.load(path) for path in sys.argv[2:])
NodeClassifier.load(sys.argv[1]).predict(features, graph=edges)
"""


class Waiting(NamedTuple):
    """How long processes took, in seconds: by the clock, and on processors."""

    wall: float
    processor: float


def measure() -> Iterator[tuple[str, float, str] | tuple[str, float, str, float]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {
            "tdegnn --help": ((*PROGRAM, "--help"), GOAL_HELP),
            "tdegnn explain": ((*PROGRAM, "explain", "1.4,0.2,-0.6"), GOAL_EXPLAIN),
            **{name: (command, GOAL_PREDICTION) for name, command in _predictions(folder).items()},
            "python -c 'import torch'": ((sys.executable, "-c", "import torch"), None),
        }
        found = wait_for({name: command for name, (command, _) in commands.items()}, folder, REPETITIONS, WARM_UP)
    for name, waiting in found.items():
        goal = commands[name][1]
        yield (name, waiting.wall, "s") if goal is None else (name, waiting.wall, "s", goal)
        yield f"{name}: processor time", waiting.processor, "s"


def _predictions(folder: Path) -> dict[str, Sequence[str]]:
    """Train a forecaster and a classifier, and return commands that load them and predict."""
    series, nodes = str(folder / "series"), str(folder / "nodes")
    tables = write_nodes(folder)
    steps = ("--steps", str(NUM_STEPS), "--quiet")
    borders = ("--edges", str(EXAMPLES / "borders.csv"))
    for command in (
        ("fit", str(EXAMPLES / "cases.csv"), *borders, *steps, "--out", series),
        ("classify", *tables, *steps, "--out", nodes),
    ):
        subprocess.run((*PROGRAM, *command), check=True, stdout=subprocess.DEVNULL, cwd=folder)
    arrays = (str(folder / "features.npy"), str(folder / "edges.npy"))
    return {
        "load a forecaster and predict": (sys.executable, "-c", LOAD_FORECASTER, series),
        "load a classifier and predict": (sys.executable, "-c", LOAD_CLASSIFIER, nodes, *arrays),
        "tdegnn predict, series": (*PROGRAM, "predict", series, "--out", str(folder / "forecast.csv")),
        "tdegnn predict, nodes": (*PROGRAM, "predict", nodes, "--out", str(folder / "predictions.csv")),
    }


def write_nodes(folder: Path) -> list[str]:
    """Write nodes of two classes as tables and as arrays. Return the options of `tdegnn classify` for the tables."""
    import numpy as np

    labels = np.arange(NUM_NODES) % 2
    features = np.eye(2)[labels] + np.random.default_rng(0).normal(0, 1, (NUM_NODES, 2))
    edges = np.stack([np.arange(NUM_NODES), (np.arange(NUM_NODES) + 2) % NUM_NODES])
    np.save(folder / "features.npy", features)
    np.save(folder / "edges.npy", edges)
    rows = {
        "features": ["node,a,b", *(f"{node},{a},{b}" for node, (a, b) in enumerate(features))],
        "edges": ["source,target", *(f"{source},{target}" for source, target in edges.T)],
        "labels": ["node,label", *(f"{node},{label}" for node, label in enumerate(labels))],
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [word for name in rows for word in (f"--{name}", str(folder / f"{name}.csv"))]


def wait_for(commands: Mapping[str, Sequence[str]], folder: Path, repetitions: int, warm_up: int) -> dict[str, Waiting]:
    """Run commands in turns, and return the medians of each."""
    times: dict[str, list[Waiting]] = {name: [] for name in commands}
    for repetition in range(warm_up + repetitions):
        for name, command in commands.items():
            waiting = _run(command, folder)
            if repetition >= warm_up:
                times[name].append(waiting)
    return {
        name: Waiting(*(statistics.median(values) for values in zip(*waitings, strict=True)))
        for name, waitings in times.items()
    }


def _run(command: Sequence[str], folder: Path) -> Waiting:
    before, started = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    wall, after = time.perf_counter() - started, os.times()
    return Waiting(wall, after.children_user + after.children_system - before.children_user - before.children_system)
