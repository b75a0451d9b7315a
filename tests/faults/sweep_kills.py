"""Kill `tdegnn sweep` at a random moment, run it again, and compare with a sweep that was left alone."""

import json
import random
import secrets
import tempfile
import time
from functools import cache
from pathlib import Path

import optuna

from tests.forked import Forked

# Settings are drawn at random for the first ten trials. Then they depend on the results.
OPTIONS = ("--system", "TDE-GNN_D", "--trials", "16", "--batch", "4", "--splits", "2", "--steps", "3")
OPTIONS += ("--finalists", "3", "--space", "wide", "--device", "cpu", "--json")
# The command, on a tiny dataset. It says when everything is imported, so that the kill comes later.
COMMAND = """
import sys
import tdegnn.experiments.sweep
from tdegnn import cli
from tdegnn.data.benchmarks import load
from tests.experiments.tiny_nodes import make_tiny_nodes

load.load_nodes = lambda name: make_tiny_nodes()
print("ready", flush=True)
cli.main(["sweep", "cora", *sys.argv[1:]])
"""


def kill_a_training_sweep(kind: str, seed: int, folder: Path, url: str | None = None) -> None:
    """Kill a sweep at the moment of this seed, continue it, and compare it with one that was left alone.

    A sweep that ends before its kill is begun again, with half the wait: how long one takes depends on what else
    the machine does.

    Args:
        kind: `journal`, `sqlite` or `postgresql`.
        seed: Chooses the moment.
        folder: An empty folder.
        url: The URL of a PostgreSQL server.

    Raises:
        AssertionError: The continued sweep is not equal to the other, did not succeed, or no kill came in time.
    """
    duration, wanted = _undisturbed()
    wait = random.Random(seed).uniform(0, duration)
    for attempt in range(6):
        place = folder / str(attempt)
        place.mkdir()
        storage = {"journal": str(place / "study.journal"), "sqlite": f"sqlite:///{place / 'study.db'}"}.get(kind, url)
        assert storage is not None, "PostgreSQL needs a URL"
        study = f"killed-{secrets.token_hex(8)}"
        process = start(storage, study, place / "recipe.toml")
        process.wait_for_a_line()
        time.sleep(wait / 2**attempt)
        process.kill()
        printed, complaint = process.communicate()
        assert "Traceback" not in complaint, complaint
        again = start(storage, study, place / "recipe.toml")
        printed, complaint = again.communicate()
        assert (again.returncode, complaint) == (0, ""), complaint
        assert outcome(storage, study, printed, place / "recipe.toml") == wanted
        if process.returncode:
            return
    raise AssertionError("Six sweeps ended before they were killed")


@cache
def _undisturbed() -> tuple[float, list[object]]:
    """Return how long a sweep takes that is left alone, and its outcome. It is the same for every storage."""
    with tempfile.TemporaryDirectory() as folder:
        storage, recipe = str(Path(folder) / "study.journal"), Path(folder) / "recipe.toml"
        process = start(storage, "alone", recipe)
        process.wait_for_a_line()
        began = time.monotonic()
        printed, complaint = process.communicate()
        assert process.returncode == 0, complaint
        return time.monotonic() - began, outcome(storage, "alone", printed, recipe)


def start(storage: str, study: str, recipe: Path) -> Forked:
    """Start the sweep of the study."""
    named = ("--storage", storage, "--study", study, "--recipe", str(recipe))
    return Forked(COMMAND, *OPTIONS, *named)


def outcome(storage: str, study: str, printed: str, recipe: Path) -> list[object]:
    """Return all that a sweep found: its trials, its finalists and its recipe."""
    from tdegnn.experiments.studies import StoredStudy, place_of

    opened = StoredStudy(study, place_of(storage))
    trials = facts(opened)
    opened.close()
    finalists = json.loads(printed.removeprefix("ready\n"))["finalists"]
    return [trials, finalists, recipe.read_text()]


def _attributes(trial: optuna.trial.FrozenTrial) -> dict[str, object]:
    return {name: value for name, value in trial.user_attrs.items() if name != "worker"}


def facts(study: optuna.Study) -> list[tuple[object, ...]]:
    """Return all that a study knows of its trials, but for times and processes."""
    return [
        (trial.number, trial.state.name, trial.values, trial.params, trial.intermediate_values, _attributes(trial))
        for trial in study.trials
    ]
