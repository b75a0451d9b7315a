"""What the processes of the fault tests do. The names and arguments come from another process, as JSON."""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna.storages.journal import JournalFileBackend

from tdegnn import cli
from tdegnn.cli.tables import write_table
from tdegnn.data.benchmarks import load
from tdegnn.data.benchmarks.fetch import DataFile, fetch
from tdegnn.data.nodes import NodeDataset
from tdegnn.experiments import sweep as sweeps
from tdegnn.experiments.node_systems import NodeRun
from tdegnn.experiments.recipe_files import read_recipes, write_recipe
from tdegnn.experiments.records import append_lines, pack_lines
from tdegnn.files import append_records
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.nodes.settings import NodeConfig
from tdegnn.runs.run_folder import SUMMARY
from tdegnn.training import loop
from tests.experiments.tiny_nodes import make_tiny_nodes
from tests.faults.nursery import SAMPLE, report

# Seconds that the first input may take: some fuzzers train a model before they damage it.
SLOWEST_START = 120.0
# The memory that an input may take on top of the imported libraries.
MOST_MEMORY = 2 * 2**30
# The most memory that a random input may ask for.
MEMORY_LIMIT = "512MB"


def command(arguments: list[str]) -> None:
    """Run a command. Trainings write a checkpoint at every validation, so that there is something to resume."""
    loop.fit.__kwdefaults__["save_every"] = 0.0
    _type(arguments)


def sweep(arguments: list[str]) -> None:
    """Run `tdegnn sweep` on a small dataset, with scores that need no training."""
    load.load_nodes = lambda _: make_tiny_nodes()
    sweeps.run_sweep.__kwdefaults__["train"] = _train_at_once
    _type(["sweep", *arguments])


def _type(words: list[str]) -> None:
    """Run a command as if it had been typed: only then, it handles signals."""
    sys.argv = ["tdegnn", *words]
    cli.main()


def _train_at_once(
    dataset: NodeDataset, configs: Sequence[NodeConfig], splits: Sequence[int], *, seed: int, placement: Any
) -> list[NodeRun]:
    return [
        NodeRun(config, split, seed, config.step_size, 1 - config.step_size, 1, False)
        for config in configs
        for split in splits
    ]


def describe_study(storage: str, name: str) -> None:
    """Report the finished trials of a study."""
    opened = optuna.storages.JournalStorage(JournalFileBackend(storage)) if "://" not in storage else storage
    for trial in optuna.load_study(study_name=name, storage=opened).get_trials(deepcopy=False):
        if trial.state.name in ("COMPLETE", "PRUNED"):
            report([trial.params, trial.value])


def save(model: str, targets: list[str]) -> None:
    """Save a forecaster to each folder that does not hold one yet."""
    loaded = Forecaster.load(model)
    for target in targets:
        if not (Path(target) / SUMMARY).exists():
            loaded.save(target)


def download(address: str, checksum: str, size: int, cache: str) -> None:
    """Download a file into the cache."""
    os.environ["TDEGNN_CACHE"] = cache
    os.environ.pop("TDEGNN_MIRROR", None)  # which would be asked in place of the address
    fetch(DataFile(SAMPLE, checksum, f"{address}/{SAMPLE}", most_bytes=size))


def append(path: str, writer: str, num_lines: int) -> None:
    """Append lines one by one."""
    for number in range(num_lines):
        append_records(Path(path), [{"writer": writer, "number": number, "text": "x" * (number % 7 * 3000)}])


def write_tables(path: str, num_rows: int, num_times: int) -> None:
    """Write a table again and again, as `tdegnn predict --out` does once."""
    frame = pd.DataFrame({"node": ["a"] * num_rows, "forecast": [0.5] * num_rows})
    for _ in range(num_times):
        write_table(frame, Path(path))


def append_results(path: str, num_lines: int) -> None:
    """Append result lines one by one, packed or not."""
    for number in range(num_lines):
        append_lines(Path(path), [{"number": number}])


def pack(path: str, num_times: int) -> None:
    """Pack the result lines again and again."""
    for _ in range(num_times):
        pack_lines(Path(path))


def recipes(path: str, dataset: str, systems: list[str]) -> None:
    """Write the settings of some systems into a recipe, one after another."""
    configs = read_recipes(dataset)
    for system in systems:
        write_recipe(Path(path), configs[system])


def fuzz(name: str, seeds: list[int], folder: str, slowest: float, longest: float) -> None:
    """Try random inputs one after another. Each is reported before and after it is tried.

    Args:
        name: The fuzzer.
        seeds: The inputs.
        folder: Where to make them.
        slowest: Seconds that each may take.
        longest: Seconds after which no further one is tried.
    """
    module = importlib.import_module(f"tests.faults.{name}")
    _limit_memory()
    end = time.monotonic() + longest
    for seed in seeds:
        if time.monotonic() > end:
            return
        report([seed])
        faulthandler.dump_traceback_later(slowest if seed != seeds[0] else SLOWEST_START, exit=True)
        place = Path(folder) / str(seed)
        place.mkdir(parents=True)
        try:
            answer = module.try_one(seed, place)
        except Exception as error:
            report([seed, "failed", _last_line(error)])
        else:
            report([seed, answer])
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(place, ignore_errors=True)


def count_inputs(name: str) -> None:
    """Report the number of inputs of a fuzzer that has a fixed list of them."""
    report(importlib.import_module(f"tests.faults.{name}").num_inputs())


def _limit_memory() -> None:
    from tdegnn.files import set_memory_limit

    set_memory_limit(MEMORY_LIMIT)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, used + MOST_MEMORY))


def _last_line(error: Exception) -> str:
    """Return the error and where it was raised, on one line."""
    places = traceback.extract_tb(error.__traceback__)
    place = f"{Path(places[-1].filename).name}:{places[-1].lineno}"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text[:200]} ({place})"
